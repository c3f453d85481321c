"""Reads of the process's state are guarded in long processes too, and the replacements end."""

import os

import pytest
import torch

from flodl import FlowModule
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
