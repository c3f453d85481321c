"""An explicit variant: honoured without hardware, checked against the hardware that is there."""

from dataclasses import replace

from fdl_cli.errors import EnvironmentLackingError
from fdl_cli.system.facts import SystemFacts
from fdl_cli.torch_setup.choice import compat, errors
from fdl_cli.torch_setup.choice.catalogue import Build, Catalogue, PlatformKey
from fdl_cli.torch_setup.choice.constraints import Constraints
from fdl_cli.torch_setup.choice.notices import warn
from fdl_cli.torch_setup.choice.nvidia_choice import Outcome, choose_nvidia, driver_problem
from fdl_cli.torch_setup.choice.other_choice import choose_amd, choose_intel
from fdl_cli.torch_setup.choice.selection import Kind, Problem, solve


def choose_requested(
    facts: SystemFacts,
    problem: Problem,
    wishes: Constraints,
    catalogue: Catalogue,
    key: PlatformKey,
) -> Outcome:
    """Return the newest build of the requested variant that fits the hardware, if there is any.

    Raises:
        EnvironmentLackingError: there is no such build, or it cannot work on this hardware.
    """
    errors.require_existing(problem, wishes, key)
    free = solve(replace(problem, kind="cpu"), catalogue)
    if free is None:
        raise errors.no_wheel(problem, wishes, key)
    if free.variant == "cpu":
        return Outcome(free, ())
    checked = _check_here(facts, problem, free, wishes, catalogue)
    if checked is None:
        warning = warn("requested_not_verified_here", free.name)
        return Outcome(free, (*driver_problem(facts), warning))
    if checked.build is None:
        raise _impossible(facts, problem, free, wishes, catalogue)
    return checked


def _check_here(
    facts: SystemFacts, problem: Problem, build: Build, wishes: Constraints, catalogue: Catalogue
) -> Outcome | None:
    """Return the outcome by the matching vendor's rules; None when its hardware is not here."""
    if build.cuda is not None:
        if facts.nvidia.status != "ok" or not facts.nvidia.gpus:
            return None
        return choose_nvidia(facts, replace(problem, kind="cuda"), wishes, catalogue)
    if build.rocm is not None:
        if not facts.amd.gpus:
            return None
        return choose_amd(facts, replace(problem, kind="rocm"), wishes, catalogue)
    if not facts.intel.gpus:
        return None
    return choose_intel(facts, replace(problem, kind="xpu"), wishes, catalogue)


def _impossible(
    facts: SystemFacts, problem: Problem, build: Build, wishes: Constraints, catalogue: Catalogue
) -> EnvironmentLackingError:
    near = _nearest(facts, problem, catalogue)
    hint = (
        f"`fdl setup --torch {near.version} --variant {near.variant}`"
        if near
        else ("take the CPU build: `fdl setup --cpu`")
    )
    reason = _reason(facts, build, catalogue)
    nearest = f"; the nearest possible is {near.name}" if near else ""
    del wishes
    return EnvironmentLackingError(
        error_id="variant-impossible-here", message=f"{reason}{nearest}", hint=hint
    )


def _reason(facts: SystemFacts, build: Build, catalogue: Catalogue) -> str:
    if build.cuda is not None:
        driver = compat.driver_cuda(facts.nvidia, facts.os, catalogue)
        windows = facts.os.platform == "windows" or facts.os.wsl
        if driver is not None and not compat.driver_runs(build, driver):
            lowest = compat.lowest_driver(build, catalogue, windows=windows)
            return (
                f"{build.name} needs driver {lowest} or newer; "
                f"driver {facts.nvidia.driver or 'here'} speaks CUDA "
                f"{driver[0]}.{driver[1]}"
            )
        names = (f"{gpu.name} ({_cap(gpu.compute_cap)})" for gpu in facts.nvidia.gpus)
        has = ", ".join(f"{major}.{minor}" for major, minor in build.sm)
        return f"{build.name} has no kernels for {', '.join(names)}; it has them for {has}"
    if build.rocm is not None:
        names = (gpu.gfx for gpu in facts.amd.gpus)
        return f"{build.name} has no kernels for {', '.join(names)}"
    names = (f"{gpu.family} ({gpu.device_id})" for gpu in facts.intel.gpus)
    return f"{build.name} has no kernels for {', '.join(names)}, or its driver is missing"


def _nearest(facts: SystemFacts, problem: Problem, catalogue: Catalogue) -> Build | None:
    """Return the build that the same rules choose without the wish, keeping the version if possible."""
    vendors: tuple[Kind, ...] = ("cuda", "rocm", "xpu")
    for torch in dict.fromkeys((problem.torch, None)):
        wishes = Constraints(torch=torch)
        for kind in vendors:
            free = replace(problem, kind=kind, torch=torch, variant=None)
            choose = {"cuda": choose_nvidia, "rocm": choose_amd, "xpu": choose_intel}[kind]
            try:
                outcome = choose(facts, free, wishes, catalogue)
            except EnvironmentLackingError:
                continue
            if outcome.build is not None:
                return outcome.build
    return None


def _cap(capability: tuple[int, int] | None) -> str:
    return f"{capability[0]}.{capability[1]}" if capability else "unknown"
