"""What is measured of the machine: processor, memory and GPUs."""

import time

import pytest

from flodl.monitor.monitor import Monitor

pytestmark = pytest.mark.torch

GB = 1 << 30


def test_the_machine_is_sampled():
    monitor = Monitor(1, quiet=True)
    limit = time.monotonic() + 10
    while not monitor._worker.run.series["resources"] and time.monotonic() < limit:
        time.sleep(0.05)
    monitor.log(0, 1.0, {})
    (logged,) = monitor.history()
    assert 0 <= logged.resources["cpu"] <= 100
    assert 0 < logged.resources["ram_used"] < logged.resources["ram_total"]
    monitor.finish()


def test_without_psutil_the_kernel_is_asked(monkeypatch):
    from flodl.monitor import resources

    monkeypatch.setattr(resources, "_module", lambda name: None)
    probe = resources.MachineProbe()
    probe.sample()
    time.sleep(0.05)
    found = probe.sample()
    host = {name for name in found if not name.startswith("vram")}  # torch tells those of a GPU
    assert host == {"cpu", "ram_total", "ram_used", "process_ram"}
    assert 0 <= found["cpu"] <= 100


class FakeNvml:
    """NVML of a machine with two GPUs, one of which does not tell its power."""

    class NVMLError(Exception):
        pass

    class Usage:
        def __init__(self, **values):
            self.__dict__.update(values)

    def nvmlInit(self):  # noqa: N802
        pass

    def nvmlDeviceGetCount(self):  # noqa: N802
        return 2

    def nvmlDeviceGetHandleByIndex(self, index):  # noqa: N802
        return index

    def nvmlDeviceGetUtilizationRates(self, handle):  # noqa: N802
        return self.Usage(gpu=80 - 40 * handle)

    def nvmlDeviceGetMemoryInfo(self, handle):  # noqa: N802
        return self.Usage(used=GB * (handle + 1), total=8 * GB)

    def nvmlDeviceGetPowerUsage(self, handle):  # noqa: N802
        if handle:
            raise self.NVMLError
        return 250_000

    def nvmlDeviceGetTemperature(self, handle, sensor):  # noqa: N802
        return 60 + 10 * handle

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle):  # noqa: N802
        return 0x20 * handle


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        (None, {"gpu": 60.0, "vram_used": 3.0 * GB, "vram_total": 16.0 * GB, "power": 250.0,
                "temperature": 65.0, "throttled": 1.0, "gpu1.gpu": 40.0}),
        ("1", {"gpu": 40.0, "vram_used": 2.0 * GB, "vram_total": 8.0 * GB, "temperature": 70.0}),
        ("", {}),
    ],
)  # fmt: skip
def test_gpus_are_asked_through_nvml(monkeypatch, visible, expected):
    from flodl.monitor import resources

    monkeypatch.setattr(
        resources, "_module", lambda name: FakeNvml() if name == "pynvml" else None
    )
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    found = resources.MachineProbe().sample()
    assert {name: found[name] for name in expected} == expected
    assert ("gpu" in found) is bool(expected)
