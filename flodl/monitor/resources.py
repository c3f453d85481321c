"""Use of processor, memory and GPUs, sampled by a separate thread."""

from __future__ import annotations

import contextlib
import importlib
import os
import threading
import time
from array import array
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

import torch

from flodl.monitor.store.frames import Rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SAMPLE_SECONDS: Final = 1.0
# The reasons of NVML for slowing down because of heat or power, as one set of bits.
_THROTTLED: Final = 0x4 | 0x8 | 0x20 | 0x40 | 0x80


@final
class Sampler:
    """Samples once a second and keeps the mean since the last read."""

    def __init__(
        self,
        emit: Callable[[Rows], None],
        each: Callable[[], None],
        seconds: float = SAMPLE_SECONDS,
    ) -> None:
        """Make a sampler.

        Args:
            emit: takes every sample.
            each: called after every sample, on the thread of the sampler.
            seconds: the time between samples.
        """
        self._emit, self._each, self._seconds = emit, each, seconds
        self._probe = MachineProbe()
        self._lock = threading.Lock()
        self._sums: dict[str, tuple[float, int]] = {}
        self._latest: dict[str, float] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="flodl-resources", daemon=True)

    def start(self) -> None:
        """Begin to sample."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(timeout=5)

    def mean(self) -> dict[str, float]:
        """Return the mean of the samples since the last call, the latest if there is none."""
        with self._lock:
            found = {name: total / count for name, (total, count) in self._sums.items()}
            self._sums = {}
            return found or dict(self._latest)

    def _run(self) -> None:
        # How busy a processor is, is known only between two looks of the same thread.
        self._probe.sample()
        self._stop.wait(min(0.25, self._seconds))
        while True:
            sample = self._probe.sample()
            with self._lock:
                self._latest = sample
                for name, value in sample.items():
                    total, count = self._sums.get(name, (0.0, 0))
                    self._sums[name] = total + value, count + 1
            if sample:
                now = array("d", [time.time()])
                columns = tuple(array("d", [value]) for value in sample.values())
                self._emit(
                    Rows(
                        group="resources",
                        names=tuple(sample),
                        steps=now,
                        times=now,
                        columns=columns,
                    )
                )
            self._each()
            if self._stop.wait(self._seconds):
                return


@final
class MachineProbe:
    """Reads the values that this machine offers, and leaves out the others."""

    def __init__(self) -> None:
        self._psutil = _module("psutil")
        self._process = self._psutil.Process() if self._psutil else None
        self._nvml = _module("pynvml")
        self._handles: list[Any] = []
        self._jiffies: tuple[int, int] | None = None
        if self._nvml is not None:
            try:
                self._nvml.nvmlInit()
                self._handles = [*_visible(self._nvml)]
            except self._nvml.NVMLError:
                self._nvml = None

    def sample(self) -> dict[str, float]:
        """Return percentages (`cpu`, `gpu`) and bytes (`ram_used`, `vram_used` ...) by name."""
        found: dict[str, float] = {}
        with contextlib.suppress(OSError, ValueError):
            found |= self._with_psutil() if self._psutil else self._with_proc()
        found |= self._gpus()
        return found

    def _with_psutil(self) -> dict[str, float]:
        memory = self._psutil.virtual_memory()
        found = {
            "cpu": float(self._psutil.cpu_percent(None)),
            "ram_used": float(memory.total - memory.available),
            "ram_total": float(memory.total),
        }
        if self._process is not None:
            with contextlib.suppress(self._psutil.Error):
                found["process_ram"] = float(self._process.memory_info().rss)
        return found

    def _with_proc(self) -> dict[str, float]:
        found: dict[str, float] = {}
        times = [int(each) for each in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
        total, idle = sum(times), times[3] + times[4]
        if self._jiffies is not None and total > self._jiffies[0]:
            busy = 1 - (idle - self._jiffies[1]) / (total - self._jiffies[0])
            found["cpu"] = 100 * max(0.0, min(1.0, busy))
        self._jiffies = total, idle
        lines = Path("/proc/meminfo").read_text().splitlines()
        memory = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines}
        found["ram_total"] = float(memory["MemTotal"])
        found["ram_used"] = float(memory["MemTotal"] - memory["MemAvailable"])
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        found["process_ram"] = float(pages * os.sysconf("SC_PAGE_SIZE"))
        return found

    def _gpus(self) -> dict[str, float]:
        found: dict[str, float] = {}
        each = [self._gpu(handle) for handle in self._handles]
        for index, sample in enumerate(each):
            for name, value in sample.items():
                if len(each) > 1:
                    found[f"gpu{index}.{name}"] = value
        for name in ("gpu", "temperature"):
            values = [sample[name] for sample in each if name in sample]
            if values:
                found[name] = sum(values) / len(values)
        for name in ("vram_used", "vram_total", "power", "throttled"):
            values = [sample[name] for sample in each if name in sample]
            if values:
                found[name] = sum(values)
        # Never a call that would start CUDA: only a program that uses it already is queried.
        started: Callable[[], bool] = torch.cuda.is_initialized
        if started():
            reserved = [torch.cuda.memory_reserved(i) for i in range(torch.cuda.device_count())]
            found["vram_reserved"] = float(sum(reserved))
        return found

    def _gpu(self, handle: Any) -> dict[str, float]:
        nvml, found = self._nvml, {}
        readings: dict[str, Callable[[], float]] = {
            "gpu": lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu,
            "vram_used": lambda: nvml.nvmlDeviceGetMemoryInfo(handle).used,
            "vram_total": lambda: nvml.nvmlDeviceGetMemoryInfo(handle).total,
            "power": lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
            "temperature": lambda: nvml.nvmlDeviceGetTemperature(handle, 0),
            "throttled": lambda: bool(
                nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle) & _THROTTLED
            ),
        }
        for name, read in readings.items():
            with contextlib.suppress(nvml.NVMLError):
                found[name] = float(read())
        return found


def _visible(nvml: Any) -> Iterator[Any]:
    """Yield the GPUs that torch may use."""
    wanted = os.environ.get("CUDA_VISIBLE_DEVICES")
    handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
    if wanted is None:
        yield from handles
        return
    for word in wanted.split(","):
        if word.strip().isdigit() and int(word) < len(handles):
            yield handles[int(word)]
        elif word.strip().startswith("GPU-"):
            with contextlib.suppress(nvml.NVMLError):
                yield nvml.nvmlDeviceGetHandleByUUID(word.strip())


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None
