"""Diagnosis for `fdl diagnose`: inspect, check, on request run kernels, on request write a report."""

from collections.abc import Mapping
from pathlib import Path

from fdl_cli import __version__
from fdl_cli.context import Context
from fdl_cli.diagnose.check import Check, check
from fdl_cli.diagnose.checks import run_checks
from fdl_cli.diagnose.inspection import Inspection, inspect
from fdl_cli.diagnose.redaction import redact
from fdl_cli.errors import FdlError
from fdl_cli.system.facts import SystemFacts
from fdl_cli.torch_setup.snapshot import snapshot_age


def diagnose(
    context: Context, env: Path | None, *, probe: bool
) -> tuple[SystemFacts, tuple[Check, ...]]:
    """Return the facts of this machine and every check, answered."""
    seen = inspect(
        environ=context.environ,
        cwd=context.cwd,
        project=context.project_root,
        named=env,
        snapshot_age_s=snapshot_age(context.directories.cache),
    )
    checks = run_checks(seen)
    if not probe:
        return seen.facts, checks
    after = 1 + max(number for number, item in enumerate(checks) if item.group == "gpu")
    return seen.facts, (*checks[:after], _probe(seen), *checks[after:])


def write_report(facts: SystemFacts, checks: tuple[Check, ...], environ: Mapping[str, str]) -> str:
    """Return the report as Markdown, without names, secrets and device UUIDs."""
    system = facts.os
    kernel = f", kernel {system.kernel}" if system.kernel else ""
    libc = f", {system.libc} {system.libc_version}" if system.libc else ""
    lines = [
        f"### fdl {__version__} diagnose",
        "",
        f"- system: {system.platform} {system.machine}{libc}{kernel}",
        f"- python: {facts.python.version} ({facts.python.implementation})",
        "",
        "| check | result | message |",
        "| --- | --- | --- |",
    ]
    lines += [
        f"| {item.id} | {item.severity} | {item.message.replace('|', '/')} |" for item in checks
    ]
    lines += ["", "<details><summary>sources</summary>", "", "```"]
    for source in facts.sources:
        code = "" if source.exit_code is None else f" (exit {source.exit_code})"
        lines.append(f"{source.source}: {source.verdict}{code}, {source.seconds:g} s")
        lines += [f"  {line}" for line in source.said.splitlines()[:20]]
    lines += ["```", "", "</details>", ""]
    return redact("\n".join(lines), environ)


def _probe(seen: Inspection) -> Check:
    from fdl_cli.torch_setup.smoke_test import prove
    from fdl_cli.torch_setup.smoke_test_result import Expectation

    if seen.installed is None:
        return check("gpu.probe", "info", "torch is not installed, so nothing can be run")
    try:
        proof = prove(seen.environment.interpreter, Expectation())
    except FdlError as problem:
        return check("gpu.probe", "error", problem.message, problem.hint)
    if not proof.ok:
        return check("gpu.probe", "error", "; ".join(proof.problems), "`fdl setup`")
    names = ", ".join(f"{device.device} ({device.name})" for device in proof.devices)
    return check(
        "gpu.probe", "ok", f"kernels, matmul and backward ran on {names}", seconds=proof.seconds
    )
