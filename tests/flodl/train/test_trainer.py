"""The loop computes what a loop by hand computes, and tells what it does."""

import io
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import TensorDataset

from flodl import (
    CosineScheduler,
    DataLoader,
    Ddp,
    DeviceError,
    Ema,
    FlowBuilder,
    NonFiniteError,
    RunDirectory,
    Trainer,
    TrainingError,
    record_scalar,
)
from flodl.train.progress import Plain, progress_for

pytestmark = pytest.mark.torch

X = torch.linspace(-1, 1, 40 * 3).reshape(40, 3)
Y = X.square().sum(1, keepdim=True)
BATCHES = list(zip(X.split(8), Y.split(8), strict=True))


def make():
    return nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Dropout(0.2), nn.Linear(6, 1))


def train_step(model, batch):
    return F.mse_loss(model(batch[0]), batch[1])


def sgd(params):
    return torch.optim.SGD(params, lr=0.02, momentum=0.5)


def builder(data=BATCHES, model=make, optimizer=sgd, fn=train_step):
    return (
        Trainer.builder(model, optimizer, fn)
        .dataset(data)
        .seed(0)
        .step("eager")
        .fused(False)
        .progress(False)
    )


def by_hand(epochs, *, clip=None, accumulate=1, scheduler=None, ema=None):
    torch.manual_seed(0)
    model = make()
    optimizer = sgd(model.parameters())
    averages = Ema(model, ema) if ema else None
    losses, updates = [], 0
    for _ in range(epochs):
        for index, (x, y) in enumerate(BATCHES):
            if index % accumulate == 0:
                optimizer.zero_grad()
                if scheduler:
                    scheduler.apply(optimizer, updates)
            loss = F.mse_loss(model(x), y)
            (loss / accumulate).backward()
            losses.append(loss.item())
            if index % accumulate == accumulate - 1:
                if clip:
                    nn.utils.clip_grad_norm_(model.parameters(), clip)
                optimizer.step()
                updates += 1
                if averages:
                    averages.update()
    return model, losses, averages


def equal(state, model):
    return all(
        torch.equal(each, state.parameters[name]) for name, each in model.named_parameters()
    )


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"clip": 0.1},
        {"accumulate": 5},
        {"scheduler": CosineScheduler(0.1, 0.0, 12)},
        {"ema": 0.9},
    ],
    ids=str,
)
def test_it_computes_what_a_loop_by_hand_computes(given):
    model, losses, averages = by_hand(3, **given)
    seen = []
    trained = builder().num_epochs(3).on("step", lambda t, loss: seen.append(loss.item()))
    if "clip" in given:
        trained.max_grad_norm(given["clip"])
    if "accumulate" in given:
        trained.accumulate(given["accumulate"])
    if "scheduler" in given:
        trained.scheduler(given["scheduler"])
    if "ema" in given:
        trained.ema(given["ema"])
    state = trained.run().join()
    assert seen == losses
    assert equal(state, model)
    assert [each.avg_loss for each in state.history] == [
        pytest.approx(sum(losses[at : at + 5]) / 5, rel=1e-12) for at in (0, 5, 10)
    ]
    if averages:
        assert all(
            torch.equal(state.averages[name], each) for name, each in averages.averages.items()
        )


def test_torch_loaders_and_schedules_as_in_a_loop_by_hand():
    def loader():
        return TorchLoader(TensorDataset(X, Y), batch_size=8, shuffle=True)

    def scheduled(optimizer):
        return torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)

    torch.manual_seed(0)
    model = make()
    optimizer = sgd(model.parameters())
    scheduler = scheduled(optimizer)
    losses = []
    for _ in range(3):
        for x, y in loader():
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        scheduler.step()
    seen = []
    state = (
        builder(loader())
        .num_epochs(3)
        .scheduler(scheduled)
        .on("step", lambda training, loss: seen.append(loss.item()))
        .run()
        .join()
    )
    assert seen == losses
    assert equal(state, model)
    assert [each.lr for each in state.history] == [0.02, 0.01, 0.005]


def test_evaluation_is_weighted_and_leaves_the_modes_alone():
    modes = []

    def evaluated(model, batch):
        modes.append((model.training, torch.is_grad_enabled()))
        return {"mean": batch[0].mean(), "number": 1.0}

    def make_frozen():
        model = make()
        model[2].eval()
        return model

    uneven = [(X[:30], Y[:30]), (X[30:], Y[30:])]
    kept = []
    state = (
        builder(model=make_frozen)
        .num_epochs(2)
        .evaluate(uneven, evaluated, every=2)
        .on("epoch", lambda training, metrics: kept.append([m.training for m in training.model]))
        .run()
        .join()
    )
    assert modes == [(False, False)] * 2
    assert "val_mean" not in state.history[0].scalars
    assert state.history[1].scalars["val_mean"] == pytest.approx(X.mean().item(), abs=1e-7)
    assert kept[-1] == [True, True, False, True]


def test_averaged_weights_are_evaluated_and_put_back():
    seen = []

    def evaluated(model, batch):
        seen.append(model[0].weight.clone())
        return {"loss": 0.0}

    state = builder().num_epochs(1).ema(0.5).evaluate(BATCHES[:1], evaluated).run().join()
    assert torch.equal(seen[0], state.averages["0.weight"])
    assert not torch.equal(seen[0], state.parameters["0.weight"])
    model = state.load_into(make(), averaged=True)
    assert torch.equal(model[0].weight, state.averages["0.weight"])


def test_metrics_of_the_train_function_and_recorded_ones():
    def told(model, batch):
        loss = train_step(model, batch)
        record_scalar("recorded", loss * 3)
        return loss, {"twice": loss.detach() * 2}

    state = builder(fn=told).num_epochs(2).run().join()
    for each in state.history:
        assert each.scalars["twice"] == pytest.approx(2 * each.avg_loss, rel=1e-6)
        assert each.scalars["recorded"] == pytest.approx(3 * each.avg_loss, rel=1e-6)

    def wrong(model, batch):
        return train_step(model, batch), {"many": batch[0]}

    with pytest.raises(TrainingError, match=r"the metric `many` has the shape \[8, 3\]"):
        builder(fn=wrong).run()


def test_early_stops():
    worse = iter(range(99))
    state = (
        builder()
        .num_epochs(20)
        .evaluate(BATCHES[:1], lambda model, batch: {"loss": float(next(worse))})
        .early_stop("val_loss", patience=3)
        .run()
        .join()
    )
    assert state.epochs == 4
    assert state.stopped_by == "early stop: `val_loss` has not got better for 3 epochs (best 0)"
    with pytest.raises(TrainingError, match="there is no metric `acc` after the epoch"):
        builder().early_stop("acc").run()
    state = builder().num_epochs(9).stop_when("loss", lambda t: t.stalled(2, 1e9)).run().join()
    assert state.epochs == 2


def test_other_ends():
    assert builder().num_epochs(9).max_steps(7).run().join().steps == 7
    assert (
        builder().num_epochs(10**9).max_seconds(0.3).run().join().stopped_by == "max_seconds=0.3"
    )

    def stop(training, loss):
        if training.step == 3:
            training.stop("I had enough")

    state = builder().num_epochs(9).on("step", stop).run().join()
    assert (state.steps, state.stopped_by) == (3, "I had enough")
    assert builder().num_epochs(0).run().join().steps == 0


def test_callbacks_in_their_order_and_with_their_arguments():
    told = []
    handle = (
        builder()
        .num_epochs(2)
        .on("start", lambda training: told.append("start"))
        .epoch_fn(lambda epoch, training: told.append(("begin", epoch, training.current_lr)))
        .metrics_fn(lambda metrics: told.append(("metrics", metrics.epoch)))
        .checkpoint_fn(lambda version, model: told.append(("version", version)))
        .checkpoint_every(2)
        .on("end", lambda training, reason: told.append(reason))
        .run()
    )
    assert told == [
        "start", ("begin", 0, 0.02), ("metrics", 0), ("begin", 1, 0.02), ("metrics", 1),
        ("version", 2), "finished",
    ]  # fmt: skip
    assert [handle.next_metrics().epoch, handle.poll_metrics().epoch] == [0, 1]
    assert handle.next_metrics() is None
    assert handle.world_size() == 1
    with pytest.raises(ValueError, match="there is no event `on_stepp`"):
        builder().on("stepp", print)


def test_a_callback_that_raises_is_named():
    def breaks(training, metrics):
        raise KeyError("x")

    with pytest.raises(KeyError) as caught:
        builder().on("epoch", breaks).run()
    assert "raised by the on_epoch callback `test_a_callback" in caught.value.__notes__[0]
    assert "test_trainer.py:" in caught.value.__notes__[0]


def test_a_train_function_that_raises_tells_where():
    def breaks(model, batch):
        if torch.equal(batch[0], BATCHES[3][0]):
            raise ZeroDivisionError
        return train_step(model, batch)

    with pytest.raises(ZeroDivisionError) as caught:
        builder(fn=breaks).num_epochs(2).run()
    assert caught.value.__notes__ == ["in step 3 of the training (epoch 0, batch 3)"]


def test_callbacks_steer_the_rates():
    rates = []

    def steer(epoch, training):
        if epoch == 1:
            training.set_lr(0.5)
        if epoch == 2:
            training.scale_lr(0.5)
        if epoch == 3:
            training.set_scheduler(CosineScheduler(1.0, 1.0, 9))
        rates.append(training.current_lr)

    builder().num_epochs(4).epoch_fn(steer).on(
        "epoch", lambda training, metrics: rates.append(metrics.lr)
    ).run()
    assert rates == [0.02, 0.02, 0.5, 0.5, 0.25, 0.25, 0.25, 0.5]


@pytest.mark.parametrize(("bad", "said"), [(math.nan, "nan"), (math.inf, "inf")])
def test_a_bad_loss_names_step_batch_and_parameter(bad, said):
    def explodes(model, batch):
        loss = train_step(model, batch)
        return loss * (bad if torch.equal(batch[0], BATCHES[2][0]) else 1.0)

    with pytest.raises(NonFiniteError) as caught:
        builder(fn=explodes).num_epochs(3).run()
    error = caught.value
    assert (error.epoch, error.step, error.position) == (0, 2, 2)
    assert f"the loss of step 2 (epoch 0, batch 2) is {said}" in str(error)
    assert error.culprits[0] == "0.weight"
    assert "the first gradient that is not finite is `0.weight`" in str(error)


def test_a_bad_batch_is_told_from_a_bad_weight():
    broken = [*BATCHES[:1], (torch.full((8, 3), math.nan), BATCHES[1][1])]
    with pytest.raises(NonFiniteError, match="24 of 24 values of `0` are not finite"):
        builder(broken).run()
    state = builder(broken).nan_guard(False).num_epochs(2).run().join()
    assert math.isnan(state.history[-1].avg_loss)


def test_a_graph_that_remembers_is_cut_between_steps():
    def remembering():
        return (
            FlowBuilder.from_(nn.Linear(3, 3)).through(_Add()).using("before").tag("before")
            .through(nn.Linear(3, 1)).build()
        )  # fmt: skip

    state = builder(model=remembering).num_epochs(2).run().join()
    assert state.steps == 10


class _Add(nn.Module):
    def forward(self, x, before):
        return x + before


def test_metrics_that_a_graph_collects_are_those_of_the_epoch():
    def graph():
        return FlowBuilder.from_(nn.Linear(3, 1)).tag("out").build()

    def collects(model, batch):
        loss = train_step(model, batch)
        model.collect(["out"], reduce="mean")
        return loss

    state = builder(model=graph, fn=collects).num_epochs(2).run()
    assert "out" in state.join().history[0].scalars
    assert state.architecture_svg().startswith("<svg")


def test_data_in_every_form():
    names = DataLoader([X, Y], 8, names=["x", "y"], shuffle=False)
    tensors = builder([X, Y]).batch_size(8)
    for each in (
        builder(names),
        tensors,
        builder(TensorDataset(X, Y)).batch_size(8),
        builder(BATCHES),
    ):
        assert each.num_epochs(2).run().join().steps == 10

    class Endless:
        def __iter__(self):
            return iter(BATCHES)

    assert builder(Endless()).num_epochs(2).run().join().steps == 10
    assert builder(iter(BATCHES)).num_epochs(1).run().join().steps == 5
    tables = [{"x": x, "y": y} for x, y in BATCHES]
    assert builder(tables, fn=lambda m, b: F.mse_loss(m(b["x"]), b["y"])).run().join().steps == 5


@pytest.mark.parametrize(
    ("prepare", "said"),
    [
        (lambda: Trainer.builder(make, sgd, train_step), "there is no data: add"),
        (lambda: builder([]), "the list of batches is empty"),
        (lambda: builder(TensorDataset(X, Y)), "say how many make a batch"),
        (lambda: builder(3), "int gives no batches"),
        (lambda: builder(iter(BATCHES)).num_epochs(2), "gives its batches only once"),
        (lambda: builder(iter([])), "the data gave no batches in epoch 0"),
        (lambda: builder(model=lambda: 3), "the model factory returned int"),
        (lambda: builder(optimizer=lambda params: 3), "the optimizer factory returned int"),
        (lambda: builder(optimizer=3), "int makes no optimizer"),
        (lambda: builder().accumulate(0), "accumulate is 0; it must be above 0"),
        (lambda: builder().ema(1.5), "a decay is at least 0 and below 1"),
        (lambda: builder().scheduler(lambda o: 3), "the scheduler function returned int"),
        (lambda: builder().scheduler(3), "int is no schedule"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_mistakes_are_said(prepare, said):
    with pytest.raises(TrainingError, match=said):
        prepare().run()


def test_one_device_is_said_and_not_silently_taken():
    with pytest.raises(
        DeviceError, match="2 devices were asked for; this version trains on exactly one"
    ):
        builder().devices(2)
    assert builder().devices(1).device("cpu").run().devices() == (torch.device("cpu"),)
    if not torch.cuda.is_available():
        with pytest.raises(DeviceError, match="torch sees no GPU"):
            builder().device("cuda").run()


def test_factories_get_a_device_when_they_ask_for_one():
    asked = []

    def on_device(device):
        asked.append(device)
        return make().to(device)

    builder(model=on_device).device("cpu").run()
    assert asked == [torch.device("cpu")]
    model = make()
    builder(model=model, optimizer=sgd(model.parameters())).run()
    assert model[0].weight.grad is not None


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_mixed_precision(precision):
    state = builder().num_epochs(6).precision(precision).evaluate(BATCHES).run().join()
    assert state.trend("loss").improving()
    assert all(each.dtype == torch.float32 for each in state.parameters.values())


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


def test_one_of_several_processes_is_refused(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(DeviceError, match="this is one of 2 processes"):
        builder().run()


def test_the_step_is_chosen_by_itself_unless_told():
    state = Trainer.builder(make, sgd, train_step).dataset(BATCHES).progress(False).run().join()
    assert state.decision.startswith("eager")


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


def test_old_names_warn():
    with pytest.warns(DeprecationWarning, match=r"Ddp\.builder is called Trainer\.builder now"):
        Ddp.builder(make, sgd, train_step)


def test_an_evaluation_reads_a_data_set_to_its_end():
    uneven = TensorDataset(X[:30], Y[:30])
    seen = []

    def evaluated(model, batch):
        seen.append(len(batch[0]))
        return {"mean": batch[0].mean()}

    state = builder().evaluate(uneven, evaluated, batch_size=8).run().join()
    assert seen == [8, 8, 8, 6]
    assert state.history[0].scalars["val_mean"] == pytest.approx(X[:30].mean().item(), abs=1e-7)


@pytest.mark.parametrize("beside", [True, False])
def test_checkpoints_beside_the_training(tmp_path, beside):
    told = []
    state = (
        builder()
        .num_epochs(3)
        .run_dir(tmp_path / "r")
        .checkpoints(steps=2, keep_last=99, beside=beside)
        .on("checkpoint", lambda training, path: told.append(path.name))
        .run()
        .join()
    )
    listed = [each.path.name for each in RunDirectory.open(tmp_path / "r").checkpoints.entries()]
    assert told == listed
    assert told[-1] == "step-000000015.fdl"
    assert state.checkpoint.name == told[-1]


def test_a_function_gives_the_batches_of_every_epoch():
    calls, seen = [], []

    def batches():
        calls.append(len(seen))
        return enumerate(torch.ones(4, 2).split(2))

    def train_step(model, batch):
        seen.append(batch[0])
        return model(batch[1]).mean()

    model = torch.nn.Linear(2, 1)
    (
        Trainer.builder(model, torch.optim.SGD(model.parameters(), lr=0.1), train_step)
        .dataset(batches)
        .num_epochs(3)
        .step("eager")
        .progress(False)
        .run()
        .join()
    )
    assert calls == [0, 2, 4]
    assert seen == [0, 1] * 3
