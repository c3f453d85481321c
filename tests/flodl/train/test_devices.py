"""The devices that a builder is given: a number, names, or all of them."""

import pytest
import torch

from flodl import DeviceError, Trainer
from flodl.train.settings import named_devices

pytestmark = pytest.mark.torch


@pytest.fixture
def gpus(monkeypatch):
    def pretend(count):
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)

    return pretend


@pytest.mark.parametrize(
    ("count", "given", "named"),
    [
        (0, 2, ("cpu", "cpu")),
        (0, 1, ()),
        (0, "all", ()),
        (3, 2, ("cuda:0", "cuda:1")),
        (3, 1, ()),
        (3, "all", ("cuda:0", "cuda:1", "cuda:2")),
        (3, ["cuda:2", "cpu"], ("cuda:2", "cpu")),
        (3, "cuda:1", ("cuda:1",)),
    ],
)
def test_named_devices_of_a_number_are_gpus_where_there_are_some(gpus, count, given, named):
    gpus(count)
    assert named_devices(given) == named


@pytest.mark.parametrize(
    ("count", "given", "said"),
    [(2, 3, "only cuda:0, cuda:1 is there"), (0, 0, "names no device"), (2, -1, "names no device"),
     (0, ["cuda:0"], "torch sees no GPU")],
)  # fmt: skip
def test_named_devices_that_are_not_there_are_refused(gpus, count, given, said):
    gpus(count)
    with pytest.raises(DeviceError, match=said):
        named_devices(given)


class Told:
    """A monitor that keeps the steps that it is told."""

    def __init__(self):
        self.steps = []

    def record(self, step, values):
        self.steps.append((step, values["loss"].item()))

    def log(self, *_): ...

    def event(self, *_): ...

    def watch(self, *_): ...

    def flush(self): ...

    def finish(self): ...


def test_policy_on_one_device_tells_the_monitor_every_step():
    told = Told()
    state = (
        Trainer.builder(
            lambda: torch.nn.Linear(2, 1),
            lambda params: torch.optim.SGD(params, 0.1),
            lambda model, batch: (model(batch) - 1).square().mean(),
        )
        .dataset([torch.ones(4, 2)] * 5)
        .accumulate(2)
        .policy("sync")
        .monitor(told)
        .run()
        .join()
    )
    assert [step for step, _ in told.steps] == [1, 2, 3, 4, 5]
    assert sum(loss for _, loss in told.steps) / 5 == pytest.approx(state.history[0].avg_loss)
