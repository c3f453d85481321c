"""The loop computes what a loop by hand computes, evaluates, steers and ends as it is told."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import TensorDataset

from flodl import (
    CosineScheduler,
    DataLoader,
    FlowBuilder,
    RunDirectory,
    Trainer,
    TrainingError,
    record_scalar,
)
from tests.flodl.train.small_training import (
    BATCHES,
    X,
    Y,
    builder,
    by_hand,
    equal,
    make,
    sgd,
    train_step,
)

pytestmark = pytest.mark.torch


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


def test_the_step_is_chosen_by_itself_unless_told():
    state = Trainer.builder(make, sgd, train_step).dataset(BATCHES).progress(False).run().join()
    assert state.decision.startswith("eager")


def test_an_evaluation_reads_a_data_set_to_its_end():
    uneven = TensorDataset(X[:30], Y[:30])
    seen = []

    def evaluated(model, batch):
        seen.append(len(batch[0]))
        return {"mean": batch[0].mean()}

    state = builder().evaluate(uneven, evaluated, batch_size=8).run().join()
    assert seen == [8, 8, 8, 6]
    assert state.history[0].scalars["val_mean"] == pytest.approx(X[:30].mean().item(), abs=1e-7)


@pytest.mark.parametrize(
    "data",
    [[X[:30], Y[:30]], (X[:30], Y[:30]), TensorDataset(X[:30], Y[:30])],
    ids=["list", "tuple", "set"],
)
@pytest.mark.parametrize("first", [True, False], ids=["evaluate-first", "size-first"])
def test_evaluate_reads_a_data_set_as_dataset_does(data, first):
    seen = []

    def evaluated(model, batch):
        seen.append([len(each) for each in batch])
        return {"mean": batch[0].mean()}

    made = builder([X, Y])
    made = (
        made.evaluate(data, evaluated).batch_size(8)
        if first
        else made.batch_size(8).evaluate(data, evaluated)
    )
    state = made.run().join()
    assert seen == [[8, 8], [8, 8], [8, 8], [6, 6]]
    assert state.history[0].scalars["val_mean"] == pytest.approx(X[:30].mean().item(), abs=1e-7)


def test_evaluate_keeps_a_list_of_batches():
    seen = []
    builder([X, Y]).batch_size(8).evaluate(
        BATCHES[:2], lambda model, batch: seen.append(len(batch)) or 1.0
    ).run()
    assert seen == [2, 2]


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
