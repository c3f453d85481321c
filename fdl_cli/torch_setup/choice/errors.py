"""Requests that no machine or not this machine can meet: errors that name the nearest choice."""

from typing import Final

from fdl_cli.errors import EnvironmentLackingError
from fdl_cli.system.facts import OsFacts, PythonFacts
from fdl_cli.torch_setup.choice.catalogue import Build, PlatformKey, numbers, platform_key
from fdl_cli.torch_setup.choice.constraints import Constraints
from fdl_cli.torch_setup.choice.selection import Problem, existing

_LABELS: Final[dict[PlatformKey, str]] = {
    "linux_x86_64": "Linux x86_64",
    "linux_aarch64": "Linux aarch64",
    "windows_amd64": "Windows x64 (win_amd64)",
    "windows_arm64": "Windows ARM64 (win_arm64)",
    "macos_arm64": "macOS arm64",
    "macos_x86_64": "macOS x86_64",
}


def label(key: PlatformKey) -> str:
    """Return the name of a platform for people."""
    return _LABELS[key]


def require_platform(system: OsFacts, python: PythonFacts) -> PlatformKey:
    """Return the row of the table for this machine.

    Raises:
        EnvironmentLackingError: torch has no wheels at all for it.
    """
    if python.implementation != "cpython":
        raise _lacking(
            "python-not-cpython",
            f"torch ships wheels for CPython only; this is {python.implementation} "
            f"{python.version}",
            "create the environment with CPython: `python3 -m venv .venv`",
        )
    if system.rosetta:
        raise _lacking(
            "python-under-rosetta",
            "this is an x86_64 Python under Rosetta on an Apple silicon Mac; "
            "torch needs an arm64 Python there",
            "install an arm64 Python, for instance `arch -arm64 brew install python`",
        )
    if system.libc == "musl":
        raise _lacking(
            "libc-musl",
            "torch has no wheels for musl libc (Alpine Linux): they are manylinux, for glibc",
            "use a glibc system, in containers `python:3.12-slim` instead of alpine",
        )
    key = platform_key(system)
    if key is None:
        raise _lacking(
            "machine-without-wheels",
            f"torch has no wheels for {system.machine} on {system.platform}",
            "build torch from source: `fdl libtorch build --dry-run` says what that needs",
        )
    return key


def require_existing(problem: Problem, wishes: Constraints, key: PlatformKey) -> None:
    """Refuse wishes that no build on this platform meets, with the nearest one.

    Raises:
        EnvironmentLackingError: there is no such build.
    """
    if existing(problem):
        return
    if key.startswith("macos") and wishes.variant not in (None, "cpu"):
        raise _lacking(
            "variant-not-on-macos",
            f"`{wishes.variant}` is not available on macOS: there is one build, with MPS",
            "leave out the variant: `fdl setup`",
        )
    if wishes.automatic:
        raise _without_build(problem, wishes, key)
    asked = f"{wishes.torch or ''}+{wishes.variant}" if wishes.variant else f"{wishes.torch}"
    near = _nearest(problem, wishes)
    where = label(key) if problem.held is None else f"{label(key)} in this index"
    if near and wishes.variant is None and near.version == wishes.torch:
        raise _lacking(
            "torch-build-missing",
            f"there is no CPU build of torch {wishes.torch} for {where}, only {near.name}",
            f"take it as it is: `fdl setup --torch {near.version} --variant {near.variant}`",
        )
    # Only an explicit request is proposed in another form; the rest is still chosen.
    variant = f"+{near.variant}" if near and wishes.variant else ""
    option = f" --variant {near.variant}" if near and wishes.variant else ""
    raise _lacking(
        "torch-build-missing",
        f"there is no torch build {asked.removeprefix('+')} for {where}"
        + (f"; the nearest is {near.version}{variant}" if near else ""),
        f"`fdl setup --torch {near.version}{option}`"
        if near
        else "see `fdl libtorch info` for what exists",
    )


def no_wheel(problem: Problem, wishes: Constraints, key: PlatformKey) -> EnvironmentLackingError:
    """Return the error for builds that exist, but not for this Python or this system."""
    builds = existing(problem)
    asked = "torch" if wishes.automatic else f"torch build {wishes.torch or wishes.variant}"
    for_python = [build for build in builds if problem.python in build.pythons]
    if for_python and problem.glibc is not None:
        floor = min(build.glibc for build in for_python if build.glibc is not None)
        return _lacking(
            "glibc-too-old",
            f"there is no {asked} for glibc {_dotted(problem.glibc)} on {label(key)}: "
            f"the oldest needs {_dotted(floor)}",
            "use a newer system, or a container such as `python:3.12-slim`",
        )
    if for_python:
        return _lacking(
            "macos-too-old",
            f"there is no {asked} for this macOS ({_dotted(problem.macos or ())}) on {label(key)}",
            "update macOS",
        )
    newest = max(builds, key=lambda build: build.key)
    pythons = sorted(newest.pythons, key=_python_order)
    return _lacking(
        "python-without-wheels",
        f"there is no {asked} wheel for Python {problem.python} on {label(key)}; "
        f"{newest.version} has them for {', '.join(pythons)}",
        f"create the environment with Python {pythons[-1]}",
    )


def _without_build(
    problem: Problem, wishes: Constraints, key: PlatformKey
) -> EnvironmentLackingError:
    """Return the error for a source that lacks the kind of build that this machine needs."""
    near = _nearest(problem, wishes)
    source = "name another source with `--index-url` or `--find-links`"
    if near is None:
        message = f"the source holds no torch build for {label(key)}"
        return _lacking("index-without-build", message, f"{source}, or leave out `--offline`")
    kind = "CPU" if problem.kind == "cpu" else "GPU"
    return _lacking(
        "index-without-build",
        f"the source holds no {kind} build of torch for {label(key)}, only builds like {near.name}",
        f"{source}, or take that one, which runs on the CPU: "
        f"`fdl setup --torch {near.version} --variant {near.variant}`",
    )


def _nearest(problem: Problem, wishes: Constraints) -> Build | None:
    """Return the build that keeps most of the wish: the variant, else the version."""
    free = Problem(
        kind=problem.kind,
        table=problem.table,
        held=problem.held,
        python=None,
        glibc=None,
        macos=None,
    )
    from dataclasses import replace

    if wishes.variant is not None:
        same = existing(replace(free, variant=wishes.variant))
        if same:
            return max(same, key=lambda build: build.key)
    for kind in ("cuda", "rocm", "xpu", "cpu"):
        if _kind_of(wishes.variant) not in (kind, None):
            continue
        builds = existing(replace(free, kind=kind))
        if wishes.torch is not None and builds:
            wanted = numbers(wishes.torch)
            older = [build for build in builds if build.key <= wanted]
            return max(older, key=_key) if older else min(builds, key=_key)
        if builds:
            return max(builds, key=_key)
    # Nothing of the wished kind exists here; the CPU build always does.
    return max(existing(free), key=_key, default=None)


def _key(build: Build) -> tuple[int, ...]:
    return build.key


def _kind_of(variant: str | None) -> str | None:
    if variant is None:
        return None
    if variant.startswith("cu"):
        return "cuda"
    return "rocm" if variant.startswith("rocm") else variant


def _python_order(name: str) -> tuple[int, int, bool]:
    major, _, minor = name.rstrip("t").partition(".")
    # The ordinary build comes last of its version, so that it is the one proposed.
    return int(major), int(minor), not name.endswith("t")


def _dotted(value: tuple[int, ...]) -> str:
    return ".".join(str(part) for part in value)


def _lacking(error_id: str, message: str, hint: str) -> EnvironmentLackingError:
    return EnvironmentLackingError(error_id=error_id, message=message, hint=hint)
