"""`with` blocks in a flow hold for the same operations, in every call."""

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402 - torch may be missing

from flodl import FlowModule, view  # noqa: E402 - torch may be missing

pytestmark = pytest.mark.torch


class Modes(FlowModule):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)

    def flow(self, x):
        with torch.no_grad():
            y = x.through(self.a)
            with torch.enable_grad():
                z = x.through(self.b)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.training):
            w = z.through(self.a)
        return y, z, w


@pytest.mark.parametrize("is_training", [True, False])
def test_scopes_hold_again(is_training):
    modes = Modes().train(is_training)
    for _ in range(2):
        y, z, w = modes(torch.ones(2, 3))
        assert not y.requires_grad
        assert z.requires_grad
        assert w.dtype == (torch.bfloat16 if is_training else torch.float32)
        assert torch.is_grad_enabled()
    assert "    with torch.no_grad():\n        y = run" in modes.code
    assert len(modes._flodl_programs()) == 1


def test_a_block_that_is_left_by_an_error_is_left():
    class Fails(FlowModule):
        def flow(self, x):
            with torch.no_grad():
                return x @ x

    fails = Fails()
    fails(torch.ones(2, 2))
    for _ in range(2):
        with pytest.raises(RuntimeError):
            fails(torch.ones(2, 3))
        assert torch.is_grad_enabled()


def test_the_mode_of_a_call_is_a_question():
    class Asks(FlowModule):
        def flow(self, x):
            return x + 1 if torch.is_grad_enabled() else x

    asks = Asks()
    with torch.no_grad():
        assert asks(torch.ones(1)).item() == 1
    assert asks(torch.ones(1)).item() == 2
    with torch.no_grad():
        assert asks(torch.ones(1)).item() == 1


def test_profiles_and_taps_of_a_block():
    modes = Modes()
    view(modes).enable_profiling()
    modes(torch.ones(1, 3))
    modes(torch.ones(1, 3))
    assert "no_grad" in view(modes).flow_text()


class OnItsDevice(FlowModule):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)

    def flow(self, x):
        kind = (
            x.device.type if isinstance(x.device.type, str) and x.device.type != "mps" else "cpu"
        )
        with torch.autocast(device_type=kind, enabled=False):
            whole = x.through(self.body)
        with torch.autocast(x.device.type, torch.bfloat16):
            half = x.through(self.body)
        with torch.autocast(kind):
            default = x.through(self.body)
        return whole, half, default


def test_autocast_for_the_device_of_an_input():
    model, x = OnItsDevice(), torch.ones(2, 4)
    for outer in (True, False, True):
        with torch.autocast("cpu", enabled=outer):
            made = [each.dtype for each in model(x)]
        assert made == [torch.float32, torch.bfloat16, torch.bfloat16]
    assert "torch.autocast(device_type=type_" in view(model).flow_text()
    # Afterwards the context takes what it always took.
    with torch.autocast("cpu", enabled=False):
        assert torch.autocast("cpu").device == "cpu"


class Frozen(FlowModule):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)

    @torch.no_grad()
    def features(self, x):
        return x.through(self.body)

    def flow(self, x):
        y = self.features(x)
        if (y.sum() > 0).through(bool):
            y = y * 2
        return y + x


def test_helper_in_a_block_whose_result_is_asked_later_takes_both_ways():
    model, x = Frozen(), torch.randn(2, 4, requires_grad=True)
    for sign in (1, -1, 1, -1):
        y = model.body(sign * x * 9).detach()
        wanted = (y * 2 if y.sum() > 0 else y) + sign * x * 9
        assert torch.equal(model(sign * x * 9), wanted)
