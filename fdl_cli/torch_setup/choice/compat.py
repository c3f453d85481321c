"""Compatibility of machine code with GPUs, and of CUDA builds with drivers."""

from collections.abc import Iterable
from typing import Final

from fdl_cli.system.facts import NvidiaFacts, OsFacts
from fdl_cli.torch_setup.choice.catalogue import Build, Capability, Catalogue, numbers

# CUDA 13.2 builds of torch 2.14 and newer treat Jetson Orin as a server.
_LIFTED_CUDA: Final = (13, 2)
_LIFTED_TORCH: Final = (2, 14)
# The CUDA version of a driver that is older than the table.
BEFORE_ALL: Final[Capability] = (0, 0)
# Since CUDA 13, capability 10.1 is called 11.0.
_RENAMED: Final[dict[Capability, Capability]] = {(10, 1): (11, 0)}


def has_machine_code(build: Build, device: Capability, catalogue: Catalogue) -> bool:
    """Return True if a build carries machine code that runs on a device."""
    return any(_runs(code, device, build, catalogue) for code in build.sm)


def can_compile_ptx(build: Build, device: Capability, driver_cuda: Capability) -> bool:
    """Return True if the driver could compile the build's PTX for a device.

    That needs a driver at least as new as the toolkit that wrote the PTX.
    """
    cuda = build.cuda
    if cuda is None or driver_cuda < cuda:
        return False
    return any(code <= device for code in build.ptx)


def driver_runs(build: Build, driver_cuda: Capability) -> bool:
    """Return True if the driver runs the build's CUDA: the same major, or an older one."""
    return build.cuda is not None and build.cuda[0] <= driver_cuda[0]


def driver_runs_any(builds: Iterable[Build], driver_cuda: Capability) -> bool:
    """Return True if the driver runs the CUDA of at least one of the builds, whatever the GPU."""
    return any(driver_runs(build, driver_cuda) for build in builds)


def is_direct(build: Build, driver_cuda: Capability) -> bool:
    """Return True if the build needs no minor-version compatibility."""
    return build.cuda is not None and build.cuda <= driver_cuda


def driver_cuda(nvidia: NvidiaFacts, system: OsFacts, catalogue: Catalogue) -> Capability | None:
    """Return the driver's CUDA version: the driver library's word, else a table by its number."""
    if nvidia.cuda is not None:
        return nvidia.cuda
    if nvidia.driver is None:
        return None
    if system.wsl:
        # The number is that of the Windows driver: its branch counts, no table of minimums does.
        return cuda_of_driver(nvidia.driver.partition(".")[0], catalogue) or BEFORE_ALL
    windows = system.platform == "windows"
    return cuda_of_driver(nvidia.driver, catalogue, windows=windows) or BEFORE_ALL


def cuda_of_driver(
    driver: str, catalogue: Catalogue, *, windows: bool = False
) -> Capability | None:
    """Return the newest CUDA version that a driver number stands for; None before the first of the table."""
    number = numbers(driver)
    found: Capability | None = None
    for branch, cuda in catalogue.branches:
        if number[0] >= branch:
            found = cuda
    if found is None:
        return None
    lowest = catalogue.family_minimum.get(found[0])
    # A whole number such as `580` names a branch, not the first driver of it.
    if lowest is not None and len(number) > 1 and number < numbers(lowest[1 if windows else 0]):
        return found[0] - 1, 9
    return found


def newest_cuda_for(device: Capability, catalogue: Catalogue) -> Capability | None:
    """Return the CUDA version of the last driver branch for a GPU; None while branches continue."""
    for name in (f"{device[0]}.{device[1]}", f"{device[0]}.x"):
        branch = catalogue.last_branch.get(name)
        if branch is not None:
            return cuda_of_driver(str(branch), catalogue)
    return None


def lowest_driver(build: Build, catalogue: Catalogue, *, windows: bool) -> str:
    """Return the lowest driver number that runs a build's CUDA family."""
    if build.cuda is None:
        return ""
    lowest = catalogue.family_minimum.get(build.cuda[0])
    return lowest[1 if windows else 0] if lowest else ""


def _runs(code: Capability, device: Capability, build: Build, catalogue: Catalogue) -> bool:
    device = _RENAMED.get(device, device)
    if code in catalogue.only_exact:
        return code == device
    if code[0] != device[0] or code[1] > device[1]:
        return False
    lifted = build.cuda is not None and build.cuda >= _LIFTED_CUDA and build.minor >= _LIFTED_TORCH
    return lifted or device not in catalogue.excluded.get(code, frozenset())
