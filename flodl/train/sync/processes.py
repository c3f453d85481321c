"""A training in the processes of a team, seen from the process that began it.

begin_team   starts one process for each device, and returns at once
metrics      every epoch is a line of a file, which the first rank that is alive writes; windows too, for
             a monitor
join         shows these epochs, passes signals on, and returns the state that the ranks agree on
"""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

import torch

from flodl.checkpoint.tensors import as_bytes, on_host
from flodl.distributed.team.exact_runner import ExactRunner, ExactWork
from flodl.distributed.team.failures import DesyncError, TeamError, WorkerError
from flodl.distributed.team.launcher import RankState, TeamHandle, launch
from flodl.distributed.team.team import Team
from flodl.runs.directory import RunDirectory
from flodl.train.outcome import Interrupted, RunHandle
from flodl.train.progress import progress_for
from flodl.train.protocols import Asking
from flodl.train.signals import Signals
from flodl.train.state import EpochMetrics, EvaluationReport, TrainedState, WindowReport
from flodl.train.sync.sharing import threads, threads_for
from flodl.train.sync.telling import Teller, Told

if TYPE_CHECKING:
    from flodl.train.protocols import MonitorLike
    from flodl.train.rank_order import RankOrder

# Where the parts of an order are, and what a user calls them.
_PARTS: Final = {
    "argument 1.builder._train_fn": "the train function",
    "argument 1.builder._model_factory": "the model factory",
    "argument 1.builder._optim_factory": "the optimizer factory",
    "argument 1.builder._data": "the data set",
    "argument 1.builder._hooks": "the callbacks",
    "argument 1.builder._parts": "the builder's parts",
}
_TOLD: Final = "told.jsonl"
_LOST: Final = {
    RankState.DIED: "died",
    RankState.LEFT_OUT: "was silent for too long and is left out",
}
_LOOK: Final = 0.2  # seconds between two looks at the ranks


def begin_team(order: RankOrder, devices: Sequence[str], team: Mapping[str, Any]) -> RunHandle:
    """Start a process for each device, and return a handle on the training.

    Raises:
        TeamError: a setting is impossible, or an object cannot travel to another process.
        TrainingError: another process uses the run directory.
    """
    held = contextlib.ExitStack()
    given = order.parts.get("run_dir")
    if given is None:
        logs = Path(tempfile.mkdtemp(prefix="flodl-run-"))
    else:
        directory = given if isinstance(given, RunDirectory) else RunDirectory.at(given)
        held.enter_context(directory.held())
        logs = directory.path
    told = logs / _TOLD
    told.unlink(missing_ok=True)
    try:
        handle = launch(
            train_rank,
            order.stripped(),
            str(told),
            None if order.exact is None else threads_for(order.exact),
            order.parts.get("monitor") is not None,
            devices=list(devices),
            run_dir=logs,
            **team,
        )
    except TeamError as error:
        held.close()
        raise TeamError(_named(str(error))) from None
    except BaseException:
        held.close()
        raise
    running = RunningTeam(handle, order, told, held)
    return RunHandle(None, tuple(map(torch.device, devices)), None, running)


def _named(message: str) -> str:
    for place, name in _PARTS.items():
        message = message.replace(place, name)
    return message


def train_rank(
    team: Team, order: RankOrder, told: str, computing: int | None, tells_windows: bool
) -> TrainedState | None:
    """Train as one rank; return the state if this is one of the first two ranks that are alive.

    Raises:
        DesyncError: the ranks made different models.
    """
    runner = ExactRunner(team)
    sharing = order.sharing(runner)
    with threads(computing):
        trainer = order.trainer(torch.device(team.device), sharing)
        if not runner.is_newcomer:
            require_equal_models(runner, trainer.model)
        teller = Teller(Path(told), sharing.is_first)
        trainer.on("epoch", teller.epoch)
        trainer.on("evaluation", teller.evaluation)
        if tells_windows:
            trainer.on("window", teller.window)
        state = order.fit(trainer)
    runner.part()
    return state if team.rank in runner.members[:2] else None


def require_equal_models(runner: ExactRunner, model: torch.nn.Module) -> None:
    """Raise a DesyncError unless all ranks made the same model, before the first step."""
    crc = 0
    for name, each in model.state_dict().items():
        crc = zlib.crc32(f"{name} {each.dtype} {list(each.shape)}".encode(), crc)
        crc = zlib.crc32(as_bytes(on_host(each)), crc)
    work = ExactWork(train=float, tensors=lambda _held: [], note=lambda: str(crc))
    found = runner.add_up(0, work).notes
    usual = found[min(found)]
    others = tuple(rank for rank, text in found.items() if text != usual)
    if others:
        raise DesyncError(
            f"rank {others[0]} made another model than rank {min(found)}: names, shapes or first values "
            "differ. All ranks call the model factory after the same seed, so it must draw from torch, "
            "Python or NumPy alone; or give the model itself in place of the factory",
            ranks=others,
        )


@final
class RunningTeam:
    """A training that runs in other processes.

    Args:
        handle: the processes.
        order: what they were told.
        told: the file with a line for each epoch.
        held: what is released at the end.
    """

    def __init__(
        self, handle: TeamHandle, order: RankOrder, told: Path, held: contextlib.ExitStack
    ) -> None:
        self._handle = handle
        self._order = order
        self._path = told
        self._told = Told(told)
        self._held = held
        self._states = dict.fromkeys(handle.logs, RankState.RUNNING)
        self._newcomers: set[int] = set()  # ranks that started later, and have not joined
        self._evaluations: list[EvaluationReport] = []
        self._monitor: MonitorLike | None = order.parts.get("monitor")
        wanted = order.settings.get("progress")
        self._progress = progress_for(self._monitor is None if wanted is None else wanted)
        log = handle.logs[0]
        self._progress.note(f"{len(handle.logs)} ranks train; each writes {log.parent}/rank-*.log")

    def is_running(self) -> bool:
        """Return True while a rank trains."""
        return RankState.RUNNING in self._handle.poll().values()

    def pids(self) -> dict[int, int]:
        """Return the id of the process of each rank."""
        return dict(self._handle.pids)

    def add(self, device: str) -> int:
        """Start one more rank, and return its id.

        Raises:
            TeamError: the device is not one of torch, or the training has ended.
        """
        return self._handle.add(device)

    def metrics(self) -> list[EpochMetrics]:
        """Return the epochs that ended since the last call, in order; tell monitor and callbacks."""
        found = []
        for told in self._told.new():
            if isinstance(told, WindowReport):
                if self._monitor is not None:
                    self._monitor.record(told.step, told.numbers())
            elif isinstance(told, EvaluationReport):
                self._tell_evaluation(told)
            else:
                found.append(told)
                self._tell(told)
        self._look_at_ranks()
        self._pass_requests_on()
        return found

    def request(self, text: str) -> None:
        """Ask all ranks for something.

        Raises:
            TeamError: the training has ended.
        """
        self._handle.request(text)

    def evaluations(self) -> list[EvaluationReport]:
        """Return the evaluations on request that were told of so far."""
        return list(self._evaluations)

    def _pass_requests_on(self) -> None:
        """Ask the ranks for what the page of the monitor is asked for."""
        asked: object = self._monitor
        if isinstance(asked, Asking):
            for text in asked.requests():
                # A button that is pressed at the end comes too late.
                with contextlib.suppress(TeamError):
                    self._handle.request(text)

    def _tell_evaluation(self, report: EvaluationReport) -> None:
        self._evaluations.append(report)
        self._note(str(report), "evaluation")
        if self._monitor is not None:
            self._monitor.record(report.step, report.scalars)

    def _look_at_ranks(self) -> None:
        """Tell of ranks that died or were left out since the last look."""
        for rank, state in self._handle.poll().items():
            self._look_at_newcomer(rank, state)
            if state is self._states[rank] or self._states[rank] is RankState.FAILED:
                continue
            self._states[rank] = state
            if state in _LOST:
                alive = self._alive()
                go_on = (
                    f"; {alive} {'rank goes' if alive == 1 else 'ranks go'} on" if alive else ""
                )
                self._note(f"rank {rank} {_LOST[state]}{go_on} ({self._handle.logs[rank]})")
            elif state is RankState.FAILED and rank in self._newcomers:
                self._note(f"rank {rank} failed before it joined ({self._handle.logs[rank]})")
            elif state is RankState.TOO_LATE:
                self._note(f"the training ended before rank {rank} joined it")

    def _look_at_newcomer(self, rank: int, state: RankState) -> None:
        """Tell of a rank that started later, and that it joined."""
        if rank not in self._states:
            self._states[rank] = RankState.RUNNING
            self._newcomers.add(rank)
            replaced = self._handle.replaced(rank)
            place = "" if replaced is None else f" in place of rank {replaced}"
            self._note(f"rank {rank} starts{place} ({self._handle.logs[rank]})")
        elif rank in self._newcomers and not self._handle.is_newcomer(rank):
            self._newcomers.remove(rank)
            if state is RankState.RUNNING:
                self._note(f"rank {rank} joined; {self._alive()} ranks train")

    def _alive(self) -> int:
        ended = (*_LOST, RankState.FAILED)
        alive = [rank for rank, state in self._states.items() if state not in ended]
        return len(set(alive) - self._newcomers)

    def _note(self, line: str, kind: str = "rank") -> None:
        self._progress.note(line)
        if self._monitor is not None:
            self._monitor.event(kind, line)

    def join(self) -> tuple[TrainedState, list[EpochMetrics]]:
        """Wait for the end; return the state and the epochs that were not returned yet.

        A signal is passed on: the ranks end the window, save, and end. The second one ends all at once.

        Raises:
            WorkerError: a rank raised an error, or no rank is left.
            Interrupted: a signal ended the training.
        """
        found: list[EpochMetrics] = []
        signals = Signals(self._pass_on)
        try:
            with signals:
                while True:
                    found += self.metrics()
                    try:
                        results = self._handle.join(_LOOK)
                    except TimeoutError:
                        continue
                    break
            found += self.metrics()
        except WorkerError:
            if not signals.received:
                raise
            state = TrainedState(parameters={}, buffers={}, stopped_by=signals.received)
            raise Interrupted(signals.number(), state) from None
        finally:
            self._handle.end()
            self._progress.close()
            self._held.close()
            self._path.unlink(missing_ok=True)
        state = next(each for each in results.values() if each is not None)
        self._tell_end(state, signals)
        return state, found

    def _tell(self, metrics: EpochMetrics) -> None:
        epochs = self._order.settings.get("epochs", 1)
        left = (epochs - metrics.epoch - 1) * metrics.seconds
        self._progress.end(metrics, epochs, left)
        if self._monitor is not None:
            self._monitor.log(metrics.epoch, metrics.seconds, metrics.scalars)
        for fn in self._order.metrics_fns:
            fn(metrics)

    def _tell_end(self, state: TrainedState, signals: Signals) -> None:
        if self._monitor is not None:
            if state.stopped_by == "finished":
                self._monitor.finish()
            else:
                self._monitor.flush()
        number = signal.Signals.__members__.get(state.stopped_by)
        if number is not None and self._order.settings.get("on_signal", "exit") == "exit":
            # The ranks saw the signal that this process sent them.
            raise Interrupted(signals.number() if signals.received else number, state)

    def _pass_on(self) -> None:
        """Let every rank know of a signal; called from a signal handler."""
        for pid in self._handle.pids.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
