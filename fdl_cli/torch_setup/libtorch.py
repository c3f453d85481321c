"""The builds side by side: list them, show the available ones, switch, remove, prove again."""

from pathlib import Path

from fdl_cli.context import Context
from fdl_cli.errors import ConflictError, EnvironmentLackingError, OperationFailedError
from fdl_cli.system.collect import collect
from fdl_cli.system.facts import SystemFacts
from fdl_cli.system.python_env import Environment, find_environment, read_python
from fdl_cli.torch_setup.choice.catalogue import Build, load, numbers
from fdl_cli.torch_setup.choice.choose import choose
from fdl_cli.torch_setup.choice.constraints import Constraints, TorchChoice
from fdl_cli.torch_setup.choice.errors import require_platform
from fdl_cli.torch_setup.choice.notices import BLOCKING
from fdl_cli.torch_setup.install.builds import (
    KeptBuild,
    find_build,
    list_builds,
    read_build,
    remove_build,
    write_build,
)
from fdl_cli.torch_setup.install.installed import read_installed, read_record
from fdl_cli.torch_setup.install.switch import forget
from fdl_cli.torch_setup.libtorch_data import BuildRow, SwitchData, VariantRow
from fdl_cli.torch_setup.project_files import local_edit, pin_edits, write
from fdl_cli.torch_setup.setup_plan import STORE
from fdl_cli.torch_setup.setup_run import put_into, write_record
from fdl_cli.torch_setup.smoke_test import prove
from fdl_cli.torch_setup.smoke_test_result import Expectation, Proof


def stores_of(context: Context) -> tuple[Path, ...]:
    """Return where builds may be: the project's folder, then the shared one."""
    root = context.project_root or context.cwd
    return (root / STORE, context.directories.data / STORE)


def environment_of(context: Context, named: Path | None) -> Environment:
    """Return the environment that the builds are switched in."""
    root = context.project_root or context.cwd
    return find_environment(named, tuple(dict.fromkeys((root, context.cwd))), context.environ)


def list_rows(context: Context, env: Path | None) -> tuple[BuildRow, ...]:
    """Return all kept builds; one is active if the environment was given it last."""
    environment = environment_of(context, env)
    record = read_record(environment) or {}
    installed = read_installed(environment)
    rows: list[BuildRow] = []
    for build in (build for store in stores_of(context) for build in list_builds(store)):
        same = installed is not None and installed.name == f"{build.torch}+{build.variant}"
        rows.append(
            BuildRow(
                name=build.name, torch=build.torch, variant=build.variant, python=build.python,
                folder=build.folder, source=build.source, bytes=build.bytes, proved=build.proved,
                active=same and record.get("build") == build.name,
            )
        )  # fmt: skip
    return tuple(rows)


def variant_rows(context: Context, env: Path | None) -> tuple[VariantRow, ...]:
    """Return the builds for this machine, by the table, newest torch first."""
    environment = environment_of(context, env)
    return rows_for(collect(context.environ, context.cwd, read_python(environment)))


def rows_for(facts: SystemFacts) -> tuple[VariantRow, ...]:
    """Return the newest build of each variant; a GPU build works where its GPU does."""
    catalogue = load()
    builds = catalogue.builds[require_platform(facts.os, facts.python)]
    chosen = choose(facts, Constraints(), catalogue)
    rows: list[VariantRow] = []
    for variant in {build.variant for build in builds}:
        newest = max((b for b in builds if b.variant == variant), key=lambda b: b.key)
        try:
            choice = choose(facts, Constraints(variant=variant), catalogue)
        except EnvironmentLackingError as problem:
            rows.append(_row(newest, why=problem.message, works=False))
            continue
        build = next(b for b in builds if b.name == choice.name)
        lacking = _lacking(choice)
        rows.append(
            _row(
                build,
                why=lacking or choice.why,
                works=lacking is None,
                chosen=choice.name == chosen.name,
            )
        )
    return tuple(sorted(rows, key=lambda row: (numbers(row.torch), row.variant), reverse=True))


def describe(context: Context, name: str) -> KeptBuild:
    """Return one kept build.

    Raises:
        NotFoundError: there is none of this name.
    """
    return find_build(stores_of(context), name)


def activate(context: Context, name: str, env: Path | None) -> SwitchData:
    """Put a kept build into the environment; nothing is downloaded.

    Raises:
        FdlError: there is no such build or environment, or the build is for another Python.
    """
    build = describe(context, name)
    environment = _existing_environment(context, env)
    python = read_python(environment).version
    if python != build.python:
        raise ConflictError(
            error_id="build-for-other-python",
            message=f"`{build.name}` is for Python {build.python}, and {environment.folder} "
            f"has {python}",
            hint="see the others with `fdl libtorch list`",
        )
    full = f"{build.torch}+{build.variant}"
    installed = read_installed(environment)
    record = read_record(environment) or {}
    if installed is not None and installed.name == full and record.get("build") == build.name:
        return SwitchData(
            name=build.name, environment=str(environment.folder), changed=False, proof=None,
            notices=(),
        )  # fmt: skip
    notices = put_into(build, environment, context.console)
    # The kernels ran when the build was made; `verify` runs them again.
    write_record(environment, build, full, _recorded_proof(build), build.source)
    root = context.project_root or context.cwd
    address = build.source if build.source.startswith("http") else None
    for edit in (
        local_edit(root, build.variant),
        *pin_edits(root, build.torch, build.variant, address, labelled=build.labelled),
    ):
        if edit.changes:
            write(edit)
    return SwitchData(
        name=build.name, environment=str(environment.folder), changed=True, proof=None,
        notices=notices,
    )  # fmt: skip


def remove(context: Context, name: str, env: Path | None) -> BuildRow:
    """Delete a kept build; the active one must be switched away from first.

    Raises:
        FdlError: it is active, or it is no build in a store.
    """
    build = describe(context, name)
    row = next(row for row in list_rows(context, env) if row.folder == build.folder)
    if row.active:
        raise ConflictError(
            error_id="build-active",
            message=f"`{build.name}` is active in {environment_of(context, env).folder}",
            hint="switch to another first: `fdl libtorch activate NAME`",
        )
    remove_build(build, stores_of(context))
    forget(build.name, environment_of(context, env).folder)
    return row


def verify(context: Context, env: Path | None) -> SwitchData:
    """Prove the installed torch again, compare it with the record, and record the result.

    Raises:
        FdlError: torch is missing, or the proof does not hold.
    """
    environment = _existing_environment(context, env)
    installed = read_installed(environment)
    if installed is None:
        raise EnvironmentLackingError(
            error_id="torch-missing",
            message=f"there is no torch in {environment.folder}",
            hint="`fdl setup`",
        )
    record = read_record(environment) or {}
    recorded = str(record.get("name") or installed.name)
    torch, _, variant = recorded.partition("+")
    build = _recorded_build(context, record)
    proof = prove(
        environment.interpreter,
        Expectation(torch=torch, variant=variant, sm=build.sm if build is not None else ()),
    )
    if not proof.ok:
        raise OperationFailedError(
            error_id="proof-failed",
            message=f"{installed.name} in {environment.folder} does not work as it should",
            hint="`fdl setup` installs what fits; `fdl diagnose` looks for the reason",
            causes=proof.problems,
        )
    write_record(environment, build, installed.name, proof, str(record.get("source") or "unknown"))
    if build is not None:
        from dataclasses import replace

        from fdl_cli.torch_setup.install.acquire import now

        write_build(replace(build, proved=now()))
    return SwitchData(
        name=installed.name, environment=str(environment.folder), changed=False, proof=proof,
        notices=(),
    )  # fmt: skip


def _row(build: Build, *, why: str, works: bool = True, chosen: bool = False) -> VariantRow:
    return VariantRow(
        variant=build.variant,
        torch=build.version,
        sm=tuple(f"{major}.{minor}" for major, minor in build.sm),
        certainty=build.certainty,
        works=works,
        chosen=chosen,
        why=why,
    )


def _lacking(choice: TorchChoice) -> str | None:
    """Return what keeps a build from the GPUs that it is for, or None if it reaches them."""
    if all(warning.code != "requested_not_verified_here" for warning in choice.warnings):
        return None
    kind = choice.variant.rstrip("0123456789.")
    broken = (each.message for each in choice.warnings if each.code in BLOCKING)
    if kind == "cu" and (why := next(broken, None)):
        return why
    gpu = {"cu": "NVIDIA GPU", "rocm": "AMD GPU", "xpu": "Intel GPU"}[kind]
    return f"CPU only: no {gpu} here"


def _existing_environment(context: Context, env: Path | None) -> Environment:
    environment = environment_of(context, env)
    if environment.kind == "missing":
        raise EnvironmentLackingError(
            error_id="environment-missing",
            message=f"there is no environment at {environment.folder}",
            hint="`fdl setup` makes one, or name it with `--env DIR`",
        )
    return environment


def _recorded_build(context: Context, record: dict[str, object]) -> KeptBuild | None:
    name = record.get("build")
    for store in stores_of(context):
        build = read_build(store / str(name)) if name else None
        if build is not None:
            return build
    return None


def _recorded_proof(build: KeptBuild) -> Proof:
    return Proof(
        torch=f"{build.torch}+{build.variant}",
        cuda=None,
        hip=None,
        arch_list=build.sm,
        devices=(),
        problems=(),
        seconds=0.0,
    )
