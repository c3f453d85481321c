"""The processes of a team on one host, started and watched by the process that asked for them.

    handle = launch(train, data, devices=2, run_dir="runs/a")     two processes, the store in this one
    handle.poll()       {0: "running", 1: "running"}
    handle.join()       {0: value of rank 0, 1: value of rank 1}; or an error with rank and log
    handle.add("cpu")   rank 2 starts now, and joins the others between two windows

A thread per rank waits for its end and tells the survivors through the store. A rank that the system
killed is left behind and the rest go on, and with `respawn` another one starts in its place; a rank that
raised an error ends all, as its twin would raise it too. Whatever ends this process ends the ranks: `join`
and `with` on errors and Ctrl-C, `atexit` on a normal exit, the system (or, outside Linux, the lost store) on
a kill.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, final

import torch
from torch._C._distributed_c10d import TCPStore

from flodl.distributed.team.failures import TeamError, WorkerError
from flodl.distributed.team.heartbeat import Heartbeat
from flodl.distributed.team.joining import require_possible
from flodl.distributed.team.parcel import LEFT_OUT, PARCEL, SETTINGS, TOO_LATE, pack
from flodl.distributed.team.store_list import append
from flodl.distributed.team.team import JOINED

_GRACE: Final = 1.0  # seconds between the request to end and the kill
_LOOK: Final = 0.1
_IS_POSIX: Final = os.name == "posix"


@final
class RankState(StrEnum):
    """What a rank does, as `poll` of a handle says it.

    Example:
        >>> [each.value for each in RankState]
        ['running', 'done', 'died', 'failed', 'left out', 'too late']
    """

    RUNNING = "running"
    DONE = "done"
    DIED = "died"
    FAILED = "failed"
    LEFT_OUT = "left out"
    TOO_LATE = "too late"


def launch(
    job: Callable[..., Any],
    *args: Any,
    devices: int | Sequence[str],
    run_dir: str | Path,
    patience: float = 30.0,
    min_ranks: int = 1,
    respawn: int = 0,
    **kwargs: Any,
) -> TeamHandle:
    """Start one process for each device, and return at once.

    Args:
        job: called in each process as `job(team, *args, **kwargs)`; what it returns comes back.
        args: arguments of the job.
        devices: names of the devices, or the number of processes on the CPU.
        run_dir: folder for `rank-<i>.log`, all that a rank prints.
        patience: seconds for which the others wait for a rank that gives no sign of life.
        min_ranks: fewer ranks than these end the run.
        respawn: how often, in all, another rank starts in the place of one that died or hung.
        kwargs: arguments of the job by name.

    Raises:
        TeamError: a setting is impossible, or the job cannot travel to another process.

    Example:
        >>> import operator, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> launch(operator.attrgetter("rank"), devices=2, run_dir=folder).join()
        {0: 0, 1: 1}
    """
    names = _named_devices(devices)
    require_possible(patience, min_ranks, len(names))
    if respawn < 0:
        raise TeamError(
            f"respawn is {respawn}; give 0 for never, or how many ranks may start again"
        )
    scratch = _scratch_with({"function": job, "args": args, "kwargs": kwargs})
    try:
        return TeamHandle(names, Path(run_dir), scratch, patience, min_ranks, respawn)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise


@final
class TeamHandle:
    """The processes of a team; `launch` makes it.

    Attributes:
        pids: process id of each rank.
        logs: log file of each rank.

    Example:
        >>> import operator, tempfile
        >>> with launch(operator.attrgetter("device"), devices=1, run_dir=tempfile.mkdtemp()) as team:
        ...     team.join(), team.poll()[0].value
        ({0: 'cpu'}, 'done')
    """

    def __init__(
        self,
        devices: Sequence[str],
        run_dir: Path,
        scratch: Path,
        patience: float,
        min_ranks: int,
        respawn: int = 0,
    ) -> None:
        self._scratch = scratch
        self._run_dir = run_dir
        self._respawn = respawn
        self._replaced: dict[int, int] = {}  # the rank in whose place each newcomer started
        self._store, port = open_store()
        self._parcel = os.open(scratch / PARCEL, os.O_RDONLY)
        ranks = range(len(devices))
        self._settings: dict[str, Any] = {
            "host": "127.0.0.1", "port": port, "devices": list(devices), "patience": patience,
            "min_ranks": min_ranks, "sys_path": list(sys.path), "started": len(devices),
            "parcel": _open_file(self._parcel, scratch / PARCEL),
        }  # fmt: skip
        self._write_settings()
        run_dir.mkdir(parents=True, exist_ok=True)
        self.logs = {rank: run_dir / f"rank-{rank}.log" for rank in ranks}
        self._watch = Heartbeat(("127.0.0.1", port), ranks, patience, None)
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._statuses: dict[int, int] = {}  # of the ranks that ended
        self._reaping = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._changed = threading.Event()
        self._results: dict[int, Any] = {}
        self._is_closed = False
        atexit.register(self.end)
        try:
            for rank in ranks:
                self._start(rank, len(devices))
        except BaseException:
            self.end()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()

    @property
    def pids(self) -> dict[int, int]:
        """Process id of each rank."""
        return {rank: process.pid for rank, process in list(self._processes.items())}

    def poll(self) -> dict[int, RankState]:
        """Return what each rank does now; start others in place of those that died, if that is wanted."""
        states = self._states()
        for rank in self._to_replace(states):
            self._respawn -= 1
            new = self.add(self._settings["devices"][rank])
            self._replaced[new] = rank
            states[new] = RankState.RUNNING
        return states

    def add(self, device: str) -> int:
        """Start one more rank, which joins the others between two of their windows; return its id.

        Args:
            device: name of its device.

        Raises:
            TeamError: the device is not one of torch, or the training has ended.

        Example:
            >>> import operator, tempfile
            >>> with launch(operator.attrgetter("device"), devices=1, run_dir=tempfile.mkdtemp()) as team:
            ...     team.add("cpu")
            1
        """
        if self._is_closed or self._results:
            raise TeamError("the training has ended, so no rank can join it; start it again")
        names = self._settings["devices"]
        in_use = [
            names[rank] for rank, state in self._states().items() if state is RankState.RUNNING
        ]
        _named_devices([*in_use, device])
        rank = len(names)
        names.append(device)
        self._write_settings()
        self.logs[rank] = self._run_dir / f"rank-{rank}.log"
        self._start(rank, len(in_use) + 1)
        return rank

    def request(self, text: str) -> None:
        """Ask all ranks for something; each reads the requests in the same order.

        Raises:
            TeamError: the training has ended.
        """
        if self._is_closed or self._results:
            raise TeamError(f"the training has ended, so no rank reads the request {text!r}")
        append(self._store, "request", text)

    def is_newcomer(self, rank: int) -> bool:
        """Return True for a rank that started later, and has not joined the others."""
        return rank >= self._settings["started"] and not self._store.check([f"{JOINED}/{rank}"])

    def replaced(self, rank: int) -> int | None:
        """Return the rank in whose place another one started, if there is one."""
        return self._replaced.get(rank)

    def join(self, timeout: float | None = None) -> dict[int, Any]:
        """Wait for the end, and return what the job returned on each rank that is alive.

        An error or Ctrl-C while it waits ends all ranks.

        Args:
            timeout: seconds to wait; without one it waits for as long as it takes.

        Raises:
            WorkerError: a rank raised an error, or no rank is left.
            TimeoutError: the time is over; the ranks still run.
        """
        limit = None if timeout is None else time.monotonic() + timeout
        try:
            while not self._is_over() and (limit is None or time.monotonic() < limit):
                self._changed.wait(_LOOK)
                self._changed.clear()
        except BaseException:
            self.end()
            raise
        if running := self._running():
            raise TimeoutError(
                f"ranks {running} still run after {timeout} s; join again, or end()"
            )
        self.end()
        return dict(sorted(self._results.items()))

    def end(self) -> None:
        """End all ranks and remove what they shared; nothing happens the second time."""
        if self._is_closed:
            return
        self._stop(self._running(), is_final=False)
        limit = time.monotonic() + _GRACE
        while self._running() and time.monotonic() < limit:
            time.sleep(0.005)
        self._stop(self._running())
        for thread in self._threads:
            thread.join()
        self._watch.close()
        if self._parcel >= 0:
            os.close(self._parcel)
            self._parcel = -1
        shutil.rmtree(self._scratch, ignore_errors=True)
        atexit.unregister(self.end)
        self._is_closed = (
            True  # at last: a second Ctrl-C in here must not make the next call do nothing
        )

    def _states(self) -> dict[int, RankState]:
        return {rank: self._state(rank) for rank in list(self._processes)}

    def _to_replace(self, states: Mapping[int, RankState]) -> list[int]:
        """Return the ranks in whose place others start now."""
        alive = [
            rank
            for rank, state in states.items()
            if state is RankState.RUNNING and not self.is_newcomer(rank)
        ]
        is_wanted = self._respawn and alive and not self._results and not self._is_closed
        lost = (RankState.DIED, RankState.LEFT_OUT)
        dead = [rank for rank, state in states.items() if state in lost]
        new = [rank for rank in dead if rank not in self._replaced.values()]
        return new[: self._respawn] if is_wanted else []

    def _write_settings(self) -> None:
        part = self._scratch / f"{SETTINGS}.part"
        part.write_text(json.dumps({**self._settings, "parent": _pid_to_die_with()}), "utf-8")
        part.replace(self._scratch / SETTINGS)

    def _start(self, rank: int, size: int) -> None:
        module = "flodl.distributed.team.worker"
        command = [sys.executable, "-m", module, str(self._scratch), str(rank)]
        home = str(Path(__file__).parents[3])
        paths = [home, *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        environment.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // size)))
        with self.logs[rank].open("wb") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                # Ctrl-C in a terminal reaches this process alone, which ends the ranks in order.
                start_new_session=_IS_POSIX,
            )
        self._processes[rank] = process
        thread = threading.Thread(
            target=self._announce_end, args=(rank, process), name=f"flodl rank {rank}", daemon=True
        )
        thread.start()
        self._threads.append(thread)

    def _announce_end(self, rank: int, process: subprocess.Popen[bytes]) -> None:
        """Wait for the end of a rank, end what it left behind, and tell the survivors."""
        if sys.platform == "linux":
            # Not reaped yet, so that its id and that of its session still belong to it.
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        else:
            process.wait()
        with self._reaping:
            if sys.platform == "linux":
                signal_session(process.pid, signal.SIGKILL)
            self._statuses[rank] = process.wait()
        self._store.set(f"dead/{rank}", str(self._statuses[rank]))
        self._changed.set()

    def _running(self) -> list[int]:
        return [rank for rank in self._processes if rank not in self._statuses]

    def _stop(self, ranks: Sequence[int], *, is_final: bool = True) -> None:
        for rank in ranks:
            process = self._processes[rank]
            if not _IS_POSIX:
                process.kill()
                continue
            with self._reaping:
                if rank not in self._statuses:
                    # The whole session: a rank may have processes of its own that load data.
                    signal_session(process.pid, signal.SIGKILL if is_final else signal.SIGTERM)

    def _state(self, rank: int) -> RankState:
        status = self._statuses.get(rank)
        match status:
            case None:
                return RankState.RUNNING
            case 0:
                return RankState.DONE
            case 1 if self._error_file(rank).exists():
                return RankState.FAILED
            case _ if status == LEFT_OUT:
                return RankState.LEFT_OUT
            case _ if status == TOO_LATE or (self._results and self.is_newcomer(rank)):
                return RankState.TOO_LATE
        return RankState.DIED

    def _is_over(self) -> bool:
        """Return True if all members are done; raise the error of the first rank that failed."""
        states = self.poll()
        for rank, state in states.items():
            if state is RankState.FAILED and not self.is_newcomer(rank):
                raise self._failure(rank)
            if state is RankState.DONE and rank not in self._results:
                self._read_result(rank)
        running = [rank for rank, state in states.items() if state is RankState.RUNNING]
        if self._results:
            # Members that are done hold the result: one that is stopped is not waited for.
            self._stop([rank for rank in running if self._watch.is_silent(rank)])
        elif not running:
            raise self._all_dead(states)
        return not running

    def _read_result(self, rank: int) -> None:
        found = torch.load(self._scratch / f"rank-{rank}.result", weights_only=False)
        self._results[rank] = found["value"]
        outside = [
            each
            for each in self._running()
            if each not in found["members"] and not self._store.check([f"finished/{each}"])
        ]
        self._stop(outside)

    def _error_file(self, rank: int) -> Path:
        return self._scratch / f"rank-{rank}.error"

    def _failure(self, rank: int) -> WorkerError:
        error = json.loads(self._error_file(rank).read_text("utf-8"))
        where = "".join(error["traceback"].splitlines(keepends=True)[-5:]).rstrip()
        return WorkerError(
            f"rank {rank} failed with {error['type']}: {error['message']}\n{where}\n"
            f"all that it printed is in {self.logs[rank]}",
            rank=rank,
            log=self.logs[rank],
        )

    def _all_dead(self, states: Mapping[int, RankState]) -> WorkerError:
        told = ", ".join(
            f"rank {rank} {state} ({_described(self._statuses[rank])})"
            for rank, state in states.items()
        )
        last = max(states)
        return WorkerError(
            f"no rank is left: {told}; the logs are beside {self.logs[last]}",
            rank=last,
            log=self.logs[last],
        )


def _open_file(number: int, path: Path) -> str:
    """Return a path that leads to an open file, if the system has one also after the file was removed."""
    return f"/proc/{os.getpid()}/fd/{number}" if sys.platform == "linux" else str(path)


def _named_devices(devices: int | Sequence[str]) -> list[str]:
    names = ["cpu"] * devices if isinstance(devices, int) else list(devices)
    if not names:
        raise TeamError("a team without devices cannot start; give devices=2 or a list of names")
    for name in dict.fromkeys(names):
        try:
            kind = torch.device(name).type
        except RuntimeError:
            raise TeamError(
                f"{name!r} is no device of torch; name devices as 'cpu' or 'cuda:0'"
            ) from None
        if kind != "cpu" and names.count(name) > 1:
            raise TeamError(f"device {name!r} is named {names.count(name)} times; name it once")
    return names


def _scratch_with(job: Mapping[str, Any]) -> Path:
    """Return a private folder with the parcel; in memory where the system has such a place."""
    last: OSError | None = None
    for place in ("/dev/shm", None):
        if place is not None and not Path(place).is_dir():
            continue
        scratch = Path(tempfile.mkdtemp(prefix="flodl-team-", dir=place))
        try:
            pack(job, scratch / PARCEL)
        except OSError as error:  # too little room
            shutil.rmtree(scratch, ignore_errors=True)
            last = error
        except BaseException:
            shutil.rmtree(scratch, ignore_errors=True)
            raise
        else:
            return scratch
    raise TeamError(
        f"the job cannot be written for the ranks: {last}; make room in {tempfile.gettempdir()}, or set "
        "TMPDIR to a folder that has room"
    )


def open_store(host: str = "127.0.0.1", port: int = 0) -> tuple[TCPStore, int]:
    """Return a store and its port; it listens on this address alone, which TCPStore by itself does not.

    Raises:
        OSError: nothing can listen there.

    Example:
        >>> store, port = open_store()
        >>> store.port == port
        True
    """
    listener = socket.create_server((host, port), backlog=256)
    port = listener.getsockname()[1]
    store = TCPStore(
        host,
        port,
        is_master=True,
        wait_for_workers=False,
        timeout=timedelta(seconds=60),
        master_listen_fd=listener.detach(),
    )
    return store, port


def _pid_to_die_with() -> int:
    # Linux takes the end of the thread that started a process for the end of its parent.
    return os.getpid() if threading.current_thread() is threading.main_thread() else 0


def signal_session(pid: int, number: signal.Signals) -> None:
    """Send a signal to all processes of the session that a process leads."""
    with contextlib.suppress(ProcessLookupError, PermissionError):  # nobody of it is left
        os.killpg(pid, number)


def _described(status: int) -> str:
    if status < 0:
        return f"signal {-status}"
    return f"status {status}"
