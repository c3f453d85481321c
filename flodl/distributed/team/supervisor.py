"""The process behind `fdl launch`: `python -m flodl.distributed.team.supervisor ORDER.json`.

It starts the ranks of a script on this host, passes signals on, tells the ranks through the store who died,
and leaves a result beside the order. On the first host it has the store, so that no rank is needed for it.

    a rank died of a signal      the others go on
    a rank ended with an error   all end, on all hosts; with `restarts` they start again
    this process ends            the system ends the ranks
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from torch._C._distributed_c10d import PrefixStore, Store, TCPStore

from flodl.distributed.team.failures import TeamError
from flodl.distributed.team.heartbeat import Heartbeat
from flodl.distributed.team.launcher import open_store
from flodl.distributed.team.parcel import LEFT_OUT
from flodl.distributed.team.rank_process import RankProcess
from flodl.distributed.team.scope import Scope
from flodl.distributed.team.team import FAILED, LOST

NO_STORE: Final = 5  # status where no store can be opened or reached
_RUN: Final = "launch"
_CALLED_OFF: Final = "called off"
_FINAL: Final = 3  # the signal that nothing can refuse
_LOOK: Final = 0.05
_GRACE: Final = 10.0  # seconds between the request to end and the kill: a rank may save
_PATIENCE: Final = 30.0  # seconds without a sign of another host
_FORWARDED: Final = ("SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchOrder:
    """The wishes of `fdl launch`.

    Attributes:
        command: the program of a rank and its words.
        command_beside: the same for a Python without flodl, which gets that of the tool; empty for none.
        nproc: ranks on each host.
        nnodes: number of hosts.
        node_rank: number of this host.
        host: where the store is; empty for this host alone.
        port: its port.
        restarts: how often all ranks start again after an error.
        log_dir: folder for the output of each rank; empty for none.
        is_only_stderr: whether standard output of the ranks goes to standard error.
        timeout_s: seconds to wait for the store of the first host.

    Example:
        >>> LaunchOrder(command=("python", "train.py"), nproc=2).world_size
        2
    """

    command: Sequence[str]
    nproc: int
    command_beside: Sequence[str] = ()
    nnodes: int = 1
    node_rank: int = 0
    host: str = ""
    port: int = 0
    restarts: int = 0
    log_dir: str = ""
    is_only_stderr: bool = False
    timeout_s: float = 300.0

    @property
    def world_size(self) -> int:
        """Number of ranks on all hosts."""
        return self.nproc * self.nnodes

    @property
    def ranks(self) -> range:
        """The ranks on this host."""
        return range(self.node_rank * self.nproc, (self.node_rank + 1) * self.nproc)


@final
class Supervisor:
    """The ranks of one host, from the first start to the last end.

    Args:
        order: the ranks to start.

    Raises:
        TeamError: the store cannot be opened or reached.

    Example:
        >>> import sys
        >>> Supervisor(LaunchOrder(command=(sys.executable, "-c", "pass"), nproc=2)).run()["status"]
        0
    """

    def __init__(self, order: LaunchOrder) -> None:
        self._order = order
        self._store, self._address = _store_for(order)
        self._signals: list[int] = []
        self._hosts: Heartbeat | None = None
        if order.nnodes > 1:
            scope = Scope(start=f"flodl/{_RUN}", training="hosts")
            hosts = range(order.nnodes)
            self._hosts = Heartbeat(self._address, hosts, _PATIENCE, order.node_rank, scope)

    def run(self) -> dict[str, Any]:
        """Start the ranks, and again if that is wanted; return how it ended, as plain values."""
        numbers = [each for each in signal.Signals if each.name in _FORWARDED]
        before = {number: signal.signal(number, self._note) for number in numbers}
        try:
            return self._run()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _run(self) -> dict[str, Any]:
        order, count = self._order, 0
        while True:
            keys = PrefixStore(f"flodl/{_RUN}/try{count}", self._store)
            attempt = _Attempt(order, self._address, keys, count, self._signals, self._hosts)
            status = attempt.run()
            if status == 0 or count == order.restarts or keys.check([_CALLED_OFF]):
                break
            count += 1
            say(f"all ranks start again ({count} of {order.restarts})")
        self._part()
        return {"status": status, "attempts": count + 1, "ranks": attempt.rows()}

    def _note(self, number: int, frame: object) -> None:
        del frame
        self._signals.append(number)

    def _part(self) -> None:
        """Leave the other hosts; the one with the store leaves last."""
        if self._hosts is None:
            return
        self._hosts.close()
        left = PrefixStore(f"flodl/{_RUN}", self._store)
        if self._order.node_rank:
            left.add("left", 1)
            return
        limit = time.monotonic() + _GRACE
        while left.add("left", 0) < self._order.nnodes - 1 and time.monotonic() < limit:
            time.sleep(_LOOK)


@final
class _Attempt:
    """One start of all ranks; the store tells of other hosts.

    The store has `dead/<rank>` with the status of each rank that ended, `lost/<rank>` for one without which
    the others went on, the first error under `failed`, and `called off` after a signal.
    """

    def __init__(
        self,
        order: LaunchOrder,
        address: tuple[str, int],
        keys: Store,
        count: int,
        signals: list[int],
        hosts: Heartbeat | None,
    ) -> None:
        self._order = order
        self._keys = keys
        self._signals = signals  # those that came
        self._passed_on = 0  # how many of them
        self._hosts = hosts
        self._statuses: dict[int, int] = {}  # of the ranks of all hosts that ended, in that order
        self._hung: set[int] = set()  # ranks that were killed because of that
        self._kill_at: float | None = None
        self._processes: list[RankProcess] = []
        environment = _shared_environment(order, address, count)
        try:
            for rank in order.ranks:
                self._start(rank, environment, is_again=count > 0)
        except BaseException:
            self._send(signal.SIGKILL)
            raise

    def run(self) -> int:
        """Wait for the end of all ranks, and return the status of the whole."""
        try:
            while len(self._statuses) < self._order.world_size:
                self._pass_on()
                self._look_here()
                self._look_elsewhere()
                self._end_all_after_failure()
                self._end_lost()
                time.sleep(_LOOK)
        finally:
            self._send(signal.SIGKILL)
        return self._status()

    def rows(self) -> list[dict[str, Any]]:
        """Return the end of each rank of this host."""
        return [
            {
                "rank": each.rank,
                "status": None if _is_signal(each.status) else each.status,
                "signal": _signal_name(each.status) if _is_signal(each.status) else None,
                "log": None if each.log is None else str(each.log),
            }
            for each in self._processes
        ]

    def _start(self, rank: int, environment: dict[str, str], *, is_again: bool) -> None:
        order, log = self._order, None
        if order.log_dir:
            log = Path(order.log_dir) / f"rank-{rank}.log"
            if not is_again:
                log.write_bytes(b"")
        own = {"RANK": str(rank), "LOCAL_RANK": str(rank - order.ranks.start)}
        self._processes.append(
            RankProcess(
                rank,
                _command_of(order),
                {**environment, **own},
                log,
                is_only_stderr=order.is_only_stderr,
            )
        )

    def _pass_on(self) -> None:
        while self._passed_on < len(self._signals):
            number = self._signals[self._passed_on]
            self._passed_on += 1
            self._keys.set(_CALLED_OFF, "")
            # Asked twice, a rank ends at once; one that ignores even that is ended the third time.
            self._send(number if self._passed_on < _FINAL else signal.SIGKILL)

    def _send(self, number: int) -> None:
        for each in self._processes:
            each.send(number)

    def _look_here(self) -> None:
        for each in self._processes:
            if each.rank in self._statuses or (status := each.look()) is None:
                continue
            self._statuses[each.rank] = status
            is_error = status > 0 and status != LEFT_OUT
            if is_error and not self._signals:
                told = {"rank": each.rank, "reason": f"status {status}"}
                # The ranks tell the reason themselves, if it is theirs.
                self._keys.compare_set(FAILED, "", json.dumps(told))
            self._keys.set(f"dead/{each.rank}", str(status))
            if status:
                self._tell_end(each, status)

    def _look_elsewhere(self) -> None:
        order = self._order
        for rank in range(order.world_size):
            if rank in self._statuses or rank in order.ranks:
                continue
            key = f"dead/{rank}"
            host = rank // order.nproc
            if self._hosts is not None and self._hosts.is_silent(host):
                if not self._keys.check([key]):
                    say(f"host {host} gives no sign of life; its rank {rank} counts as dead")
                self._keys.compare_set(key, "", str(-signal.SIGKILL))
            if self._keys.check([key]):
                # A rank that gives up tells it without a status, before it ends.
                told = self._keys.get(key).decode()
                if told:
                    self._statuses[rank] = int(told)

    def _end_all_after_failure(self) -> None:
        failed = None if self._kill_at is not None else self._failed_rank()
        if failed is not None:
            self._kill_at = time.monotonic() + _GRACE
            # Not to the one that failed: it still prints why.
            for each in self._processes:
                if each.rank != failed:
                    each.send(signal.SIGTERM)
        if self._kill_at is not None and time.monotonic() > self._kill_at:
            self._send(signal.SIGKILL)

    def _end_lost(self) -> None:
        """End ranks that hang, when all others are through; one that is stopped is not waited for."""
        left = set(range(self._order.world_size)) - set(self._statuses)
        if 0 in self._statuses.values() and all(
            self._keys.check([f"{LOST}/{rank}"]) for rank in left
        ):
            for each in self._processes:
                if each.rank in left - self._hung:
                    self._hung.add(each.rank)
                    say(
                        f"rank {each.rank} hung, so the others went on without it; it is killed now"
                    )
                    each.send(signal.SIGKILL)

    def _failed_rank(self) -> int | None:
        if not self._keys.check([FAILED]):
            return None
        return int(json.loads(self._keys.get(FAILED))["rank"])

    def _status(self) -> int:
        """Return 0 if the survivors are through, else the status of the first failure."""
        failed = self._failed_rank()
        if failed is not None and self._statuses[failed]:
            return _code(self._statuses[failed])
        if 0 in self._statuses.values():
            return 0
        if self._signals:
            return _code(
                next(self._statuses[rank] for rank in self._statuses if rank in self._order.ranks)
            )
        if not self._signals:
            say("no rank is left")
        return _code(next(iter(self._statuses.values())))

    def _tell_end(self, process: RankProcess, status: int) -> None:
        """Say how a rank ended, unless it was asked to."""
        failed = self._failed_rank()
        was_asked = failed is not None and failed != process.rank
        if self._signals or was_asked or process.rank in self._hung:
            return
        how = f"died of {_signal_name(status)}" if _is_signal(status) else f"ended with {status}"
        left = sorted(set(range(self._order.world_size)) - set(self._statuses))
        then = ""
        if left:
            then = "; the others end too" if failed is not None else f"; {_named(left)} on"
        where = "" if process.log is None else f"; its output is in {process.log}"
        say(f"rank {process.rank} {how}{then}{where}")


def main(path: Path) -> int:
    """Obey the order of a file; write the result beside it, and return the status."""
    order = LaunchOrder(**json.loads(path.read_text("utf-8")))
    try:
        result = Supervisor(order).run()
    except TeamError as error:
        result = {"status": NO_STORE, "error": str(error)}
    path.with_name("result.json").write_text(json.dumps(result), "utf-8")
    return int(result["status"])


def say(message: str) -> None:
    """Print a message about ranks, apart from what they print themselves."""
    sys.stderr.write(f"fdl launch: {message}\n")
    sys.stderr.flush()


def _command_of(order: LaunchOrder) -> Sequence[str]:
    """Return the command of a rank; where this module comes from the tool, its flodl must too."""
    home = Path(__file__).parents[3]
    is_installed = any(Path(each).resolve() == home.resolve() for each in sys.path)
    return order.command if is_installed or not order.command_beside else order.command_beside


def _store_for(order: LaunchOrder) -> tuple[TCPStore, tuple[str, int]]:
    """Return the store of all hosts and its address; the first host opens it, the others reach it.

    Raises:
        TeamError: it cannot be opened or reached.
    """
    if order.nnodes == 1:
        store, port = open_store()
        return store, ("127.0.0.1", port)
    where = f"{order.host}:{order.port}"
    if order.node_rank == 0:
        try:
            store, _ = open_store(order.host, order.port)
        except OSError as error:
            why = error.strerror or error
            raise TeamError(f"this host cannot have the store at {where}: {why}") from None
    else:
        _await_port(order.host, order.port, order.timeout_s)
        store = TCPStore(order.host, order.port, is_master=False, wait_for_workers=False)
    return store, (order.host, order.port)


def _await_port(host: str, port: int, seconds: float) -> None:
    """Wait until something listens; the store of torch would tell of each try with a stack of C++."""
    limit = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection((host, port), timeout=seconds).close()
        except OSError as error:
            if time.monotonic() > limit:
                raise TeamError(
                    f"no store answers at {host}:{port} after {seconds:g} s: {error.strerror or error}"
                ) from None
            time.sleep(_LOOK)
        else:
            return


def _shared_environment(
    order: LaunchOrder, address: tuple[str, int], count: int
) -> dict[str, str]:
    """Return the variables that torchrun sets for every rank of this host: its scripts run here too."""
    threads = max(1, (os.cpu_count() or 1) // order.nproc)
    return {
        "OMP_NUM_THREADS": str(threads),
        **os.environ,
        "PYTHONUNBUFFERED": "1",
        "WORLD_SIZE": str(order.world_size),
        "LOCAL_WORLD_SIZE": str(order.nproc),
        "GROUP_RANK": str(order.node_rank),
        "MASTER_ADDR": address[0],
        "MASTER_PORT": str(address[1]),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_RUN_ID": _RUN,
        "TORCHELASTIC_RESTART_COUNT": str(count),
        "TORCHELASTIC_MAX_RESTARTS": str(order.restarts),
        "FDL_LAUNCH": "1",
    }


def _is_signal(status: int | None) -> bool:
    return status is not None and status < 0


def _signal_name(status: int | None) -> str:
    try:
        return signal.Signals(-(status or 0)).name
    except ValueError:
        return f"signal {-(status or 0)}"


def _code(status: int) -> int:
    """Return a status as shells know it."""
    return 128 - status if status < 0 else status


def _named(ranks: Sequence[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]} goes"
    return f"ranks {', '.join(map(str, ranks))} go"


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
