"""The same training on one device and under several policies.

Example: two seeds on two processes.

    compare_policies(make, ["cpu"] * 2, seeds=[0, 1])

    seed 0    make().seed(0).devices(["cpu"]).policy("sync")        the reference
              make().seed(0).devices(["cpu"] * 2).policy("sync")    weights compared with it
              make().seed(0).devices(["cpu"] * 2).policy("cadence")
              make().seed(0).devices(["cpu"] * 2).policy("async")
    seed 1    ...
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from flodl.errors import TrainingError
from flodl.train.builder import TrainerBuilder
from flodl.train.comparison.table import ONE_DEVICE, PolicyComparison, PolicyRun
from flodl.train.settings import named_devices, started_place
from flodl.train.state import TrainedState

if TYPE_CHECKING:
    from flodl.distributed.el_che import ElChe  # its package is imported by trainings that need it

POLICIES: Final = ("sync", "cadence", "async")


def compare_policies(
    make: Callable[[], TrainerBuilder],
    devices: int | Sequence[str],
    *,
    policies: Sequence[str] = POLICIES,
    seeds: Sequence[int] = (0,),
    el_che: ElChe | None = None,
    told: Callable[[PolicyRun], object] | None = None,
) -> PolicyComparison:
    """Train on one device and under each policy, and return speeds, losses and distances of weights.

    The trainings run one after the other, so none takes time from another one. If `sync` is compared, the
    training on one device is by that policy too: a batch has the same random numbers in all.

    Args:
        make: returns a new builder for each training; without devices, policy, seed and run directory.
        devices: as for `TrainerBuilder.devices`; the first one trains alone.
        policies: those to compare.
        seeds: each training runs once with each.
        el_che: how Cadence and Async choose their windows; as for `TrainerBuilder.el_che`.
        told: is called with each training that has ended.

    Raises:
        TrainingError: `make` does not return a builder, there is no policy or no seed, a launcher started
            this process, the trainings share a run directory, or one ended in its first epoch.
        DeviceError: a device is not there.
        WorkerError: a process of a training raised an error.

    Example:
        >>> import torch
        >>> from flodl import Trainer
        >>> from flodl.train.comparison import compare_policies
        >>> def loss_of(model, batch):
        ...     return (model(batch[0]) - 1).square().mean()
        >>> def make():
        ...     return (
        ...         Trainer.builder(torch.nn.Linear(2, 1), lambda p: torch.optim.SGD(p, 0.1), loss_of)
        ...         .dataset([torch.ones(64, 2)]).batch_size(8).num_epochs(2).progress(False)
        ...     )
        >>> found = compare_policies(make, ["cpu"], policies=["sync"])
        >>> found.policies, [each.steps for each in found.runs]
        (('one device', 'sync'), [8, 8])
    """
    _require_possible(policies, seeds)
    runs: list[PolicyRun] = []
    for seed in seeds:
        for run in _trained(make, devices, [str(policy) for policy in policies], seed, el_che):
            runs.append(run)
            if told is not None:
                told(run)
    return PolicyComparison(tuple(runs))


def _trained(
    make: Callable[[], TrainerBuilder],
    devices: int | Sequence[str],
    policies: Sequence[str],
    seed: int,
    el_che: ElChe | None,
) -> Iterator[PolicyRun]:
    """Yield the training on one device, and that of each policy."""
    names = named_devices(devices)
    first = _made(make).seed(seed).devices(names[:1] or 1)
    if "sync" in policies:
        first.policy("sync")  # which seeds the random numbers of each batch
    alone = first.run().join()
    yield _run(ONE_DEVICE, 1, seed, alone, alone)
    for policy in policies:
        builder = _made(make).seed(seed).devices(devices).policy(policy)
        if el_che is not None and policy != "sync":
            builder.el_che(copy.deepcopy(el_che))  # it measures while it trains
        handle = builder.run()
        yield _run(policy, handle.world_size(), seed, handle.join(), alone)


def _require_possible(policies: Sequence[str], seeds: Sequence[int]) -> None:
    """Refuse a comparison of nothing, and one in a process that a launcher started."""
    if not policies or not seeds:
        raise TrainingError("name at least one policy and one seed to compare")
    place = started_place()
    if place is not None:
        raise TrainingError(
            f"{place.starter} started this process as one of several; a comparison starts processes by "
            "itself, so run its script with plain `python`"
        )


def _made(make: Callable[[], TrainerBuilder]) -> TrainerBuilder:
    builder = make()
    if not isinstance(builder, TrainerBuilder):
        raise TrainingError(
            f"`make` returned {type(builder).__name__}; let it return Trainer.builder(...), before .run()"
        )
    if builder._parts.get("run_dir") is not None:
        raise TrainingError(
            "the trainings of a comparison would share one run directory; leave out .run_dir(...)"
        )
    return builder


def _run(
    policy: str, devices: int, seed: int, state: TrainedState, alone: TrainedState
) -> PolicyRun:
    if not state.history:
        raise TrainingError(
            f"the training with {policy} ended in its first epoch ({state.stopped_by}), so there is nothing "
            "to compare; let it train a whole epoch"
        )
    last = state.history[-1]
    timed = state.history[1:] or state.history  # the first epoch also imports and traces
    return PolicyRun(
        policy=policy,
        devices=devices,
        seed=seed,
        seconds=sum(each.seconds for each in timed),
        steps=sum(each.steps for each in timed),
        loss=last.avg_loss,
        scalars=dict(last.scalars),
        share_of_ideal=last.share_of_ideal if devices > 1 else 0.0,
        distance=_distance(state, alone),
    )


def _distance(state: TrainedState, alone: TrainedState) -> float:
    """Return |a - b| / |b| over all parameters, in double precision."""
    apart = length = 0.0
    for name, wanted in alone.parameters.items():
        found = state.parameters[name].detach().double().cpu()
        other = wanted.detach().double().cpu()
        apart += float((found - other).square().sum())
        length += float(other.square().sum())
    return math.sqrt(apart / length) if length else math.sqrt(apart)
