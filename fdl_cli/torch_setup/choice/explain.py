"""Reasons why a choice is not the newest torch: relax one constraint at a time and solve again."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple, final

from fdl_cli.torch_setup.choice import compat
from fdl_cli.torch_setup.choice.catalogue import Build, Capability, Catalogue
from fdl_cli.torch_setup.choice.constraints import ChoiceWarning
from fdl_cli.torch_setup.choice.notices import warn
from fdl_cli.torch_setup.choice.selection import Problem, solve

_ANY_DRIVER: Final = (99, 9)


@final
class Better(NamedTuple):
    """The result of a relaxed problem, and the warning that says so."""

    build: Build
    warning: ChoiceWarning


def why_not_newest(
    problem: Problem, chosen: Build, names: tuple[str, ...], catalogue: Catalogue, *, windows: bool
) -> Better | None:
    """Return the one reason why nothing newer was chosen; None when there is nothing newer.

    `names` are the GPUs' names, in the order of the problem's capabilities.
    """
    for code, relaxed in _relaxations(problem, catalogue):
        better = solve(relaxed, catalogue)
        if better is None or better.key <= chosen.key:
            continue
        if code == "mixed_gpus_version_capped" and not _each_alone(problem, chosen, catalogue):
            continue
        return Better(better, _describe(code, problem, better, names, catalogue, windows=windows))
    return _jointly(problem, chosen, names, catalogue, windows=windows)


def _relaxations(problem: Problem, catalogue: Catalogue) -> Iterator[tuple[str, Problem]]:
    """Yield every constraint that could be the reason, in the order in which they are blamed."""
    if problem.held is not None:
        yield "index_lacks_newer", replace(problem, held=None)
    yield "python_caps_torch", replace(problem, python=None)
    yield "glibc_caps_torch", replace(problem, glibc=None)
    yield "macos_caps_torch", replace(problem, macos=None)
    if problem.kind != "cuda":
        return
    if len(set(problem.caps)) > 1:
        yield "mixed_gpus_version_capped", replace(problem, caps=problem.caps[:1])
    yield "driver_too_old_for_newest", replace(problem, driver=_newest_driver(problem, catalogue))
    yield "old_gpu_caps_torch", replace(problem, caps=(), driver=_ANY_DRIVER)


def _jointly(
    problem: Problem, chosen: Build, names: tuple[str, ...], catalogue: Catalogue, *, windows: bool
) -> Better | None:
    """Two constraints may hide each other: drop one after the other and blame the last."""
    relaxed = problem
    for code, _ in _relaxations(problem, catalogue):
        match code:
            case "index_lacks_newer":
                relaxed = replace(relaxed, held=None)
            case "python_caps_torch":
                relaxed = replace(relaxed, python=None)
            case "glibc_caps_torch":
                relaxed = replace(relaxed, glibc=None)
            case "macos_caps_torch":
                relaxed = replace(relaxed, macos=None)
            case "driver_too_old_for_newest":
                relaxed = replace(relaxed, driver=_newest_driver(problem, catalogue))
            case _:
                continue
        better = solve(relaxed, catalogue)
        if better is not None and better.key > chosen.key:
            return Better(
                better, _describe(code, problem, better, names, catalogue, windows=windows)
            )
    return None


def _each_alone(problem: Problem, chosen: Build, catalogue: Catalogue) -> bool:
    alone = (solve(replace(problem, caps=(cap,)), catalogue) for cap in set(problem.caps))
    return all(build is not None and build.key > chosen.key for build in alone)


def _newest_driver(problem: Problem, catalogue: Catalogue) -> Capability:
    """Return the newest CUDA that any driver for all of these GPUs could ever offer."""
    ends = (compat.newest_cuda_for(cap, catalogue) for cap in problem.caps)
    return min((end for end in ends if end is not None), default=_ANY_DRIVER)


def _describe(
    code: str,
    problem: Problem,
    better: Build,
    names: tuple[str, ...],
    catalogue: Catalogue,
    *,
    windows: bool,
) -> ChoiceWarning:
    match code:
        case "index_lacks_newer":
            detail = better.name
        case "python_caps_torch":
            detail = f"{problem.python} ({better.name} exists for others)"
        case "glibc_caps_torch":
            detail = f"{_dotted(problem.glibc)} ({better.name})"
        case "macos_caps_torch":
            detail = f"{_dotted(problem.macos)} ({better.name})"
        case "driver_too_old_for_newest":
            lowest = compat.lowest_driver(better, catalogue, windows=windows)
            detail = f": {better.name} needs driver {lowest} or newer"
        case "mixed_gpus_version_capped":
            detail = " and ".join(dict.fromkeys(names))
        case _:
            detail = ", ".join(dict.fromkeys(names))
    return warn(code, detail)


def _dotted(value: tuple[int, ...] | None) -> str:
    return ".".join(str(part) for part in value or ())
