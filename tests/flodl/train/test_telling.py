"""What a training tells while it runs: lines of progress, a monitor, and clicks on its page."""

import io
from dataclasses import replace

import pytest
import torch

from flodl import (
    FlowBuilder,
    Monitor,
    RunDirectory,
    Trainer,
    record_scalar,
)
from flodl.monitor.store.storage import open_reader
from flodl.train.progress import Plain, progress_for
from flodl.train.settings import Settings, hyper_parameters
from tests.flodl.train.small_training import BATCHES, builder, make, sgd, train_step

pytestmark = pytest.mark.torch


def test_plain_lines_and_a_moving_line():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    pipe, terminal = io.StringIO(), Terminal()
    assert isinstance(progress_for(True, pipe), Plain)
    for stream in (pipe, terminal):
        shown = progress_for(True, stream)
        state = builder().num_epochs(2).run().join()
        shown.note("a decision")
        for each in state.history:
            shown.begin(each.epoch, 2, 5)
            shown.move(3, 0.5)
            shown.end(each, 2, 1.0)
        shown.close()
    lines = pipe.getvalue().splitlines()
    assert lines[0] == "a decision"
    assert lines[1].startswith("epoch 1/2  loss ")
    assert "epoch 2/2" in terminal.getvalue()


def test_a_long_epoch_says_something_in_a_pipe():
    now, pipe = [0.0], io.StringIO()
    shown = Plain(pipe, lambda: now[0])
    shown.begin(1, 10, 500)
    for seconds in (1, 29, 31, 32, 65):
        now[0] = seconds
        shown.move(seconds, 0.25)
    assert pipe.getvalue().splitlines() == [
        "epoch  2/10  batch 31/500  loss 0.25",
        "epoch  2/10  batch 65/500  loss 0.25",
    ]


def test_progress_goes_to_standard_error(capsys):
    Trainer.builder(make, sgd, train_step).dataset(BATCHES).step("eager").run()
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "epoch 1/1  loss " in shown.err


class Recording:
    def __init__(self):
        self.told = []

    def __getattr__(self, name):
        if name == "requests":
            raise AttributeError(name)
        return lambda *arguments: self.told.append((name, *arguments))


def test_a_monitor_is_told_everything(tmp_path):
    monitor = Recording()
    builder().num_epochs(2).run_dir(tmp_path / "r").monitor(monitor).progress(False).run()
    kinds = [each[0] for each in monitor.told]
    assert kinds.count("record") == 10
    assert kinds.count("log") == 2
    assert kinds[-1] == "finish"
    assert "watch" in kinds
    steps = [each[1] for each in monitor.told if each[0] == "record"]
    assert steps == list(range(1, 11))
    events = [each[1] for each in monitor.told if each[0] == "event"]
    assert events == ["step", "checkpoint", "checkpoint"]


class Page(Recording):
    """A monitor with a page on which somebody clicks."""

    def __init__(self, *clicks):
        super().__init__()
        self.clicks = list(clicks)

    def requests(self):
        return self.clicks.pop(0) if self.clicks else ()


def test_what_is_asked_for_on_the_page_is_obeyed(tmp_path):
    page = Page((), ("save",), ("pause",), (), ("pause",), ("stop",))
    state = (
        builder().num_epochs(99).flush_every(1).run_dir(tmp_path / "r").monitor(page).run().join()
    )
    # The first three batches, a pause, the fourth: four times somebody looked.
    assert state.steps == 4
    assert state.stopped_by == "a request on the page of the monitor"
    steps = [each.step for each in RunDirectory.open(tmp_path / "r").checkpoints.entries()]
    assert steps == [2, 4]
    assert [line for line in state.notices if "pause" in line or "going on" in line] == [
        "paused at step 3; pause again to go on",
        "going on",
    ]


class Described(Recording):
    def set_metadata(self, metadata):
        self.metadata = dict(metadata)


def test_trainer_monitor_gets_hyper_parameters_that_are_no_defaults():
    monitor = Described()
    builder().num_epochs(2).max_grad_norm(1.5).monitor(monitor).run().join()
    assert monitor.metadata == {
        "training": {
            "optimizer": "SGD", "lr": 0.02, "momentum": 0.5, "epochs": 2, "clip_norm": 1.5, "seed": 0,
        }
    }  # fmt: skip


def test_hyper_parameters_of_groups_are_lists_and_rates_those_before_a_schedule():
    one, two = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)
    groups = [{"params": one.parameters()}, {"params": two.parameters(), "lr": 0.5}]
    optimizer = torch.optim.AdamW(groups, lr=0.1, betas=(0.8, 0.9))
    torch.optim.lr_scheduler.LinearLR(optimizer, 0.01)
    found = hyper_parameters(Settings(), optimizer, {"batch_size": 32, "kind": "DataLoader"})
    assert found["lr"] == [0.1, 0.5]
    assert found["betas"] == [0.8, 0.9]
    assert found["batch_size"] == 32
    assert "kind" not in found
    assert "clip_norm" not in found


def test_trainer_run_on_disk_has_its_hyper_parameters(tmp_path):
    with Monitor(1, run=tmp_path / "run", quiet=True, resources=False) as monitor:
        builder().num_epochs(1).monitor(monitor).run().join()
    metadata = open_reader(tmp_path / "run").run.metadata
    assert metadata["training"]["lr"] == 0.02
    assert metadata["parameters"]["total"] == 31


def tagged_model():
    return FlowBuilder.from_(make()).tag("out").build()


def noisy(model, batch):
    record_scalar("own", 1.0)
    loss = train_step(model, batch)
    model.collect(["out"], "mean")
    return loss + torch.rand(())


def test_evaluation_on_request_leaves_the_numbers_of_the_training_alone():
    def trained(page):
        made = builder(model=tagged_model).num_epochs(2).flush_every(1).monitor(page)
        made.evaluate(BATCHES, noisy)
        return made.on("evaluation", lambda _, report: reports.append(report)).run().join()

    reports = []
    plain = trained(Page())
    page = Page((), ("evaluate",), (), (), ("evaluate", "pause"), (), ("evaluate",))
    state = trained(page)
    assert [each.step for each in reports] == [2, 5, 5]
    assert state.history == tuple(
        replace(each, seconds=same.seconds)
        for each, same in zip(plain.history, state.history, strict=True)
    )
    for name, value in plain.state_dict().items():
        assert torch.equal(value, state.state_dict()[name])
    assert [line for line in state.notices if "evaluated" in line] == list(map(str, reports))
    assert set(reports[0].scalars) == {"val_loss", "val_own"}
    assert page.told.count(("record", 2, reports[0].scalars)) == 1
