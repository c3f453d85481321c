"""Signs of life of the ranks: a counter in the store for each, written and read by a thread.

Example: patience 1 s, so that a beat comes every 0.1 s. Rank 1 is stopped.

    rank 0 reads   beat/1 = 41   41   41 ...     the silence of rank 1 grows by 0.1 s at each look
    after 1 s      is_silent(1)                  the wait of rank 0 ends, and it regroups
    rank 1 wakes   beat/1 = 42                   too late: the members of the next generation are fixed

Silence is counted in looks, not by the clock: a process that was stopped itself must not take the
others for silent when it wakes. A rank that never gave a sign still imports, and gets two minutes more.

The thread also reads two lists of the store: ranks that ask to join, and requests to all ranks, such as
`save`. The lists are `want/1`, `want/2`, ... and `request/1`, `request/2`, ...
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterable
from datetime import timedelta
from typing import Final, final

from torch._C._distributed_c10d import TCPStore

from flodl.distributed.team.scope import Scope
from flodl.distributed.team.store_list import StoreList

STORE_LOST: Final = 76  # exit status of a worker whose parent is gone
_LONGEST_INTERVAL: Final = 0.5
_START: Final = 120.0  # seconds more for a rank that imports


@final
class Heartbeat:
    """The thread that gives signs of life of one rank, and watches those of others.

    Args:
        address: host and port of the store; the thread has a connection of its own.
        ranks: the ranks to watch.
        patience: seconds of silence after which a rank counts as hung.
        own: the rank that gives signs; `None` only watches.
        scope: the part of the store in which the signs are.

    Attributes:
        newcomers: ids of the ranks that asked to join, each watched from then on.
        requests: the requests to all ranks so far, in the order of the store.
    """

    def __init__(
        self,
        address: tuple[str, int],
        ranks: Iterable[int],
        patience: float,
        own: int | None,
        scope: Scope | None = None,
    ) -> None:
        self.interval = min(_LONGEST_INTERVAL, patience / 10)
        self._patience = patience
        self._own = own
        self._silence = {rank: 0.0 for rank in ranks if rank != own}
        self._seen = dict.fromkeys(self._silence, 0)
        self.newcomers: tuple[int, ...] = ()
        self.requests: tuple[str, ...] = ()
        host, port = address
        whole = TCPStore(
            host, port, is_master=False, wait_for_workers=False, timeout=timedelta(seconds=60)
        )
        self._store = (scope or Scope()).of_training(whole)
        self._wants, self._asked = (
            StoreList(self._store, "want"),
            StoreList(self._store, "request"),
        )
        if own is not None:
            self._store.add(f"beat/{own}", 1)  # at once: it may be stopped before the first look
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="flodl heartbeat", daemon=True)
        self._thread.start()

    def is_silent(self, rank: int) -> bool:
        """Return True if a rank gave no sign of life for longer than the patience."""
        limit = self._patience if self._seen.get(rank) else self._patience + _START
        return self._silence.get(rank, 0.0) >= limit

    def close(self) -> None:
        """End the thread; this rank gives no sign any more."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        before = time.monotonic()
        while not self._ended.wait(self.interval):
            now = time.monotonic()
            try:
                self._beat(min(now - before, 2 * self.interval))
            except (RuntimeError, ValueError):  # torch raises its DistError for a lost connection
                self._lose_store()
                return
            before = now

    def _beat(self, passed: float) -> None:
        if self._own is not None:
            self._store.add(f"beat/{self._own}", 1)
        self._welcome()
        self.requests = (*self.requests, *self._asked.new())
        for rank, seen in self._seen.items():
            count = self._store.add(f"beat/{rank}", 0)
            self._silence[rank] = 0.0 if count != seen else self._silence[rank] + passed
            self._seen[rank] = count

    def _welcome(self) -> None:
        for rank in map(int, self._wants.new()):
            if rank != self._own:
                self._silence.setdefault(rank, 0.0)
                self._seen.setdefault(rank, 0)
                self.newcomers = (*self.newcomers, rank)

    def _lose_store(self) -> None:
        if self._own is None or self._ended.is_set():
            return
        # The main thread may be anywhere, also in a collective that never ends.
        sys.stderr.write("the process with the store of the ranks is gone; this one ends\n")
        sys.stderr.flush()
        os._exit(STORE_LOST)
