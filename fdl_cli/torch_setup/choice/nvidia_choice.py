"""The NVIDIA part of the choice: driver states, selected GPUs, coverage, Jetson."""

from dataclasses import replace
from typing import NamedTuple, final

from fdl_cli.errors import EnvironmentLackingError, UsageError
from fdl_cli.system.facts import NvidiaFacts, NvidiaGpu, SystemFacts
from fdl_cli.torch_setup.choice import compat, visibility
from fdl_cli.torch_setup.choice.catalogue import Build, Capability, Catalogue
from fdl_cli.torch_setup.choice.constraints import ChoiceWarning, Constraints
from fdl_cli.torch_setup.choice.explain import why_not_newest
from fdl_cli.torch_setup.choice.notices import DRIVER_REMEDIES, warn
from fdl_cli.torch_setup.choice.selection import Picked, Problem, solve, solve_subset
from fdl_cli.torch_setup.choice.visibility import hiding_variable

WINDOWS_ARM_INDEX = "https://pypi.nvidia.com/nvtorch_oot"
JETSON_INDEX = "https://pypi.jetson-ai-lab.io"


@final
class Outcome(NamedTuple):
    """The result for one vendor: a build or none, and warnings either way."""

    build: Build | None
    warnings: tuple[ChoiceWarning, ...]
    covers: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


def select_gpus(nvidia: NvidiaFacts, wishes: Constraints) -> NvidiaFacts:
    """Keep only the GPUs that `--gpu` names, by index or UUID.

    Raises:
        UsageError: a named GPU does not exist.
    """
    if not wishes.gpus:
        return nvidia
    for word in wishes.gpus:
        if not any(_is_named(gpu, word) for gpu in nvidia.gpus):
            names = ", ".join(f"{gpu.index}: {gpu.name}" for gpu in nvidia.gpus) or "none"
            raise UsageError(
                error_id="gpu-unknown",
                message=f"there is no GPU `{word}`; found {names}",
                hint="list the GPUs with `fdl diagnose`",
            )
    kept = tuple(gpu for gpu in nvidia.gpus if any(_is_named(gpu, word) for word in wishes.gpus))
    return replace(nvidia, gpus=kept)


def choose_nvidia(
    facts: SystemFacts, problem: Problem, wishes: Constraints, catalogue: Catalogue
) -> Outcome:
    """Return the best CUDA build for the selected GPUs, or why there is none."""
    nvidia = facts.nvidia
    if nvidia.status != "ok" or not nvidia.gpus:
        return Outcome(None, driver_problem(facts))
    if facts.os.platform == "windows" and facts.os.machine == "arm64":
        hint = f"see {WINDOWS_ARM_INDEX} for torch with CUDA on Windows ARM64"
        elsewhere = warn("vendor_index_available", nvidia.gpus[0].name, hint)
        return Outcome(None, (_no_build(nvidia, wishes), elsewhere))
    driver = compat.driver_cuda(nvidia, facts.os, catalogue)
    caps = tuple(gpu.compute_cap for gpu in nvidia.gpus)
    known = tuple(cap for cap in caps if cap is not None)
    if driver is None or len(known) != len(caps):
        return Outcome(None, (_unknown_gpu(nvidia, driver),))
    full = replace(problem, caps=known, driver=driver, ptx=wishes.torch is not None)
    picked = solve_subset(full, tuple(gpu.memory_mib for gpu in nvidia.gpus), catalogue)
    if picked is None:
        return _without_build(facts, full, wishes, catalogue)
    return _with_build(facts, full, picked, wishes, catalogue)


def driver_problem(facts: SystemFacts) -> tuple[ChoiceWarning, ...]:
    """Name the driver's problem; nothing when there is no NVIDIA hardware."""
    nvidia = facts.nvidia
    pci = ", ".join(nvidia.pci) or "on the bus"
    match nvidia.status:
        case "absent" | "ok":
            return ()
        case "no_driver":
            return (warn("nvidia_driver_missing", pci),)
        case "dropped":
            return (warn("gpu_dropped_by_driver", nvidia.driver or "in use", pci),)
        case "no_runtime":
            version = f" ({nvidia.driver})" if nvidia.driver else ""
            return (warn("container_without_gpu_runtime", version),)
        case "garbled":
            return (warn("nvidia_smi_garbled", nvidia.detail or "..."),)
        case "broken" | "mismatch" | "no_permission" | "timeout":
            detail = nvidia.detail or nvidia.status.replace("_", " ")
            return (warn("nvidia_driver_broken", detail, DRIVER_REMEDIES[nvidia.status]),)


def _with_build(
    facts: SystemFacts, problem: Problem, picked: Picked, wishes: Constraints, catalogue: Catalogue
) -> Outcome:
    gpus = facts.nvidia.gpus
    kept = tuple(gpu for index, gpu in enumerate(gpus) if index not in picked.left_out)
    left = tuple(gpu.name for index, gpu in enumerate(gpus) if index in picked.left_out)
    warnings = [*_surroundings(facts, kept, wishes)]
    if picked.by_ptx:
        warnings.append(warn("ptx_jit", _names(kept)))
    if left:
        warnings.append(warn("gpu_not_covered", ", ".join(left)))
    if problem.driver is not None and not compat.is_direct(picked.build, problem.driver):
        warnings.append(warn("minor_version_compat", _distance(picked.build, problem.driver)))
    if wishes.automatic:
        caps = tuple(cap for i, cap in enumerate(problem.caps) if i not in picked.left_out)
        better = why_not_newest(
            replace(problem, caps=caps),
            picked.build,
            tuple(gpu.name for gpu in kept),
            catalogue,
            windows=facts.os.platform == "windows" or facts.os.wsl,
        )
        warnings += [better.warning] if better else []
    return Outcome(picked.build, tuple(warnings), tuple(gpu.name for gpu in kept), left)


def _without_build(
    facts: SystemFacts, problem: Problem, wishes: Constraints, catalogue: Catalogue
) -> Outcome:
    names = _names(facts.nvidia.gpus)
    if facts.os.tegra is not None:
        raise EnvironmentLackingError(
            error_id="jetson-needs-vendor-index",
            message=f"no torch build on download.pytorch.org runs on this Jetson ({names}, "
            f"L4T {facts.os.tegra}): the aarch64 builds are for servers",
            hint=f"take NVIDIA's build: `fdl setup --index-url {JETSON_INDEX}`",
        )
    elsewhere = solve(replace(problem, held=None), catalogue)
    if elsewhere is not None:
        return Outcome(None, (warn("index_lacks_newer", elsewhere.name),))
    newer_driver = solve(replace(problem, driver=None), catalogue)
    if newer_driver is not None:
        windows = facts.os.platform == "windows" or facts.os.wsl
        lowest = compat.lowest_driver(newer_driver, catalogue, windows=windows)
        if problem.driver is not None and not compat.driver_runs_any(
            problem.table, problem.driver
        ):
            raise _driver_too_old(facts.nvidia, newer_driver, lowest)
        detail = f": {newer_driver.name} needs driver {lowest} or newer"
        return Outcome(None, (warn("driver_too_old_for_newest", detail),))
    return Outcome(None, (_no_build(facts.nvidia, wishes),))


def _no_build(nvidia: NvidiaFacts, wishes: Constraints) -> ChoiceWarning:
    version = f" of version {wishes.torch}" if wishes.torch else ""
    return warn("no_build_for_gpu", version, _names(nvidia.gpus))


def _driver_too_old(nvidia: NvidiaFacts, build: Build, lowest: str) -> EnvironmentLackingError:
    """Return the error about a driver that works and runs no CUDA build at all."""
    driver = nvidia.driver or "of this machine"
    return EnvironmentLackingError(
        error_id="driver-too-old",
        message=f"driver {driver} is older than every CUDA build of torch for {_names(nvidia.gpus)}; "
        f"{build.name} needs driver {lowest} or newer",
        hint=f"install NVIDIA driver {lowest} or newer and reboot, or leave the GPU unused: "
        "`fdl setup --cpu`",
    )


def _surroundings(
    facts: SystemFacts, gpus: tuple[NvidiaGpu, ...], wishes: Constraints
) -> tuple[ChoiceWarning, ...]:
    """Return the warnings that hold for this machine, whatever the build."""
    found: list[ChoiceWarning] = []
    # Of a selection it is not known which numbers the others have.
    count = None if wishes.gpus else len(facts.nvidia.gpus)
    hidden = hiding_variable(facts, visibility.NVIDIA, count)
    if hidden is not None:
        found.append(warn("gpu_hidden_by_env", f'{hidden[0]}="{hidden[1]}"', hidden[0]))
    if any(gpu.mig for gpu in gpus):
        found.append(warn("mig", _names(tuple(gpu for gpu in gpus if gpu.mig))))
    if facts.os.wsl:
        found.append(warn("wsl", f" ({facts.nvidia.driver})" if facts.nvidia.driver else ""))
    shared = tuple(gpu for gpu in gpus if gpu.memory_mib is None)
    if shared:
        found.append(warn("unified_memory_unknown_vram", _names(shared)))
    if facts.os.tegra is not None:
        found.append(warn("jetson", facts.os.tegra))
    inferred = tuple(gpu for gpu in gpus if gpu.cap_source == "name-table")
    if inferred:
        found.append(warn("compute_cap_inferred", _names(inferred)))
    return tuple(found)


def _unknown_gpu(nvidia: NvidiaFacts, driver: Capability | None) -> ChoiceWarning:
    if driver is None:
        return warn(
            "nvidia_driver_broken",
            "it states neither its number nor its CUDA version",
            DRIVER_REMEDIES["broken"],
        )
    unknown = tuple(gpu for gpu in nvidia.gpus if gpu.compute_cap is None)
    return warn("no_build_for_gpu", "", f"{_names(unknown)} (compute capability unknown)")


def _distance(build: Build, driver: Capability) -> str:
    wanted = build.cuda or (0, 0)
    return (
        f"the driver speaks CUDA {driver[0]}.{driver[1]}, the build CUDA {wanted[0]}.{wanted[1]}"
    )


def _names(gpus: tuple[NvidiaGpu, ...]) -> str:
    described = (
        f"{gpu.name} ({gpu.compute_cap[0]}.{gpu.compute_cap[1]})" if gpu.compute_cap else gpu.name
        for gpu in gpus
    )
    return ", ".join(dict.fromkeys(described))


def _is_named(gpu: NvidiaGpu, word: str) -> bool:
    return word == str(gpu.index) or (gpu.uuid is not None and word.lower() == gpu.uuid.lower())
