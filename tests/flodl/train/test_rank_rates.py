"""Learning rates that grow with the number of devices, also after a resume with other ones."""

import copy

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler

from flodl import Trainer, TrainingError
from flodl.nn.schedulers import MultiStepLR, PlateauScheduler
from flodl.train.schedules import Torch
from flodl.train.training import Training

FACTOR = 1.5
UPDATES = 12

# Each makes the schedule of one optimizer for rates that are `factor` times those of one device.
SCHEDULES = {
    "step": lambda o, _: lr_scheduler.StepLR(o, 3, 0.5),
    "cosine": lambda o, _: lr_scheduler.CosineAnnealingLR(o, UPDATES),
    "restarts": lambda o, _: lr_scheduler.CosineAnnealingWarmRestarts(o, 5),
    "lambda": lambda o, _: lr_scheduler.LambdaLR(o, lambda step: 0.9**step),
    "exponential": lambda o, _: lr_scheduler.ExponentialLR(o, 0.9),
    "one cycle": lambda o, f: lr_scheduler.OneCycleLR(
        o, [0.5 * f, 1.0 * f], UPDATES + 2, final_div_factor=4, cycle_momentum=False
    ),
    "cyclic": lambda o, f: lr_scheduler.CyclicLR(
        o, [0.1 * f, 0.2 * f], [0.5 * f, 1.0 * f], 3, cycle_momentum=False
    ),
    "sequential": lambda o, _: lr_scheduler.SequentialLR(
        o,
        [lr_scheduler.LinearLR(o, 0.1, total_iters=4), lr_scheduler.ExponentialLR(o, 0.8)],
        milestones=[4],
    ),
    "chained": lambda o, _: lr_scheduler.ChainedScheduler(
        [lr_scheduler.LinearLR(o, 0.2, total_iters=5), lr_scheduler.StepLR(o, 4, 0.5)]
    ),
}


def training(scale=1.0):
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    groups = [
        {"params": model[0].parameters(), "lr": 0.4 * scale},
        {"params": model[1].parameters(), "lr": 0.8 * scale},
    ]
    return Training(model, torch.optim.SGD(groups), torch.device("cpu"))


def rates(of, updates):
    """Return the rates of both groups for some updates."""
    found = []
    for _ in range(updates):
        of.schedule.before_update(of.update, of.lr_scale)
        found.append([float(group["lr"]) for group in of.optimizer.param_groups])
        of.optimizer.step()
        of.update += 1
        of.schedule.after_update()
    return found


def scheduled(name, scale=1.0):
    made = training(scale)
    made.schedule = Torch(SCHEDULES[name](made.optimizer, scale), "step", "loss")
    return made


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedule_of_torch_scaled_for_ranks_gives_scaled_rates(name):
    scaled = scheduled(name)
    scaled.scale_for_ranks(FACTOR)
    wanted = rates(scheduled(name, FACTOR), UPDATES)
    assert rates(scaled, UPDATES) == [pytest.approx(each) for each in wanted]


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedule_of_torch_resumed_with_other_ranks_gives_their_rates(name):
    before = scheduled(name)
    before.scale_for_ranks(3.0)
    rates(before, 5)
    resumed = scheduled(name)
    resumed.scale_for_ranks(FACTOR)
    # As a checkpoint is read: optimizer and training, each with what it holds itself.
    resumed.optimizer.load_state_dict(copy.deepcopy(before.optimizer.state_dict()))
    resumed.load_state_dict(copy.deepcopy(before.state_dict()))
    assert resumed.rank_scale == 3.0
    resumed.scale_for_ranks(FACTOR)
    wanted = rates(scheduled(name, FACTOR), UPDATES)[5:]
    assert rates(resumed, UPDATES - 5) == [pytest.approx(each) for each in wanted]


def test_pure_schedule_resumed_with_other_ranks_gives_their_rates():
    made = training()
    made.set_scheduler(MultiStepLR(0.4, (2, 4), 0.1))
    made.scale_for_ranks(FACTOR)
    wanted = pytest.approx([0.4, 0.4, 0.04, 0.04, 0.004])
    assert [each[0] / FACTOR for each in rates(made, 5)] == wanted
    alone = training()
    alone.set_scheduler(MultiStepLR(0.4, (2, 4), 0.1))
    alone.load_state_dict(made.state_dict())
    alone.scale_for_ranks(1.0)
    assert rates(alone, 1)[0] == pytest.approx([0.004, 0.008])


def test_rate_without_a_schedule_is_scaled_once():
    made = training()
    made.scale_for_ranks(2.0)
    made.scale_for_ranks(2.0)
    assert rates(made, 2) == [pytest.approx([0.8, 1.6])] * 2
    made.set_lr_scale(0.5)
    assert rates(made, 1) == [pytest.approx([0.4, 0.8])]


def test_schedule_set_later_has_scaled_rates():
    made = training()
    made.scale_for_ranks(FACTOR)
    made.set_scheduler(PlateauScheduler(0.2, patience=1, factor=0.5))
    assert made.current_lr == pytest.approx(0.2 * FACTOR)
    for value in (1.0, 1.0):
        made.schedule.after_epoch(0, made.lr_scale, {"loss": value})
    assert made.current_lr == pytest.approx(0.1 * FACTOR)
    made.set_scheduler(lambda optimizer: lr_scheduler.ExponentialLR(optimizer, 0.5))
    made.schedule.after_epoch(0, made.lr_scale, {})
    assert made.current_lr == pytest.approx(0.05 * FACTOR)


@pytest.mark.parametrize("value", [0.0, -1.0, float("inf"), float("nan"), "1"])
def test_state_with_an_impossible_scale_is_refused(value):
    made = training()
    with pytest.raises(ValueError, match="rank_scale"):
        made.load_state_dict({**made.state_dict(), "rank_scale": value})


def test_state_without_a_scale_is_that_of_one_device():
    made = training()
    state = made.state_dict()
    del state["rank_scale"]
    made.load_state_dict(state)
    assert made.rank_scale == 1.0


def builder():
    return Trainer.builder(lambda: nn.Linear(1, 1), torch.optim.SGD, lambda model, x: model(x))


@pytest.mark.parametrize("ratio", [-0.1, float("inf"), float("nan")])
def test_lr_scale_ratio_out_of_range_is_refused(ratio):
    with pytest.raises(TrainingError, match="at least 0, and 1 is the linear rule"):
        builder().lr_scale_ratio(ratio)


def test_lr_scale_ratio_with_policy_sync_is_refused():
    made = builder().dataset([torch.ones(1, 1)]).policy("sync").lr_scale_ratio(1.0)
    with pytest.raises(TrainingError, match="rates of one device fit"):
        made.run()
