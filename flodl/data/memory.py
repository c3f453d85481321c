"""Free memory of a device, and the share of a data set that fits into it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import torch

CPU_DEPTH: Final = 2
_MOST_DEPTH: Final = 64
_UNKNOWN_DEPTH: Final = 4
_CGROUP = Path("/sys/fs/cgroup")


def free_and_total(device: torch.device) -> tuple[int, int]:
    """Return (free, total) bytes of a device; memory that torch reserves and does not use counts as free."""
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        reserved, used = torch.cuda.memory_reserved(device), torch.cuda.memory_allocated(device)
        return free + reserved - used, total
    return host_free_and_total()


def host_free_and_total() -> tuple[int, int]:
    """Return (available, total) bytes of main memory, within the limit of the container."""
    page = os.sysconf("SC_PAGE_SIZE")
    total = page * os.sysconf("SC_PHYS_PAGES")
    available = _meminfo_available() or total // 2
    limit = _number(_CGROUP / "memory.max")
    if limit is not None and limit < total:
        used = _number(_CGROUP / "memory.current") or 0
        return max(0, min(available, limit - used)), limit
    return available, total


def _meminfo_available() -> int | None:
    path = Path("/proc/meminfo")
    if not path.exists():
        return None
    for line in path.read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None  # no cgroup, or "max"


def room_for(device: torch.device, most_usage: float) -> int:
    """Return the bytes that may still be taken without using more than a share of the device."""
    free, total = free_and_total(device)
    return int(most_usage * total) - (total - free)


def activation_reserve(device: torch.device) -> int:
    """Return the bytes that a step needs beyond those allocated now, as far as a step has shown it."""
    if device.type != "cuda":
        return 0
    peak = torch.cuda.max_memory_allocated(device)
    return max(0, peak - torch.cuda.memory_allocated(device))


def prefetch_depth(device: torch.device, batch_bytes: int, most_usage: float) -> int:
    """Return the number of batches that fit on the device beside a step, at least 1.

    Args:
        device: the device.
        batch_bytes: size of a batch, 0 if unknown.
        most_usage: the share of the device's memory that may be in use.
    """
    if device.type != "cuda":
        return CPU_DEPTH
    if batch_bytes == 0:
        return _UNKNOWN_DEPTH
    room = room_for(device, most_usage) - activation_reserve(device)
    return max(1, min(_MOST_DEPTH, room // batch_bytes))


def is_out_of_memory(error: BaseException) -> bool:
    """Return True if an error means that there is not enough memory, of a GPU or of the host."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and "allocate memory" in str(error)


def size_of(tensors: tuple[torch.Tensor, ...]) -> int:
    """Return the bytes of some tensors."""
    return sum(each.numel() * each.element_size() for each in tensors)
