"""Scopes that ported code calls guards: they work in `with`, and warn where they were only kept."""

import gc

import pytest
import torch

from flodl import AutocastGuard, Flow, FlowModule, NoGradGuard

pytestmark = pytest.mark.torch

dtype = torch.bfloat16
KINDS = {
    "no_grad": (NoGradGuard, torch.is_grad_enabled, False),
    "autocast": (lambda: AutocastGuard(dtype, "cpu"), lambda: torch.is_autocast_enabled("cpu"), True),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_guard_kept_in_a_variable_warns_at_its_end(kind):
    make, mode, inside = KINDS[kind]
    guard = make()
    assert mode() is not inside
    told = r"Guard was never entered.* write `with \w+Guard\(.*\):`"
    with pytest.warns(RuntimeWarning, match=told):
        del guard


@pytest.mark.parametrize("kind", KINDS)
def test_guard_entered_changes_the_mode_and_is_silent(kind):
    make, mode, inside = KINDS[kind]
    with make():
        assert mode() is inside
    assert mode() is not inside
    again = make()
    for _ in range(2):
        with again:
            assert mode() is inside
    assert mode() is not inside
    decorated = make()(mode)
    assert decorated() is inside
    del again, decorated
    gc.collect()


def test_guard_whose_construction_fails_is_silent():
    with pytest.raises(TypeError):
        NoGradGuard(1)
    with pytest.raises(RuntimeError):
        AutocastGuard(torch.bfloat16, "no such device")
    gc.collect()


class Guarded(FlowModule):
    def flow(self, x: Flow) -> Flow:
        with NoGradGuard():
            held = x * 2
        return held + x


def test_guard_works_in_a_flow_and_in_a_compiled_function():
    x = torch.ones(2, requires_grad=True)
    graph = Guarded()
    for _ in range(2):
        x.grad = None
        graph(x).sum().backward()
        assert x.grad.tolist() == [1.0, 1.0]

    @torch.compile(fullgraph=True, backend="eager")
    def compiled(x):
        with NoGradGuard():
            held = x * 2
        return held + x

    x.grad = None
    compiled(x).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
