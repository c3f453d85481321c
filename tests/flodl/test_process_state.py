"""Reads of the process's state are guarded in long processes too, and the replacements end."""

import os
from types import ModuleType

import pytest
import torch

from flodl import FlowModule
from flodl.tracing.reads.guard_values import switch_of
from flodl.tracing.reads.process_state import traced_process_state

pytestmark = pytest.mark.torch


class Scaled(FlowModule):
    def flow(self, x):
        return x * float(os.environ.get("FLODL_TEST_SCALE", "2"))


def test_environment_after_many_traces_is_guarded(monkeypatch):
    # CPython 3.13 gives a class 1,000 versions; a method that is replaced later is not always found.
    def read():
        for _ in range(10):  # the interpreter specializes what is called often
            os.environ.get("FLODL_TEST_SCALE")

    for _ in range(600):
        with traced_process_state():
            read()
        read()
    net = Scaled()
    assert net(torch.ones(1)).item() == 2
    monkeypatch.setenv("FLODL_TEST_SCALE", "5")
    assert net(torch.ones(1)).item() == 5


def test_process_state_after_a_trace_is_the_plain_one():
    kind, plain = type(os.environ), torch.is_grad_enabled
    with traced_process_state(), traced_process_state():
        assert type(os.environ) is not kind
        assert isinstance(os.environ, kind)
        assert torch.is_grad_enabled is not plain
    assert type(os.environ) is kind
    assert torch.is_grad_enabled is plain


def test_process_state_with_another_environment_is_traced(monkeypatch):
    monkeypatch.setattr(os, "environ", {"FLODL_TEST_SCALE": "3"})
    with traced_process_state():
        assert os.environ == {"FLODL_TEST_SCALE": "3"}


class Switched(FlowModule):
    def flow(self, x):
        y = x * (2 if torch.backends.mkldnn.enabled else 3)
        if torch.backends.cuda.matmul.allow_tf32:
            y = y + 1
        return y * (5 if torch.backends.cuda.flash_sdp_enabled() else 7)


def test_switches_of_the_backends_of_torch_are_guarded(monkeypatch):
    net = Switched()
    assert net(torch.ones(1)).item() == 10
    with monkeypatch.context() as patched:
        patched.setattr(torch.backends.mkldnn, "enabled", False)
        assert net(torch.ones(1)).item() == 15
    before = torch.backends.cuda.flash_sdp_enabled(), torch.backends.cuda.matmul.allow_tf32
    try:
        torch.backends.cuda.enable_flash_sdp(False)
        assert net(torch.ones(1)).item() == 14
        torch.backends.cuda.matmul.allow_tf32 = True
        assert net(torch.ones(1)).item() == 21
    finally:
        torch.backends.cuda.enable_flash_sdp(before[0])
        torch.backends.cuda.matmul.allow_tf32 = before[1]


class Registry:
    factor = 2.0
    calls = 0

    @classmethod
    def read(cls, depth=2):
        return cls.read(depth - 1) if depth else cls.factor

    @classmethod
    def other(cls):
        return cls.read()


class Wider(Registry):
    factor = 7.0


def counted(x):
    return x * counted.factor


class ClassReads(FlowModule):
    def flow(self, x):
        return counted(x * Registry.other()) + Wider.read()


def test_attributes_that_class_methods_and_functions_read_are_guarded(monkeypatch):
    monkeypatch.setattr(counted, "factor", 1.0, raising=False)
    net = ClassReads()
    assert net(torch.ones(1)).item() == 9
    monkeypatch.setattr(Registry, "factor", 3.0)
    assert net(torch.ones(1)).item() == 10
    monkeypatch.setattr(counted, "factor", 5.0)
    assert net(torch.ones(1)).item() == 22
    monkeypatch.setattr(Wider, "factor", 0.0)
    assert net(torch.ones(1)).item() == 15


class Looks(FlowModule):
    def __init__(self, path):
        super().__init__()
        self.path, self.folder = str(path), str(path.parent)

    def flow(self, x):
        y = x * (2 if os.path.exists(self.path) else 3)  # noqa: PTH110
        return y * len(os.listdir(self.folder))  # noqa: PTH208


def test_files_are_looked_for_in_every_call(tmp_path):
    net = Looks(tmp_path / "file")
    (tmp_path / "other").touch()
    assert net(torch.ones(1)).item() == 3
    (tmp_path / "file").touch()
    assert net(torch.ones(1)).item() == 4
    (tmp_path / "file").unlink()
    assert net(torch.ones(1)).item() == 3


def test_switch_of_another_lazy_module_loads_nothing():
    loaded = []
    lazy = ModuleType("lazy")
    lazy.__getattr__ = loaded.append
    assert list(switch_of(lazy, ("model", "enabled"))) == []
    assert loaded == []
    assert list(switch_of(torch, ("backends", "mkldnn", "enabled"))) == [
        (True, "backends.mkldnn.enabled")
    ]
