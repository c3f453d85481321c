"""Other tools get everything: the calls that they get, and what happens when they fail."""

import importlib.machinery
import importlib.util
import sys
import types

import pytest

from flodl.errors import UnknownNameError
from flodl.monitor.monitor import Monitor
from flodl.monitor.sinks import sink_for

pytestmark = pytest.mark.torch


class Calls:
    """Stands for a package, or anything in it; keeps the calls that were made."""

    def __init__(self, name="", log=None):
        self._name = name
        self._log = [] if log is None else log

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Calls(f"{self._name}.{name}".strip("."), self._log)

    def __call__(self, *args, **kwargs):
        self._log.append((self._name, args, kwargs))
        return Calls(f"{self._name}()", self._log)


@pytest.fixture
def package(monkeypatch):
    """Put a package that only listens in the place of a real one."""

    def install(name, *parts):
        calls = Calls()
        for each in (name, *parts):
            module = types.ModuleType(each)
            module.__spec__ = importlib.machinery.ModuleSpec(each, None)
            module.__getattr__ = lambda attribute: getattr(calls, attribute)
            monkeypatch.setitem(sys.modules, each, module)
        return calls._log

    return install


def train(description):
    with Monitor(1, quiet=True, resources=False, sinks=[description]) as monitor:
        monitor.set_metadata({"lr": 0.1})
        for step in range(3):
            monitor.record(step, {"train:loss": 1.0 / (step + 1)})
        monitor.log(0, 2.0, {"valid": 0.5})
    return monitor


def named(log, name):
    return [(args, kwargs) for each, args, kwargs in log if each == name]


# The calls below are those that were seen to work with wandb 0.31, mlflow 3.17 and trackio 0.43.


def test_wandb_gets_steps_and_epochs_on_axes_of_their_own(package):
    log = package("wandb")
    train("wandb:project")
    assert named(log, "init") == [((), {"project": "project"})]
    assert (("epoch/*",), {"step_metric": "epoch"}) in named(log, "init().define_metric")
    rows = [args[0] for args, _ in named(log, "init().log")]
    assert [(row["step"], row["train:loss"]) for row in rows if "step" in row] == [
        (0, 1.0), (1, 0.5), (2, 1 / 3),
    ]  # fmt: skip
    assert rows[-1] == {"epoch/valid": 0.5, "epoch/seconds": 2.0, "epoch": 1}
    assert named(log, "init().config.update") == [(({"lr": 0.1},), {"allow_val_change": True})]
    assert log[-1][0] == "init().finish"


def test_mlflow_gets_batches_and_names_that_it_takes(package):
    log = package("mlflow", "mlflow.entities")
    train("mlflow:experiment")
    metrics = [args for args, _ in named(log, "Metric")]
    assert [(name, value, step) for name, value, _, step in metrics] == [
        ("train_loss", 1.0, 0), ("train_loss", 0.5, 1), ("train_loss", 1 / 3, 2),
        ("epoch/valid", 0.5, 1),
    ]  # fmt: skip
    (batch,) = named(log, "MlflowClient().log_batch")
    assert len(batch[1]["metrics"]) == 4
    assert named(log, "MlflowClient().set_tag")[0][0][1:] == ("setup.lr", "0.1")
    assert log[-1][0] == "MlflowClient().set_terminated"


def test_trackio_gets_steps(package):
    log = package("trackio")
    train("trackio:project")
    assert named(log, "init") == [((), {"project": "project"})]
    steps = [kwargs["step"] for _, kwargs in named(log, "log") if kwargs]
    assert steps == [0, 1, 2]
    assert log[-1][0] == "finish"


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("tensorboard") is None, reason="tensorboard is not installed"
)
def test_tensorboard_reads_what_was_written(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    train(f"tensorboard:{tmp_path}")
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    found = [(each.step, round(each.value, 3)) for each in events.Scalars("train:loss")]
    assert found == [(0, 1.0), (1, 0.5), (2, 0.333)]
    assert [(each.step, each.value) for each in events.Scalars("epoch/valid")] == [(1, 0.5)]


def test_tensorboard_is_called_as_its_writer_is(package):
    log = package("torch.utils.tensorboard", "tensorboard")
    train("tensorboard:folder")
    assert named(log, "SummaryWriter") == [(("folder",), {})]
    scalars = named(log, "SummaryWriter().add_scalar")
    assert [args for args, _ in scalars] == [
        ("train:loss", 1.0, 0), ("train:loss", 0.5, 1), ("train:loss", 1 / 3, 2),
        ("epoch/valid", 0.5, 1), ("epoch/seconds", 2.0, 1),
    ]  # fmt: skip
    assert all(kwargs["walltime"] > 1e9 for _, kwargs in scalars)
    assert log[-1][0] == "SummaryWriter().close"


def test_a_tool_that_fails_is_said_once_and_left_out(package, monkeypatch, capsys):
    package("wandb")
    monkeypatch.setattr(sys.modules["wandb"], "init", lambda **_: 1 / 0, raising=False)
    with Monitor(3, resources=False, sinks=["wandb:x"]) as monitor:
        for epoch in range(3):
            monitor.log(epoch, 1.0, {"loss": 1.0})
            monitor.flush()
        assert len(monitor.history()) == 3
    said = [line for line in capsys.readouterr().out.splitlines() if "wandb" in line]
    assert said == ["  monitor: wandb takes nothing any more: ZeroDivisionError: division by zero"]


def test_a_tool_that_is_not_there_is_said_at_once(monkeypatch):
    with pytest.raises(UnknownNameError, match=r"no tool `excel` \(known: tensorboard, wandb"):
        Monitor(1, sinks=["excel:x"])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UnknownNameError, match="pip install wandb"):
        sink_for("wandb:x")
