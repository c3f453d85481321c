"""The AMD and Intel parts of the choice."""

from dataclasses import replace
from typing import Final

from fdl_cli.system.facts import AmdGpu, IntelGpu, SystemFacts
from fdl_cli.torch_setup.choice import visibility
from fdl_cli.torch_setup.choice.catalogue import Catalogue, Numbers
from fdl_cli.torch_setup.choice.constraints import ChoiceWarning, Constraints
from fdl_cli.torch_setup.choice.explain import why_not_newest
from fdl_cli.torch_setup.choice.notices import warn
from fdl_cli.torch_setup.choice.nvidia_choice import Outcome
from fdl_cli.torch_setup.choice.selection import Problem, existing, solve
from fdl_cli.torch_setup.choice.visibility import hiding_variable

# These run the code made for gfx1030 when told to. gfx1033 computes wrong results that way and
# gfx1103 hangs with its own override, so neither is here.
_OVERRIDES: Final = {"gfx1031": "gfx1030", "gfx1032": "gfx1030", "gfx1034": "gfx1030"}

# The Intel families that the xpu build is validated for, with the first torch that was.
_XPU_SINCE: Final[tuple[tuple[str, Numbers], ...]] = (
    ("alchemist", (2, 5)),
    ("arc a", (2, 5)),
    ("data center gpu max", (2, 5)),
    ("data center max", (2, 5)),
    ("ponte vecchio", (2, 5)),
    ("meteor lake-h", (2, 5)),
    ("lunar lake", (2, 6)),
    ("arrow lake-h", (2, 6)),
    ("battlemage", (2, 7)),
    ("arc b", (2, 7)),
    ("panther lake", (2, 10)),
)


def choose_amd(
    facts: SystemFacts, problem: Problem, wishes: Constraints, catalogue: Catalogue
) -> Outcome:
    """Return the best ROCm build for the AMD GPUs, or why there is none."""
    gpus = facts.amd.gpus
    if not gpus:
        return Outcome(None, ())
    if facts.os.platform == "windows":
        return Outcome(None, (warn("amd_windows_unsupported", _names(gpus)),))
    if facts.amd.kfd is False and not facts.os.wsl:
        return Outcome(None, (warn("rocm_permission", "/dev/kfd does not exist, so it"),))
    discrete = tuple(gpu for gpu in gpus if gpu.gfx not in catalogue.integrated_gfx)
    considered = discrete or gpus
    ignored = tuple(gpu for gpu in gpus if gpu not in considered)
    targets, overridden = _targets(considered, problem)
    served = tuple(gpu for gpu, target in zip(considered, targets, strict=True) if target)
    if not served:
        return Outcome(None, (warn("amd_gpu_unsupported", _names(considered)),))
    full = replace(problem, gfx=tuple(target for target in targets if target))
    best = solve(full, catalogue)
    if best is None:
        return _without_rocm(full, considered, catalogue)
    left = tuple(gpu for gpu in considered if gpu not in served)
    warnings = [
        *_hidden(facts),
        *_rocm_surroundings(facts),
        *_about(ignored, left, overridden),
    ]
    if wishes.automatic:
        better = why_not_newest(full, best, (), catalogue, windows=False)
        warnings += [better.warning] if better else []
    return Outcome(
        best,
        tuple(warnings),
        tuple(gpu.gfx for gpu in served),
        tuple(gpu.gfx for gpu in left),
    )


def choose_intel(
    facts: SystemFacts, problem: Problem, wishes: Constraints, catalogue: Catalogue
) -> Outcome:
    """Return the best xpu build for the Intel GPUs, or why there is none."""
    gpus = facts.intel.gpus
    if not gpus:
        return Outcome(None, ())
    since = tuple(since for since in (xpu_since(gpu) for gpu in gpus) if since is not None)
    if not since:
        return Outcome(None, (warn("intel_gpu_unsupported", _families(gpus)),))
    if facts.intel.driver is None or facts.intel.level_zero is False:
        return Outcome(None, (warn("xpu_driver_missing", _families(gpus)),))
    full = replace(problem, oldest=min(since))
    best = solve(full, catalogue)
    if best is None:
        elsewhere = solve(replace(full, held=None), catalogue)
        if elsewhere is not None:
            return Outcome(None, (warn("index_lacks_newer", elsewhere.name),))
        return Outcome(None, (warn("intel_gpu_unsupported", _families(gpus)),))
    warnings: list[ChoiceWarning] = []
    if wishes.automatic:
        better = why_not_newest(full, best, (), catalogue, windows=False)
        warnings += [better.warning] if better else []
    served = tuple(gpu.family for gpu in gpus if xpu_since(gpu) is not None)
    return Outcome(best, tuple(warnings), served)


def xpu_since(gpu: IntelGpu) -> Numbers | None:
    """Return the first torch whose xpu build serves a GPU's family; None for the others."""
    family = gpu.family.lower()
    for name, since in _XPU_SINCE:
        if name in family:
            return since
    return None


def _targets(
    gpus: tuple[AmdGpu, ...], problem: Problem
) -> tuple[tuple[str | None, ...], tuple[AmdGpu, ...]]:
    """Return the gfx name that serves each GPU, and the GPUs that need an override for it."""
    # Some build has the kernels, wherever that build is held: that is enough.
    compiled = {name for build in existing(replace(problem, held=None)) for name in build.gfx}
    targets: list[str | None] = []
    overridden: list[AmdGpu] = []
    for gpu in gpus:
        target = gpu.gfx if gpu.gfx in compiled else _OVERRIDES.get(gpu.gfx)
        if target is not None and target not in compiled:
            target = None
        if target is not None and target != gpu.gfx:
            overridden.append(gpu)
        targets.append(target)
    if len(overridden) < sum(target is not None for target in targets):
        # The override changes every GPU of a process: never force it on one that needs none.
        targets = [
            None if gpu in overridden else target
            for gpu, target in zip(gpus, targets, strict=True)
        ]
        overridden = []
    return tuple(targets), tuple(overridden)


def _without_rocm(problem: Problem, gpus: tuple[AmdGpu, ...], catalogue: Catalogue) -> Outcome:
    elsewhere = solve(replace(problem, held=None), catalogue)
    if elsewhere is not None:
        return Outcome(None, (warn("index_lacks_newer", elsewhere.name),))
    return Outcome(None, (warn("amd_gpu_unsupported", _names(gpus)),))


def _hidden(facts: SystemFacts) -> tuple[ChoiceWarning, ...]:
    # Integrated GPUs count too, and ROCm does not list all of them: numbers prove nothing here.
    found = hiding_variable(facts, visibility.AMD, None)
    return (warn("gpu_hidden_by_env", f'{found[0]}="{found[1]}"', found[0]),) if found else ()


def _rocm_surroundings(facts: SystemFacts) -> tuple[ChoiceWarning, ...]:
    found: list[ChoiceWarning] = []
    if facts.os.wsl:
        found.append(warn("wsl", ""))
        if facts.amd.kfd is not True:
            found.append(warn("rocm_wsl_runtime", ""))
    if facts.amd.access is False:
        found.append(warn("rocm_permission", "/dev/kfd"))
    return tuple(found)


def _about(
    ignored: tuple[AmdGpu, ...], left: tuple[AmdGpu, ...], overridden: tuple[AmdGpu, ...]
) -> tuple[ChoiceWarning, ...]:
    found: list[ChoiceWarning] = []
    if ignored:
        found.append(warn("igpu_ignored", _names(ignored)))
    if left:
        found.append(warn("gpu_not_covered", _names(left)))
    if overridden:
        found.append(warn("hsa_override_needed", _names(overridden)))
    return tuple(found)


def _names(gpus: tuple[AmdGpu, ...]) -> str:
    return ", ".join(f"{gpu.name} ({gpu.gfx})" if gpu.name else gpu.gfx for gpu in gpus)


def _families(gpus: tuple[IntelGpu, ...]) -> str:
    return ", ".join(f"{gpu.family} ({gpu.device_id})" for gpu in gpus)
