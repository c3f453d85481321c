"""A training in processes that a launcher or a batch system started: this process is one rank of it.

require_fit    compares what the script asks for with what was started
device_of      chooses the device of this rank
train_joined   joins the others, trains, and returns the same state on every rank

The first rank that is alive holds the run directory, and tells the epochs to monitor and callbacks.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, final

import torch
from torch.distributed import DistError

from flodl.distributed.team.exact_runner import ExactRunner, ExactWork
from flodl.distributed.team.failures import LeftOutError, TeamError
from flodl.distributed.team.heartbeat import STORE_LOST
from flodl.distributed.team.joining import join, leave
from flodl.distributed.team.parcel import LEFT_OUT
from flodl.distributed.team.place import Place
from flodl.distributed.team.team import Team
from flodl.errors import DeviceError, RunError
from flodl.runs.directory import RunDirectory
from flodl.train.outcome import Interrupted, RunHandle
from flodl.train.protocols import Asking
from flodl.train.settings import chosen_device
from flodl.train.signals import asked_to_end
from flodl.train.state import EpochMetrics, EvaluationReport, TrainedState, WindowReport
from flodl.train.sync.processes import require_equal_models
from flodl.train.sync.sharing import threads, threads_for

if TYPE_CHECKING:
    from flodl.train.rank_order import RankOrder
    from flodl.train.trainer import Trainer


def require_fit(place: Place, asked: int | str | Sequence[str]) -> None:
    """Refuse a number of devices that is not the number of processes.

    Raises:
        DeviceError: they differ.
    """
    if asked == "all":
        return
    count = asked if isinstance(asked, int) else 1 if isinstance(asked, str) else len(asked)
    if count != place.world_size:
        has = "1 process" if place.world_size == 1 else f"{place.world_size} processes"
        raise DeviceError(
            f"{place.starter} started {has}, and .devices({asked!r}) asks for {count}; "
            f'write .devices("all"), which takes those that were started, or start {count}'
        )


def device_of(
    place: Place, asked: int | str | Sequence[str], wanted: str | torch.device | None
) -> torch.device:
    """Return the device of this rank: the one that is named for it, else the GPU of its number, else the CPU.

    Args:
        place: the place of this process among the others.
        asked: the value of `.devices(...)`; a list names the device of each rank.
        wanted: the value of `.device(...)`.

    Raises:
        DeviceError: the device is not there.
    """
    if not isinstance(asked, int | str):
        return chosen_device(asked[place.rank])
    if asked not in ("all", place.world_size):
        return chosen_device(str(asked))
    if wanted is not None:
        return chosen_device(wanted)
    gpus = torch.cuda.device_count()
    if not gpus:
        return torch.device("cpu")
    if gpus == 1:  # a batch system often shows each process its own GPU alone
        return torch.device("cuda", 0)
    if place.local_rank >= gpus:
        raise DeviceError(
            f"this process has number {place.local_rank} on its host (LOCAL_RANK), counted from 0, and there "
            f'are {gpus} GPUs; start {gpus} processes for each host, or add .device("cpu")'
        )
    return torch.device("cuda", place.local_rank)


def train_joined(
    order: RankOrder, place: Place, device: torch.device, team: Mapping[str, Any]
) -> RunHandle:
    """Train as one rank, and return a handle on the result, which is the same on every rank.

    Raises:
        TeamError: a setting is impossible, or the store does not answer.
        RunError: another process uses the run directory.
        Interrupted: a signal ended the training.
    """
    if device.type == "cuda":
        torch.cuda.set_device(device)
    joined = join(place, str(device), **team)
    joined.on_long_wait = _obey_at_once
    with contextlib.ExitStack() as held:
        try:
            state, devices, trainer = _train(joined, order, device, held)
            leave(joined, place)
        except BaseException as error:
            ended = _told(joined, place, error)
            if ended is error:
                raise
            raise ended from None
    _raise_interrupted(order, state)
    return RunHandle(state, devices, trainer.model)


def _train(
    team: Team, order: RankOrder, device: torch.device, held: contextlib.ExitStack
) -> tuple[TrainedState, list[torch.device], Trainer]:
    runner = ExactRunner(team)
    agreed, devices = _agree(runner, order, device, held)
    runner.on_cpu = all(each.type == "cpu" for each in devices)
    own = order.stripped()
    is_first = runner.members[0] == team.rank
    monitor = order.parts.get("monitor")
    shown = order.settings.get("progress")
    own.settings.update(
        seed=agreed["seed"],
        progress=is_first and (monitor is None if shown is None else shown),
    )
    sharing = own.sharing(runner)
    teller = FirstRankTeller(order, sharing.is_first)
    runner.listen = teller.requests
    with threads(None if order.exact is None else threads_for(order.exact)):
        trainer = own.trainer(device, sharing)
        require_equal_models(runner, trainer.model)
        trainer.on("epoch", teller)
        if monitor is not None:
            trainer.on("window", teller.window)
            trainer.on("evaluation", teller.evaluation)
        state = own.fit(trainer)
    runner.part()
    teller.end(state)
    return state, devices, trainer


def _agree(
    runner: ExactRunner, order: RankOrder, device: torch.device, held: contextlib.ExitStack
) -> tuple[dict[str, Any], list[torch.device]]:
    """Return what the first rank that is alive chose for all, and the devices of all.

    Raises:
        RunError: that rank cannot use the run directory.
    """
    while True:
        first = runner.members[0]
        told: dict[str, Any] = {"device": str(device)}
        if first == runner.rank:
            told |= _prepare(order, held)
        notes = _meet(runner, json.dumps(told))
        if first in notes and "seed" in notes[first]:
            break  # else it died in between, and the next one chooses
        held.close()
    chosen = notes[first]
    if chosen["problem"]:
        raise RunError(chosen["problem"])
    return chosen, [torch.device(notes[rank]["device"]) for rank in sorted(notes)]


def _prepare(order: RankOrder, held: contextlib.ExitStack) -> dict[str, Any]:
    """Make and hold the run directory, and choose what the ranks may not choose each for itself."""
    problem = ""
    given = order.parts.get("run_dir")
    if given is not None:
        try:
            directory = given if isinstance(given, RunDirectory) else RunDirectory.at(given)
            held.enter_context(directory.held())
        except (RunError, OSError) as error:
            problem = str(error)
    seed = order.settings.get("seed")
    return {"seed": secrets.randbits(31) if seed is None else seed, "problem": problem}


def _meet(runner: ExactRunner, note: str) -> dict[int, dict[str, Any]]:
    work = ExactWork(train=float, tensors=lambda _held: [], note=lambda: note)
    return {rank: json.loads(text) for rank, text in runner.add_up(0, work).notes.items()}


@final
class FirstRankTeller:
    """The hook that tells each epoch to monitor and callbacks, on the first rank that is alive.

    Args:
        order: has the monitor and the callbacks.
        is_first: returns True on the first rank that is alive.
    """

    def __init__(self, order: RankOrder, is_first: Callable[[], bool]) -> None:
        self._monitor = order.parts.get("monitor")
        self._fns = order.metrics_fns
        self._is_first = is_first

    def __call__(self, training: Any, metrics: EpochMetrics) -> None:
        """Tell of an epoch."""
        del training
        if not self._is_first():
            return
        if self._monitor is not None:
            self._monitor.log(metrics.epoch, metrics.seconds, metrics.scalars)
        for fn in self._fns:
            fn(metrics)

    def window(self, training: Any, report: WindowReport) -> None:
        """Tell of a window."""
        del training
        if self._monitor is not None and self._is_first():
            self._monitor.record(report.step, report.numbers())

    def requests(self) -> tuple[str, ...]:
        """Return what the page of the first rank is asked for."""
        asked: object = self._monitor
        return asked.requests() if isinstance(asked, Asking) and self._is_first() else ()

    def evaluation(self, training: Any, report: EvaluationReport) -> None:
        """Tell of an evaluation on request."""
        del training
        if self._monitor is not None and self._is_first():
            self._monitor.record(report.step, report.scalars)
            self._monitor.event("evaluation", str(report))

    def end(self, state: TrainedState) -> None:
        """Tell of the end."""
        if self._monitor is None or not self._is_first():
            return
        if state.stopped_by == "finished":
            self._monitor.finish()
        else:
            self._monitor.flush()


def _raise_interrupted(order: RankOrder, state: TrainedState) -> None:
    """End every rank after a signal to one of them."""
    number = signal.Signals.__members__.get(state.stopped_by)
    if number is not None and order.settings.get("on_signal", "exit") == "exit":
        raise Interrupted(number, state)


def _obey_at_once() -> None:
    """End after a signal in a wait for lost ranks: an agent that ends all ranks does not wait for long."""
    if number := asked_to_end():
        name = signal.Signals(number).name
        raise Interrupted(number, TrainedState(parameters={}, buffers={}, stopped_by=name))


def _told(team: Team, place: Place, error: BaseException) -> BaseException:
    """Tell the others why this rank ends, and return what ends it."""
    ended = error
    # The store may be gone with the others.
    with contextlib.suppress(RuntimeError):
        if isinstance(error, DistError):
            where = "{}:{}".format(*place.address)
            ended = _ended(
                f"the store of the ranks at {where} is gone, so this one ends: {error}", STORE_LOST
            )
        elif isinstance(error, LeftOutError):
            # A status of its own: whoever started the ranks can tell it from an error of the script.
            ended = _ended(str(error), LEFT_OUT)
        elif isinstance(error, TeamError) and team.has_failed():
            ended = _ended(str(error), 1)  # its traceback would hide that of the rank that failed
        elif isinstance(error, Exception):
            team.fail(f"{type(error).__name__}: {error}")
        else:
            # Where no parent waits for this process, its end would show as silence only.
            team.give_up()
    team.close()
    return ended


def _ended(message: str, status: int) -> SystemExit:
    sys.stderr.write(f"{message}\n")
    return SystemExit(status)
