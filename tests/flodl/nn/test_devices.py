"""Questions about devices and memory, with and without a GPU."""

import gc
import inspect
import os
import re

import pytest
import torch

import flodl
from flodl.errors import DeviceError
from flodl.nn import devices
from flodl.nn.cuda_graphs import (
    CapturedStep,
    CudaGraph,
    cuda_graph_capture,
    cuda_graph_pool_handle,
)
from flodl.nn.optimizers import Adam

pytestmark = pytest.mark.torch

without_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")


@without_gpu
def test_without_a_gpu_every_question_has_an_answer():
    assert not devices.cuda_available()
    assert devices.cuda_device_count() == 0
    assert devices.cuda_devices() == ()
    assert devices.usable_cuda_devices() == ((), ())
    assert devices.cuda_memory_info() is None
    assert devices.cuda_utilization() is None
    for question in (
        devices.cuda_active_bytes,
        devices.cuda_allocated_bytes,
        devices.cuda_peak_active_bytes,
        devices.cuda_peak_reserved_bytes,
    ):
        assert question() == 0
    devices.cuda_reset_peak_stats()
    devices.cuda_empty_cache()
    devices.cuda_synchronize()
    assert devices.hardware_summary().endswith("no GPU")


@without_gpu
@pytest.mark.parametrize(
    "call",
    [
        devices.cuda_device_name,
        devices.cuda_compute_capability,
        CudaGraph,
        cuda_graph_pool_handle,
        pytest.param(lambda: cuda_graph_capture(1, None, list), id="capture"),
        pytest.param(lambda: CapturedStep(list, ()), id="step"),
    ],
)
def test_without_a_gpu_the_error_says_what_to_do(call):
    with pytest.raises(DeviceError, match="fdl diagnose"):
        call()


def test_memory_info_is_used_and_total(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda index: (30, 100))
    assert devices.cuda_memory_info() == (70, 100)


def test_utilization_is_none_where_nvml_is_missing(monkeypatch):
    def missing(index):
        raise ModuleNotFoundError("pynvml")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "utilization", missing)
    assert devices.cuda_utilization() is None


def test_probe():
    assert devices.probe_device("cpu") is None
    reason = devices.probe_device("meta")
    assert reason is not None
    assert "meta" in reason


def test_probe_explains_a_missing_kernel(monkeypatch):
    def refuse(*args, **kwargs):
        raise RuntimeError("CUDA error: no kernel image is available for execution on the device")

    monkeypatch.setattr(torch, "ones", refuse)
    assert "fdl setup" in devices.probe_device("cuda:0")


@pytest.mark.slow
def test_live_tensors_are_counted():
    gc.collect()
    before = devices.live_tensor_count()
    held = [torch.ones(1) for _ in range(10)]
    assert devices.live_tensor_count() == before + 10
    del held
    assert devices.live_tensor_count() == before


def test_resident_memory_grows_with_what_is_touched():
    before = devices.rss_kb()
    held = torch.ones(16 * 2**20)
    assert devices.rss_kb() - before > 0.8 * held.numel() * 4 / 1024


def test_malloc_trim_answers():
    assert devices.malloc_trim() in (True, False)


def test_cudnn_benchmark_is_set():
    before = torch.backends.cudnn.benchmark
    devices.set_cudnn_benchmark(not before)
    assert torch.backends.cudnn.benchmark is not before
    devices.set_cudnn_benchmark(before)


def test_summary_names_the_processor():
    assert f"{os.cpu_count()} cores" in devices.hardware_summary()


@pytest.mark.gpu
def test_with_a_gpu():
    held = torch.ones(2**20, device="cuda")
    used, total = devices.cuda_memory_info()
    assert 0 < used < total
    assert devices.cuda_active_bytes() >= held.numel() * 4
    assert devices.cuda_allocated_bytes() >= devices.cuda_active_bytes()
    assert devices.usable_cuda_devices()[0][0] == 0
    assert devices.cuda_devices()[0].name == devices.cuda_device_name(0)


@pytest.mark.gpu
def test_a_capture_replays_on_fresh_inputs():
    x = torch.ones(4, device="cuda")
    out = torch.zeros(4, device="cuda")
    graph = cuda_graph_capture(2, None, lambda: out.copy_(x * 2))
    x.fill_(5.0)
    graph.replay()
    torch.cuda.synchronize()
    assert out.tolist() == [10.0] * 4
    graph.reset()
    with pytest.raises(DeviceError, match="without capture_begin"):
        CudaGraph().capture_end()


@pytest.mark.gpu
def test_a_captured_training_step_learns():
    torch.manual_seed(0)
    net = torch.nn.Linear(4, 1).cuda()
    optimizer = Adam(net, 0.05, capturable=True)
    x, y = torch.randn(32, 4, device="cuda"), torch.randn(32, 1, device="cuda")

    def step(x, y):
        optimizer.zero_grad(set_to_none=False)
        loss = (net(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    captured = CapturedStep(step, (x, y))
    first = captured(x, y).item()
    for _ in range(100):
        last = captured(x, y)
    assert last.item() < first
    with pytest.raises(ValueError, match="recorded for shapes"):
        captured(x[:3], y[:3])


def test_streams_and_events_are_torchs():
    assert flodl.CudaStream is torch.cuda.Stream
    assert flodl.CudaEvent is torch.cuda.Event


QUERIES = sorted(name for name in vars(devices) if re.match(r"(usable_)?cuda_", name))


def test_every_query_has_a_device_neutral_name():
    neutral = {name.replace("cuda_", "gpu_", 1) for name in QUERIES}
    assert len(QUERIES) > 12
    public = {name for name in vars(flodl) if re.match(r"(usable_)?gpu_", name)}
    assert public == neutral
    assert flodl.GpuDevice is flodl.CudaDevice


@pytest.mark.parametrize("name", QUERIES)
def test_device_neutral_query_is_the_query(monkeypatch, name):
    neutral = getattr(flodl, name.replace("cuda_", "gpu_", 1))
    assert (
        inspect.signature(neutral).parameters
        == inspect.signature(getattr(devices, name)).parameters
    )
    given = (1,) if inspect.signature(neutral).parameters else ()
    answer = object()
    called = []
    monkeypatch.setattr(devices, name, lambda *a: called.append(a) or answer)
    found = neutral(*given)
    assert called == [given]
    assert found is (None if inspect.signature(neutral).return_annotation == "None" else answer)


@without_gpu
@pytest.mark.parametrize(
    ("cuda", "hip", "build"),
    [(None, None, "a build for CPUs"), ("12.6", None, "CUDA 12.6"), (None, "6.2", "ROCm 6.2")],
)
def test_without_a_gpu_the_error_names_the_build(monkeypatch, cuda, hip, build):
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(torch.version, "hip", hip)
    with pytest.raises(DeviceError, match=rf"the name of a GPU .*\({build}\) finds no GPU"):
        flodl.gpu_device_name()


@pytest.mark.gpu
def test_device_neutral_queries_answer_on_a_gpu():
    assert flodl.gpu_available()
    assert flodl.gpu_device_count() == len(flodl.gpu_devices()) >= 1
    assert flodl.gpu_device_name() == flodl.cuda_device_name()
    assert flodl.usable_gpu_devices()[0]
    used, total = flodl.gpu_memory_info()
    assert 0 < used <= total
    before = flodl.gpu_active_bytes()
    kept = torch.zeros(1 << 20, device="cuda")
    flodl.gpu_synchronize()
    assert flodl.gpu_active_bytes() - before >= kept.nbytes
    assert flodl.gpu_peak_active_bytes() >= flodl.gpu_active_bytes()
