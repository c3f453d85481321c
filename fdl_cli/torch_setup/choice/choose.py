"""Facts and wishes in, one torch build out: pure, and always with the reason.

Before: RTX 4090 on driver 535, no wishes
After:  TorchChoice(torch="2.14.1", variant="cu126", warnings=(driver_too_old_for_newest, ...))
"""

from dataclasses import replace
from typing import Final

from fdl_cli.errors import EnvironmentLackingError
from fdl_cli.system.facts import NvidiaFacts, NvidiaGpu, SystemFacts
from fdl_cli.torch_setup.choice import compat, errors
from fdl_cli.torch_setup.choice.catalogue import Build, Catalogue, HeldBuild, PlatformKey, numbers
from fdl_cli.torch_setup.choice.constraints import (
    NEWEST_DRIVER,
    ChoiceWarning,
    Constraints,
    TorchChoice,
)
from fdl_cli.torch_setup.choice.explain import why_not_newest
from fdl_cli.torch_setup.choice.notices import BLOCKING, warn
from fdl_cli.torch_setup.choice.nvidia_choice import Outcome, choose_nvidia, select_gpus
from fdl_cli.torch_setup.choice.other_choice import choose_amd, choose_intel
from fdl_cli.torch_setup.choice.requested import choose_requested
from fdl_cli.torch_setup.choice.selection import Kind, Problem, existing, solve

# A lower vendor's GPU is only worth a word when it is the one that would have been used.
_UNSUPPORTED: Final = frozenset({"intel_gpu_unsupported", "amd_gpu_unsupported"})


def choose(
    facts: SystemFacts,
    wishes: Constraints,
    catalogue: Catalogue,
    held: tuple[HeldBuild, ...] | None = None,
) -> TorchChoice:
    """Return the build that fits best; `held` is what an index holds, None for the table's word.

    Raises:
        EnvironmentLackingError: no build fits, or an explicit wish cannot be met here.
        UsageError: `--gpu` names a GPU that does not exist.
    """
    key = errors.require_platform(facts.os, facts.python)
    if wishes.gpu_target:
        facts = replace(facts, nvidia=_target(wishes, catalogue))
    else:
        facts = replace(facts, nvidia=select_gpus(facts.nvidia, wishes))
    problem = _problem(facts, wishes, catalogue, key, held)
    if wishes.variant is not None:
        outcome = choose_requested(facts, problem, wishes, catalogue, key)
    else:
        outcome = _automatic(facts, problem, wishes, catalogue, key)
    return _finish(facts, outcome, wishes)


def _problem(
    facts: SystemFacts,
    wishes: Constraints,
    catalogue: Catalogue,
    key: PlatformKey,
    held: tuple[HeldBuild, ...] | None,
) -> Problem:
    system = facts.os
    return Problem(
        kind="cpu",
        table=catalogue.builds[key],
        held=held,
        python=facts.python.version,
        glibc=numbers(system.libc_version) if system.libc_version else None,
        macos=numbers(system.macos_version) if system.macos_version else None,
        torch=wishes.torch,
        variant=wishes.variant,
    )


def _automatic(
    facts: SystemFacts,
    problem: Problem,
    wishes: Constraints,
    catalogue: Catalogue,
    key: PlatformKey,
) -> Outcome:
    """Try the vendors in their order; one without a build must not hide the next."""
    if wishes.torch is not None:
        _require_version(problem, wishes, key)
    gathered: tuple[ChoiceWarning, ...] = ()
    vendors = (
        (choose_nvidia, replace(problem, kind="cuda")),
        (choose_amd, replace(problem, kind="rocm")),
        (choose_intel, replace(problem, kind="xpu")),
    )
    for vendor, its_problem in vendors:
        outcome = vendor(facts, its_problem, wishes, catalogue)
        minor = gathered and {warning.code for warning in outcome.warnings} <= _UNSUPPORTED
        gathered += () if minor else outcome.warnings
        if outcome.build is not None:
            return outcome._replace(warnings=gathered)
    return _cpu(problem, wishes, catalogue, key, gathered)


def _require_version(problem: Problem, wishes: Constraints, key: PlatformKey) -> None:
    kinds: tuple[Kind, ...] = ("cuda", "rocm", "xpu", "cpu")
    if not any(existing(replace(problem, kind=kind)) for kind in kinds):
        errors.require_existing(problem, wishes, key)


def _cpu(
    problem: Problem,
    wishes: Constraints,
    catalogue: Catalogue,
    key: PlatformKey,
    gathered: tuple[ChoiceWarning, ...],
) -> Outcome:
    best = solve(problem, catalogue)
    if best is None:
        errors.require_existing(problem, wishes, key)
        raise errors.no_wheel(problem, wishes, key)
    if wishes.automatic:
        better = why_not_newest(problem, best, (), catalogue, windows=False)
        known = {warning.code for warning in gathered}
        if better is not None and better.warning.code not in known:
            gathered += (better.warning,)
    return Outcome(best, gathered)


def _finish(facts: SystemFacts, outcome: Outcome, wishes: Constraints) -> TorchChoice:
    build = outcome.build
    assert build is not None, "every branch above ends with a build or an error"
    warnings = list(outcome.warnings)
    if facts.os.platform == "macos" and facts.os.machine == "x86_64":
        warnings.append(warn("macos_x86_64_last_torch", ""))
    if facts.os.native_machine not in (None, facts.os.machine):
        warnings.append(warn("emulated_python", facts.os.machine))
    if wishes.gpu_target:
        warnings.append(warn("requested_not_verified_here", build.name))
    if wishes.strict:
        _refuse_blocking(build, tuple(warnings))
    return TorchChoice(
        torch=build.version,
        variant=build.variant,
        why=_why(build, outcome, tuple(warnings), wishes),
        warnings=tuple(warnings),
        covers=outcome.covers,
        left_out=outcome.left_out,
        sm=tuple(f"{major}.{minor}" for major, minor in build.sm),
        certainty=build.certainty,
        verified=build.known,
    )


def _refuse_blocking(build: Build, warnings: tuple[ChoiceWarning, ...]) -> None:
    for warning in warnings:
        if warning.code in BLOCKING:
            raise EnvironmentLackingError(
                error_id="strict-" + warning.code.replace("_", "-"),
                message=f"{warning.message}; without `--strict` {build.name} would be chosen",
                hint=warning.hint,
            )


def _why(
    build: Build, outcome: Outcome, warnings: tuple[ChoiceWarning, ...], wishes: Constraints
) -> str:
    """Write the sentences that explain a choice: its purpose, and why nothing newer."""
    if wishes.variant is not None:
        first = f"{build.name} as asked for"
    elif wishes.torch is not None:
        first = f"{build.name} is the best build of the asked version"
    else:
        first = f"{build.name} is the newest build that fits"
    if outcome.covers:
        first += f" and has machine code for {', '.join(dict.fromkeys(outcome.covers))}"
        if any(warning.code == "ptx_jit" for warning in warnings):
            first = f"{build.name} can be compiled by the driver for {outcome.covers[0]}"
    elif build.variant == "cpu" and wishes.variant is None and not warnings:
        first += "; no GPU was found"
    if not build.known:
        first += " (its machine code is inferred from an older version until it is verified)"
    return ". ".join((first, *(_sentence(warning.message) for warning in warnings)))


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _target(wishes: Constraints, catalogue: Catalogue) -> NvidiaFacts:
    """Return the NVIDIA facts of the machine that an image is built for."""
    driver = wishes.driver_target
    cuda = compat.cuda_of_driver(driver, catalogue) if driver else NEWEST_DRIVER
    if cuda is None:
        raise EnvironmentLackingError(
            error_id="driver-target-too-old",
            message=f"driver {driver} is older than every CUDA build of torch",
            hint="name a driver of 450 or newer with `--driver-target`",
        )
    if driver is None:
        ends = (compat.newest_cuda_for(cap, catalogue) for cap in wishes.gpu_target)
        cuda = min((end for end in ends if end is not None), default=NEWEST_DRIVER)
    gpus = tuple(
        NvidiaGpu(
            index=index,
            name=f"target GPU {cap[0]}.{cap[1]}",
            compute_cap=cap,
            memory_mib=0,
            cap_source="stated",
        )
        for index, cap in enumerate(wishes.gpu_target)
    )
    return NvidiaFacts(status="ok", driver=driver, cuda=cuda, gpus=gpus)
