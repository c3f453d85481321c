"""Selection of one build: newest torch first, then the rules inside one version.

A `Problem` holds every constraint as a value, so that the explanation can relax one of them and
solve again: the relaxation that helps is the reason.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, final

from fdl_cli.torch_setup.choice import compat
from fdl_cli.torch_setup.choice.catalogue import (
    Build,
    Capability,
    Catalogue,
    HeldBuild,
    Numbers,
    of_version,
    with_index,
)

Kind = Literal["cuda", "rocm", "xpu", "cpu"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Everything that limits the choice. None means: no limit of this kind."""

    kind: Kind
    table: tuple[Build, ...]
    held: tuple[HeldBuild, ...] | None
    python: str | None
    glibc: Numbers | None
    macos: Numbers | None
    torch: str | None = None
    variant: str | None = None
    caps: tuple[Capability, ...] = ()
    driver: Capability | None = None
    gfx: tuple[str, ...] = ()
    oldest: Numbers = ()
    ptx: bool = False


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Picked:
    """A build, and the GPUs of the problem that it does not serve."""

    build: Build
    left_out: tuple[int, ...] = ()
    by_ptx: bool = False


Solver = Callable[[Problem, Catalogue], Build | None]


def existing(problem: Problem) -> tuple[Build, ...]:
    """Return the builds that exist for the platform and the wishes, whatever the machine."""
    builds = problem.table if problem.held is None else with_index(problem.table, problem.held)
    if problem.torch is not None:
        builds = of_version(builds, problem.torch)
    if problem.variant is not None:
        return tuple(build for build in builds if build.variant == problem.variant)
    return tuple(build for build in builds if build.advertised and _is_kind(build, problem.kind))


def installable(problem: Problem) -> tuple[Build, ...]:
    """Return the builds whose wheels this Python and this system accept."""
    return tuple(build for build in existing(problem) if _fits_system(build, problem))


def solve(problem: Problem, catalogue: Catalogue) -> Build | None:
    """Return the best build for all GPUs of the problem, by machine code."""
    return _best(
        (build for build in installable(problem) if _serves(build, problem, catalogue)), problem
    )


def solve_ptx(problem: Problem, catalogue: Catalogue) -> Build | None:
    """Return the best build whose PTX the driver could compile for all GPUs."""
    driver = problem.driver
    if driver is None or not problem.ptx:
        return None
    del catalogue
    builds = [
        build
        for build in installable(problem)
        if compat.driver_runs(build, driver)
        and all(compat.can_compile_ptx(build, cap, driver) for cap in problem.caps)
    ]
    return _best(builds, problem)


def solve_subset(
    problem: Problem, memories: tuple[int | None, ...], catalogue: Catalogue
) -> Picked | None:
    """Serve all GPUs, else by PTX if allowed, else the subset with the most memory."""
    whole = solve(problem, catalogue)
    if whole is not None:
        return Picked(build=whole)
    compiled = solve_ptx(problem, catalogue)
    if compiled is not None:
        return Picked(build=compiled, by_ptx=True)
    best: tuple[tuple[int, int, Numbers], Picked] | None = None
    for kept in _subsets(problem.caps):
        indices = [index for index, cap in enumerate(problem.caps) if cap in kept]
        build = solve(_replace_caps(problem, tuple(sorted(kept))), catalogue)
        if build is None:
            continue
        memory = sum(memories[index] or 0 for index in indices)
        rank = (memory, len(indices), build.key)
        if best is None or rank > best[0]:
            left = tuple(index for index in range(len(problem.caps)) if index not in indices)
            best = (rank, Picked(build=build, left_out=left))
    return best[1] if best else None


def _replace_caps(problem: Problem, caps: tuple[Capability, ...]) -> Problem:
    from dataclasses import replace

    return replace(problem, caps=caps)


def _subsets(caps: tuple[Capability, ...]) -> Iterable[frozenset[Capability]]:
    kinds = sorted(set(caps))
    for size in range(len(kinds) - 1, 0, -1):
        yield from (frozenset(chosen) for chosen in combinations(kinds, size))


def _is_kind(build: Build, kind: Kind) -> bool:
    match kind:
        case "cuda":
            return build.cuda is not None
        case "rocm":
            return build.rocm is not None
        case "xpu" | "cpu":
            return build.variant == kind


def _fits_system(build: Build, problem: Problem) -> bool:
    if problem.python is not None and problem.python not in build.pythons:
        return False
    if problem.glibc is not None and build.glibc is not None and build.glibc > problem.glibc:
        return False
    return problem.macos is None or build.macos is None or build.macos <= problem.macos


def _serves(build: Build, problem: Problem, catalogue: Catalogue) -> bool:
    match problem.kind:
        case "cuda":
            if problem.driver is not None and not compat.driver_runs(build, problem.driver):
                return False
            return all(compat.has_machine_code(build, cap, catalogue) for cap in problem.caps)
        case "rocm":
            return all(name in build.gfx for name in problem.gfx)
        case "xpu":
            return build.key >= problem.oldest
        case "cpu":
            return True


def _best(builds: Iterable[Build], problem: Problem) -> Build | None:
    return max(builds, key=lambda build: _rank(build, problem), default=None)


def _rank(build: Build, problem: Problem) -> tuple[Numbers, int, Numbers]:
    # Newest torch first; inside it the default if direct, else the highest direct one, else the
    # default, else the highest. ROCm: the bundled layout before the layout of many wheels.
    if build.rocm is not None:
        return build.key, int(build.bundled), build.rocm
    if build.cuda is None:
        return build.key, 0, ()
    direct = problem.driver is None or compat.is_direct(build, problem.driver)
    return build.key, 2 * direct + build.default, build.cuda
