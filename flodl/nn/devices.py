"""Available devices and their memory; most functions work without a GPU too."""

from __future__ import annotations

import ctypes
import gc
import os
import platform
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import final

import torch

from flodl.errors import DeviceError


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CudaDevice:
    """One GPU as torch sees it: its index, name, total memory in bytes and compute capability."""

    index: int
    name: str
    total_memory: int
    capability: tuple[int, int]


def cuda_available() -> bool:
    """Return whether torch can use a GPU."""
    return torch.cuda.is_available()


def cuda_device_count() -> int:
    """Return the number of GPUs that torch sees."""
    return torch.cuda.device_count()


def _require_gpu(what: str) -> None:
    if not torch.cuda.is_available():
        cuda, rocm = torch.version.cuda, torch.version.hip
        build = f"CUDA {cuda}" if cuda else f"ROCm {rocm}" if rocm else "a build for CPUs"
        raise DeviceError(
            f"{what} of a GPU cannot be read: torch {torch.__version__} ({build}) finds no GPU; "
            "run `fdl diagnose --probe`"
        )


def cuda_device_name(index: int = 0) -> str:
    """Return the name of a GPU.

    Raises:
        DeviceError: there is no GPU.
    """
    _require_gpu("the name")
    return torch.cuda.get_device_name(index)


def cuda_compute_capability(index: int = 0) -> tuple[int, int]:
    """Return the compute capability of a GPU.

    Raises:
        DeviceError: there is no GPU.
    """
    _require_gpu("the compute capability")
    return torch.cuda.get_device_capability(index)


def cuda_devices() -> tuple[CudaDevice, ...]:
    """Return all GPUs; none without CUDA."""
    found = []
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        found.append(
            CudaDevice(
                index=index,
                name=properties.name,
                total_memory=properties.total_memory,
                capability=(properties.major, properties.minor),
            )
        )
    return tuple(found)


def probe_device(device: torch.device | str) -> str | None:
    """Run a small kernel on a device; return why it failed, or nothing if it works."""
    try:
        value = torch.ones(2, device=device).add_(1).sum().item()
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        if "no kernel image" in reason:
            return f"{reason}: this build of torch has no code for that GPU; run `fdl setup`"
        return reason
    return None if value == 4.0 else f"1 + 1 twice gave {value} on {device}"


def usable_cuda_devices() -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return the indices of GPUs on which a kernel runs, and a line about each that does not work."""
    failures = {index: probe_device(f"cuda:{index}") for index in range(torch.cuda.device_count())}
    usable = tuple(index for index, failure in failures.items() if failure is None)
    return usable, tuple(f"cuda:{i}: {failure}" for i, failure in failures.items() if failure)


def cuda_memory_info(index: int | None = None) -> tuple[int, int] | None:
    """Return (used, total) bytes of a GPU, by all processes; None without CUDA."""
    if not torch.cuda.is_available():
        return None
    free, total = torch.cuda.mem_get_info(index)
    return total - free, total


def cuda_utilization(index: int | None = None) -> int | None:
    """Return how busy a GPU is in percent; None where that cannot be known."""
    if not torch.cuda.is_available():
        return None
    try:
        return torch.cuda.utilization(index)
    except (RuntimeError, ImportError):
        # ModuleNotFoundError: torch calls NVML through a package that may not be installed.
        return None


def cuda_active_bytes(index: int | None = None) -> int:
    """Return the bytes that live tensors occupy on a GPU; 0 without CUDA."""
    return torch.cuda.memory_allocated(index)


def cuda_allocated_bytes(index: int | None = None) -> int:
    """Return the bytes that torch's allocator has reserved on a GPU; 0 without CUDA."""
    return torch.cuda.memory_reserved(index)


def cuda_peak_active_bytes(index: int | None = None) -> int:
    """Return the most bytes that live tensors occupied since the last reset; 0 without CUDA."""
    return torch.cuda.max_memory_allocated(index)


def cuda_peak_reserved_bytes(index: int | None = None) -> int:
    """Return the most bytes that torch's allocator reserved since the last reset; 0 without CUDA."""
    return torch.cuda.max_memory_reserved(index)


def cuda_reset_peak_stats(index: int | None = None) -> None:
    """Begin a new measurement of peaks; without CUDA, do nothing."""
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats(index)


def cuda_empty_cache() -> None:
    """Give unused reserved memory back to the GPU; without CUDA, do nothing."""
    torch.cuda.empty_cache()


def cuda_synchronize(index: int | None = None) -> None:
    """Wait until a GPU has done everything; without CUDA, do nothing."""
    if torch.cuda.is_available():
        torch.cuda.synchronize(index)


def set_cudnn_benchmark(enabled: bool) -> None:
    """Let cuDNN try its algorithms for every new shape, and keep the fastest."""
    torch.backends.cudnn.benchmark = enabled


def live_tensor_count() -> int:
    """Return how many tensors are alive; it walks every object of the program, so it is for debugging."""
    # type() and not isinstance: __class__ of some lazy objects warns when it is touched.
    return sum(issubclass(type(each), torch.Tensor) for each in gc.get_objects())


def rss_kb() -> int:
    """Return how much memory this process occupies, in KiB."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        pages = int(statm.read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") // 1024
    import resource  # does not exist on Windows

    # Without /proc only the peak is known; macOS counts it in bytes.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak // 1024 if sys.platform == "darwin" else peak


def malloc_trim() -> bool:
    """Ask the C library to give free memory back; return whether it did, False where it cannot."""
    if not sys.platform.startswith("linux") or platform.libc_ver()[0] != "glibc":
        return False
    return bool(ctypes.CDLL(None).malloc_trim(0))


def hardware_summary() -> str:
    """Return one line about the processor and the GPUs."""
    parts = [f"{platform.machine()} with {os.cpu_count()} cores"]
    parts += [
        f"cuda:{each.index} {each.name} ({each.total_memory / 2**30:.0f} GiB)"
        for each in cuda_devices()
    ]
    return ", ".join(parts) if len(parts) > 1 else f"{parts[0]}, no GPU"
