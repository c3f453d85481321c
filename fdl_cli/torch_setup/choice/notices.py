"""The texts of the warnings that a choice may carry: code, what it means, what to do."""

from types import MappingProxyType
from typing import Final

from fdl_cli.torch_setup.choice.constraints import ChoiceWarning

# code -> (message, hint); `{}` takes the detail of the case.
_TEXTS: Final = MappingProxyType(
    {
        "minor_version_compat": (
            "{}; works within the same CUDA major, except PTX compilation and the newest features",
            "update the driver when you can; nothing else is needed",
        ),
        "driver_too_old_for_newest": (
            "a newer torch exists for these GPUs, but not for this driver{}",
            "update the NVIDIA driver, then run `fdl setup` again",
        ),
        "old_gpu_caps_torch": (
            "newer torch has no machine code for {}",
            "nothing to do: this is the newest torch for this GPU",
        ),
        "mixed_gpus_version_capped": (
            "each GPU alone could use a newer torch, but no newer build serves {} together",
            "choose one with `fdl setup --gpu INDEX` to get a newer torch for it",
        ),
        "gpu_not_covered": (
            "no build has machine code for all GPUs; left out: {}",
            (
                "choose the other with `fdl setup --gpu INDEX`, or build torch from source "
                "(`fdl libtorch build --dry-run`)"
            ),
        ),
        "no_build_for_gpu": (
            "no torch build{} has machine code for {}",
            (
                "see what exists with `fdl libtorch info`, or build torch from source "
                "(`fdl libtorch build --dry-run`)"
            ),
        ),
        "python_caps_torch": (
            "newer torch has no wheel for Python {}",
            "create the environment with a newer Python",
        ),
        "glibc_caps_torch": (
            "newer wheels need a newer glibc than {}",
            "use a newer system, or a container such as python:3.12-slim",
        ),
        "macos_caps_torch": (
            "newer wheels need a newer macOS than {}",
            "update macOS for a newer torch",
        ),
        "macos_x86_64_last_torch": (
            "torch 2.2.2 is the last with wheels for Intel Macs{}",
            "use a Linux machine or an Apple silicon Mac for newer torch",
        ),
        "gpu_hidden_by_env": (
            "{} hides all GPUs in this shell: torch will see none",
            "unset it before you train: `unset {}`",
        ),
        "mig": (
            "MIG is on for {}: one process sees one instance",
            "choose an instance with CUDA_VISIBLE_DEVICES=MIG-...; see `nvidia-smi -L`",
        ),
        "wsl": (
            "this is WSL2: the GPU driver belongs to Windows{}",
            "update the driver in Windows, never inside WSL",
        ),
        "jetson": (
            "this is a Jetson board ({}); it uses the server builds of CUDA 13",
            "keep JetPack 7 or newer",
        ),
        "unified_memory_unknown_vram": (
            "{} reports no memory of its own: it shares the system's",
            "watch the system memory instead (`free -h`)",
        ),
        "compute_cap_inferred": (
            (
                "the driver does not state the compute capability; it was inferred from the name "
                "of {}"
            ),
            "check it with `fdl libtorch verify` after the installation",
        ),
        "nvidia_driver_missing": (
            "there is an NVIDIA GPU ({}) but no driver",
            (
                "install the NVIDIA driver (Ubuntu: `sudo ubuntu-drivers install`), reboot, "
                "then run `fdl setup` again"
            ),
        ),
        "nvidia_driver_broken": (
            "the NVIDIA driver does not answer: {}",
            "{}",
        ),
        "nvidia_smi_garbled": (
            "`nvidia-smi` ends with exit code 0, but its output is garbage and lists no GPU: `{}`",
            (
                "`command -v nvidia-smi` shows which program this is; remove it if it is not the "
                "driver's, else reinstall the driver, then run `fdl setup` again"
            ),
        ),
        "gpu_dropped_by_driver": (
            "driver {} no longer serves this GPU ({})",
            (
                "install the 580 driver branch (the last for Maxwell, Pascal and Volta), reboot, "
                "then run `fdl setup` again"
            ),
        ),
        "container_without_gpu_runtime": (
            "the host has an NVIDIA driver{}, but this container was started without GPUs",
            (
                "start it with `docker run --gpus all ...`, or in compose reserve the device "
                "(deploy.resources.reservations.devices)"
            ),
        ),
        "requested_not_verified_here": (
            "{} was asked for and is taken, but no matching GPU is here to check it against",
            "verify it on the target machine with `fdl libtorch verify`",
        ),
        "ptx_jit": (
            (
                "no machine code for {}: the driver compiles PTX at the first start, which is "
                "slow, "
                "and CUDA libraries may still lack kernels"
            ),
            "do not pin the version, or verify with `fdl libtorch verify`",
        ),
        "igpu_ignored": (
            "the integrated GPU ({}) is left out because there is a discrete one",
            "set HIP_VISIBLE_DEVICES to the discrete GPU if torch picks the wrong one",
        ),
        "hsa_override_needed": (
            (
                "no build is made for {}; it works as gfx1030 only with "
                "HSA_OVERRIDE_GFX_VERSION=10.3.0, "
                "which AMD does not support"
            ),
            (
                "`export HSA_OVERRIDE_GFX_VERSION=10.3.0` before you start; "
                "AMD's own index (repo.amd.com) has device packages for it"
            ),
        ),
        "rocm_permission": (
            "{} may not be opened by this user",
            (
                "`sudo usermod -aG render,video $USER`, then log in again; in a container add "
                "`--device /dev/kfd --device /dev/dri --group-add video --group-add render`"
            ),
        ),
        "rocm_wsl_runtime": (
            "under WSL the HSA runtime inside the wheel cannot see the GPU{}",
            (
                "after the installation replace torch/lib/libhsa-runtime64.so with the system's "
                "(/opt/rocm/lib/libhsa-runtime64.so)"
            ),
        ),
        "amd_windows_unsupported": (
            "there is no ROCm build of torch for Windows on download.pytorch.org ({})",
            "AMD's own index has one (repo.amd.com/rocm), or use Linux or WSL",
        ),
        "amd_gpu_unsupported": (
            "no torch build has kernels for {}",
            "nothing to do: the CPU build is what works here",
        ),
        "intel_gpu_unsupported": (
            "{} is not supported by the xpu build",
            "nothing to do: the CPU build is what works here",
        ),
        "xpu_driver_missing": (
            "there is an Intel GPU ({}) but no working driver for it",
            (
                "install the kernel driver and the Level Zero runtime "
                "(`sudo apt install intel-opencl-icd libze-intel-gpu1`), then run `fdl setup` "
                "again"
            ),
        ),
        "index_lacks_newer": (
            "the index does not hold {}, which would fit here",
            "use another index with `--index-url`, or wait for the mirror",
        ),
        "index_unreachable": (
            "the index could not be read; planned from the table of {}",
            "run `fdl setup` again when the network is back",
        ),
        "vendor_index_available": (
            "the vendor's own index has a build for {}",
            "{}",
        ),
        "emulated_python": (
            "this Python is {} and runs under emulation, which is slow",
            "install a native Python for this machine",
        ),
    }
)

# Advice for a driver that does not answer, by how it failed.
DRIVER_REMEDIES: Final = MappingProxyType(
    {
        "mismatch": "reboot: the driver was updated while the old kernel module stayed loaded",
        "no_permission": "give this user access to /dev/nvidia*: `ls -l /dev/nvidia*`",
        "timeout": "reboot; if it stays, look for Xid errors in `sudo dmesg`",
        "broken": "`sudo modprobe nvidia` and read its error; reinstall the driver if it fails",
    }
)

# With `--strict` these are errors: the GPU that is there would not be used.
BLOCKING: Final = frozenset(
    {
        "no_build_for_gpu",
        "gpu_not_covered",
        "nvidia_driver_missing",
        "nvidia_driver_broken",
        "nvidia_smi_garbled",
        "gpu_dropped_by_driver",
        "container_without_gpu_runtime",
        "rocm_permission",
        "xpu_driver_missing",
        "amd_gpu_unsupported",
        "amd_windows_unsupported",
        "intel_gpu_unsupported",
        "vendor_index_available",
    }
)


def warn(code: str, *details: str) -> ChoiceWarning:
    """Return a warning with its texts; the last text takes what details are left over."""
    message, hint = _TEXTS[code]
    used = message.count("{}")
    return ChoiceWarning(
        code=code,
        message=message.format(*details[:used]),
        hint=hint.format(*details[used:]),
    )


def codes() -> tuple[str, ...]:
    """Return every code that exists."""
    return tuple(_TEXTS)
