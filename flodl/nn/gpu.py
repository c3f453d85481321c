"""Device-neutral names of the queries about GPUs: torch answers for CUDA and ROCm under `torch.cuda`."""

from __future__ import annotations

from typing import TypeAlias

from flodl.nn import devices

GpuDevice: TypeAlias = devices.CudaDevice
"""One GPU as torch sees it; another name of `CudaDevice`."""


def gpu_available() -> bool:
    """Return whether torch can use a GPU, of NVIDIA (CUDA) or AMD (ROCm)."""
    return devices.cuda_available()


def gpu_device_count() -> int:
    """Return the number of GPUs that torch sees."""
    return devices.cuda_device_count()


def gpu_device_name(index: int = 0) -> str:
    """Return the name of a GPU.

    Raises:
        DeviceError: there is no GPU.
    """
    return devices.cuda_device_name(index)


def gpu_compute_capability(index: int = 0) -> tuple[int, int]:
    """Return the compute capability of a GPU; with ROCm, the first two numbers of its gfx version.

    Raises:
        DeviceError: there is no GPU.
    """
    return devices.cuda_compute_capability(index)


def gpu_devices() -> tuple[GpuDevice, ...]:
    """Return all GPUs; none without one."""
    return devices.cuda_devices()


def usable_gpu_devices() -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return the indices of GPUs on which a kernel runs, and a line about each that does not work."""
    return devices.usable_cuda_devices()


def gpu_memory_info(index: int | None = None) -> tuple[int, int] | None:
    """Return (used, total) bytes of a GPU, by all processes; None without a GPU."""
    return devices.cuda_memory_info(index)


def gpu_utilization(index: int | None = None) -> int | None:
    """Return how busy a GPU is in percent; None where that cannot be known."""
    return devices.cuda_utilization(index)


def gpu_active_bytes(index: int | None = None) -> int:
    """Return the bytes that live tensors occupy on a GPU; 0 without one."""
    return devices.cuda_active_bytes(index)


def gpu_allocated_bytes(index: int | None = None) -> int:
    """Return the bytes that torch's allocator has reserved on a GPU; 0 without one."""
    return devices.cuda_allocated_bytes(index)


def gpu_peak_active_bytes(index: int | None = None) -> int:
    """Return the most bytes that live tensors occupied since the last reset; 0 without a GPU."""
    return devices.cuda_peak_active_bytes(index)


def gpu_peak_reserved_bytes(index: int | None = None) -> int:
    """Return the most bytes that torch's allocator reserved since the last reset; 0 without a GPU."""
    return devices.cuda_peak_reserved_bytes(index)


def gpu_reset_peak_stats(index: int | None = None) -> None:
    """Begin a new measurement of peaks; without a GPU, do nothing."""
    devices.cuda_reset_peak_stats(index)


def gpu_empty_cache() -> None:
    """Give unused reserved memory back to the GPU; without one, do nothing."""
    devices.cuda_empty_cache()


def gpu_synchronize(index: int | None = None) -> None:
    """Wait until a GPU has done everything; without one, do nothing."""
    devices.cuda_synchronize(index)
