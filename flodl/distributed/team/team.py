"""Membership of one rank: generations of members, and the collectives between them.

Example: three ranks in generation 4; the system kills rank 1 while all gather.

    ranks 0, 2   the collective fails at once, because the connections of rank 1 are closed
    rank 0       sets g5/join/0, and waits until each old member joined, is dead, or is silent
    parent       learns the end of rank 1 from the system, and sets dead/1
    rank 2       joins too; whoever sees the wait over proposes members 0 and 2: compare_set, one wins
    both         connect a new process group under the prefix g5, and repeat the collective

A rank enters generation n+1 only from generation n. So a rank that is still training learns of the
change at its next collective, whenever that is; the others wait for it as long as it gives signs of life. A
rank that finds itself left out ends (`LeftOutError`).

Members become more in one way. Example: rank 3 asks to join; ranks 0 and 2 let it in before window 9.

    rank 3       sets want/1, and gives signs of life
    ranks 0, 2   both call admit(9), and so leave generation 5
    both         set invited/3 to 6, then g6/join/0 and g6/join/2 to 9
    rank 3       sets g6/join/3; whoever sees all three proposes members 0, 2 and 3

A rank that has not come to window 9 yet sets its join key to another mark. Then members 0 and 2 go on
without rank 3 until they are equal again, and rank 3 is invited another time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Final, final

import torch
from torch import Tensor
from torch._C._distributed_c10d import PrefixStore, TCPStore

from flodl.distributed.control import ControlRow
from flodl.distributed.team.failures import (
    DesyncError,
    LeftOutError,
    PeerLostError,
    TeamError,
    TooLateError,
)
from flodl.distributed.team.group import Group
from flodl.distributed.team.heartbeat import Heartbeat
from flodl.distributed.team.scope import Scope
from flodl.distributed.team.store_list import append

_POLL: Final = 0.002
_INVITATION_POLL: Final = 0.02
_LONG: Final = 2.0  # seconds of a wait after which it is asked whether it still makes sense
FAILED: Final = "failed"  # key of the first error of a rank
LOST: Final = "lost"  # keys of the ranks without which the others went on
JOINED: Final = "joined"  # keys of the ranks that joined a running team
_INVITED: Final = "invited"  # keys of the ranks that ask: the generation that they may join
_CONNECT: Final = 2.0  # seconds for the first try to connect a generation; doubled by each failure


@final
class Team:
    """The ranks that train together, as one of them sees them.

    A worker gets it as the first argument of its job.

    Args:
        address: host and port of the store.
        rank: id of this rank, which it keeps for life.
        devices: device of each rank that starts.
        patience: seconds for which the others wait for a rank that gives no sign of life.
        min_ranks: fewer ranks than these end the run.
        scope: the part of the store that this team has, and where this rank listens.
        started: number of ranks that start together, if it is not that of the devices; a rank with a higher
            id asks to join them (`enter`).

    Attributes:
        rank: id of this rank.
        device: name of its device.
        devices: device of each rank that started, as far as this rank was told.
        members: ids of the ranks of this generation, ascending; empty before this rank joined.
        generation: number of the generation, from 0.
        patience: seconds for which this rank waits for one that gives no sign of life.
        on_long_wait: called again and again while this rank waits for others that are slow or lost; it may
            raise an error of its own.
        regroup_seconds: time that the last change of members took, from the failure on.

    Example:
        A team of one rank, with a store of its own.

        >>> from torch.distributed import TCPStore
        >>> store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        >>> team = Team(("127.0.0.1", store.port), 0, ["cpu"])
        >>> [row.done for row in team.gather(ControlRow(rank=0, window=0, done=3, busy=0.1))]
        [3]
        >>> team.sum_up([torch.ones(2)])
        [tensor([1., 1.])]
        >>> team.close()
    """

    def __init__(
        self,
        address: tuple[str, int],
        rank: int,
        devices: Sequence[str],
        *,
        patience: float = 30.0,
        min_ranks: int = 1,
        scope: Scope | None = None,
        started: int | None = None,
    ) -> None:
        scope = scope or Scope()
        started = len(devices) if started is None else started
        self.rank = rank
        self.device = devices[rank]
        self.devices = tuple(devices)
        self._devices = dict(enumerate(devices))
        self.members = tuple(range(started)) if rank < started else ()
        self.generation = -1
        self.regroup_seconds = 0.0
        self.on_long_wait: Callable[[], object] = _do_nothing
        self.patience = patience
        self._min_ranks = min_ranks
        self._connect = _CONNECT
        self._group: Group | None = None
        self._left_out: LeftOutError | None = None
        self._lost: set[int] = set()  # former members
        self._mark = ""  # the window before which this rank lets others join
        self._hostname = scope.hostname
        host, port = address
        whole = TCPStore(
            host, port, is_master=False, wait_for_workers=False, timeout=timedelta(seconds=60)
        )
        self._store = scope.of_training(whole)
        self._deaths = scope.of_start(whole)
        watched = self.members or range(rank)
        self._heartbeat = Heartbeat(address, watched, patience, rank, scope)

    @property
    def position(self) -> int:
        """Position of this rank among the members."""
        return self.members.index(self.rank)

    def gather(self, row: ControlRow) -> list[ControlRow]:
        """Return the rows of all members that are alive, in the order of their ids.

        It waits for members that are slow, and regroups without those that are dead or silent.

        Raises:
            LeftOutError: the others went on without this rank.
            TeamError: too few ranks are left, or one of them failed with an error.
        """
        while True:
            try:
                return [
                    ControlRow.from_numbers(each)
                    for each in self._require_group().gather(row.to_numbers())
                ]
            except PeerLostError:
                self._drop_group()

    def sum_up(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Return the sums of tensors over the members; the tensors themselves stay as they are.

        Raises:
            PeerLostError: a member is lost; gather rows again, then repeat the sum from the same tensors.
        """
        return self._in_one_piece(tensors, lambda group, flat: group.sum_up(flat))

    def share(self, tensors: Sequence[Tensor], source: int) -> list[Tensor]:
        """Return the tensors of rank `source`; on all ranks they have the same shapes.

        Raises:
            PeerLostError: a member is lost; gather rows again.
        """
        position = self.members.index(source)
        return self._in_one_piece(tensors, lambda group, flat: group.send_from(position, flat))

    def share_text(self, text: str, source: int) -> str:
        """Return the text of rank `source`.

        Raises:
            PeerLostError: a member is lost; gather rows again.
        """
        data = text.encode() if self.rank == source else b""
        size = self.share([torch.tensor([len(data)])], source)[0]
        found = torch.zeros(int(size.item()), dtype=torch.uint8)
        if data:
            found = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        return bytes(self.share([found], source)[0].tolist()).decode()

    def gather_texts(self, text: str) -> list[str]:
        """Return the texts of all members, in the order of their ids.

        Raises:
            PeerLostError: a member is lost; gather rows again.
        """
        data = text.encode()
        sizes = torch.zeros(len(self.members), dtype=torch.int64)
        sizes[self.position] = len(data)
        ends = self.sum_up([sizes])[0].cumsum(0).tolist()
        # Each byte has one writer, and the others add zero to it.
        whole = torch.zeros(ends[-1], dtype=torch.uint8)
        if data:
            end = ends[self.position]
            whole[end - len(data) : end] = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        found = bytes(self.sum_up([whole])[0].tolist())
        starts = [0, *ends[:-1]]
        return [found[start:end].decode() for start, end in zip(starts, ends, strict=True)]

    @property
    def is_newcomer(self) -> bool:
        """Whether this rank has yet to join a team that started without it."""
        return not self.members

    def device_of(self, rank: int) -> str:
        """Return the name of the device of a rank."""
        return self._devices[rank]

    def newcomers(self) -> list[int]:
        """Return the ranks that ask to join and are alive."""
        return [
            rank
            for rank in self._heartbeat.newcomers
            if rank not in self.members and rank not in self._lost and self._may_come(rank)
        ]

    def request(self, text: str) -> None:
        """Ask all ranks for something; each reads it in the same order (`requests`)."""
        append(self._store, "request", text)

    def requests(self) -> tuple[str, ...]:
        """Return the requests to all ranks so far, as far as this rank knows them."""
        return self._heartbeat.requests

    def requests_up_to(self, count: int) -> tuple[str, ...]:
        """Return so many requests, of which another rank knows; it waits until this rank knows them too."""
        while len(self.requests()) < count:
            time.sleep(_POLL)
        return self.requests()[:count]

    def admit(self, mark: int) -> None:
        """Let the ranks that ask join with the next collective, if all members admit them at the same mark.

        Args:
            mark: number of the window that begins now.
        """
        self._mark = str(mark)
        self._drop_group()

    def close_admission(self) -> None:
        """Let no rank join any more, until the next `admit`."""
        self._mark = ""

    def enter(self) -> None:
        """Ask to join, and wait until the members let this rank in.

        Raises:
            TooLateError: the team ended before.
            TeamError: a member failed with an error.
        """
        self._store.set(f"device/{self.rank}", self.device)
        append(self._store, "want", str(self.rank))
        while not self.members:
            self.generation = self._await_invitation()
            prefix = f"g{self.generation}"
            self._store.set(f"{prefix}/join/{self.rank}", "")
            while not self._store.check([f"{prefix}/members"]):
                self._require_company()
                time.sleep(_POLL)
            members = json.loads(self._store.get(f"{prefix}/members"))
            if self.rank in members:
                self._enter(members)
                self._deaths.set(f"{JOINED}/{self.rank}", "")
        try:
            self._group = self._connected()
        except PeerLostError:
            self._connect *= 2  # the next collective regroups

    def count(self, event: str) -> int:
        """Count an event over all ranks, and return how often it happened so far."""
        return self._store.add(f"count/{event}", 1)

    def counted(self, event: str) -> int:
        """Return how often an event happened so far."""
        return self._store.add(f"count/{event}", 0)

    def give_up(self) -> None:
        """Tell the others that this rank is as good as dead, so that they need not wait for its silence."""
        self._deaths.set(f"dead/{self.rank}", "")

    def fail(self, reason: str) -> None:
        """Tell the others that this rank failed with an error that they would meet too: all of them end."""
        told = json.dumps({"rank": self.rank, "reason": reason})
        self._deaths.compare_set(FAILED, "", told)  # the first one counts

    def finish(self) -> None:
        """Leave the team when all members leave it: a connection closed earlier would be a loss to them."""
        self._store.set(f"finished/{self.rank}", "")
        for rank in self.members:
            while rank != self.rank and self._may_come(rank):
                time.sleep(_POLL)
        self._drop_group()

    def close(self) -> None:
        """End the signs of life of this rank, and its connections."""
        self._drop_group()
        self._heartbeat.close()

    def _in_one_piece(
        self, tensors: Sequence[Tensor], act: Callable[[Group, Tensor], None]
    ) -> list[Tensor]:
        """Return copies of tensors after a collective on them, one for each dtype."""
        found: list[Tensor] = [torch.empty(0)] * len(tensors)
        for dtype in dict.fromkeys(each.dtype for each in tensors):
            places = [place for place, each in enumerate(tensors) if each.dtype == dtype]
            flat = torch.cat([tensors[place].detach().reshape(-1).to("cpu") for place in places])
            try:
                act(self._require_group(), flat)
            except PeerLostError:
                self._drop_group()
                raise
            parts = torch.split(flat, [tensors[place].numel() for place in places])
            for place, part in zip(places, parts, strict=True):
                like = tensors[place]
                found[place] = part.reshape(like.shape).to(like.device)
        return found

    def _require_group(self) -> Group:
        if self._left_out is not None:
            raise self._left_out  # it must not form a team of its own
        while self._group is None:
            start = time.perf_counter()
            try:
                self._group = self._regroup()
            except PeerLostError:
                self._connect *= 2
            else:
                self._connect = _CONNECT
                self.regroup_seconds = time.perf_counter() - start
        return self._group

    def _drop_group(self) -> None:
        if self._group is not None:
            self._group.close()
            self._group = None

    def _regroup(self) -> Group:
        """Enter the next generation, and connect to its members."""
        self._require_no_failure()
        self.generation += 1
        prefix = f"g{self.generation}"
        self._store.set(f"{prefix}/open", "")
        guests = self.newcomers() if self._mark else []
        for rank in guests:
            # Before the own key: a later generation, and its invitation, cannot come earlier than this one.
            self._store.set(f"{_INVITED}/{rank}", str(self.generation))
        self._store.set(f"{prefix}/join/{self.rank}", self._mark)
        self._await(prefix, "join", (*self.members, *guests), until=f"{prefix}/members")
        joined = [rank for rank in self.members if self._has(f"{prefix}/join/{rank}", rank)]
        if guests and self._admit_alike(prefix, joined):
            joined += [rank for rank in guests if self._has(f"{prefix}/join/{rank}", rank)]
        # The value that stands wins: all members read the same list, whoever wrote it.
        self._store.compare_set(f"{prefix}/members", "", json.dumps(joined))
        self._enter(json.loads(self._store.get(f"{prefix}/members")))
        return self._connected()

    def _admit_alike(self, prefix: str, joined: Sequence[int]) -> bool:
        """Return True if all members are at the window before which this rank lets others join."""
        return all(
            self._store.get(f"{prefix}/join/{rank}").decode() == self._mark for rank in joined
        )

    def _connected(self) -> Group:
        """Return the group of this generation, when all members are connected."""
        prefix = f"g{self.generation}"
        self._store.set(f"{prefix}/here/{self.rank}", "")
        self._await(prefix, "here", self.members, until=None)
        if not all(self._has(f"{prefix}/here/{rank}", rank) for rank in self.members):
            raise PeerLostError("a member died before it connected")
        return Group(
            PrefixStore(prefix, self._store),
            self.position,
            len(self.members),
            connect=self._connect,
            patience=self.patience,
            is_hopeless=self._is_hopeless,
            hostname=self._hostname,
        )

    def _enter(self, members: list[int]) -> None:
        if self.rank not in members:
            self._left_out = LeftOutError(
                f"rank {self.rank} was silent for more than {self.patience} s, so ranks {members} went on "
                "without it; raise the patience if the machine only was busy"
            )
            raise self._left_out
        if len(members) < self._min_ranks:
            left = "1 rank is" if len(members) == 1 else f"{len(members)} ranks are"
            raise TeamError(
                f"{left} left, and min_ranks is {self._min_ranks}; "
                "start again with the devices that work, or lower min_ranks"
            )
        for lost in set(self.members) - set(members):
            self._deaths.set(f"{LOST}/{lost}", "")
            self._lost.add(lost)
        self.members = tuple(members)
        for rank in members:
            if rank not in self._devices:
                self._devices[rank] = self._store.get(f"device/{rank}").decode()

    def _await_invitation(self) -> int:
        """Return the next generation that this rank may join."""
        key = f"{_INVITED}/{self.rank}"
        while True:
            if self._store.check([key]):
                generation = int(self._store.get(key))
                if generation > self.generation:
                    return generation
            self._require_company()
            time.sleep(_INVITATION_POLL)

    def _require_company(self) -> None:
        """Raise an error if no member is left that could let this rank in."""
        self._require_no_failure()
        if not any(self._may_come(rank) for rank in range(self.rank)):
            raise TooLateError(f"the training ended before rank {self.rank} could join it")

    def _await(self, prefix: str, step: str, ranks: Sequence[int], until: str | None) -> None:
        """Wait until each rank took a step, is dead or is silent; or until a key exists."""
        waiting = list(ranks)
        long = time.monotonic() + _LONG
        while waiting and not (until and self._store.check([until])):
            waiting = [
                rank
                for rank in waiting
                if not self._store.check([f"{prefix}/{step}/{rank}"]) and self._may_come(rank)
            ]
            if waiting:
                self._require_no_failure()
                time.sleep(_POLL)
                if time.monotonic() > long:
                    self.on_long_wait()

    def has_failed(self) -> bool:
        """Return True if a rank failed with an error that all would meet."""
        return self._deaths.check([FAILED])

    def _require_no_failure(self) -> None:
        if self.has_failed():
            told = json.loads(self._deaths.get(FAILED))
            raise TeamError(
                f"rank {told['rank']} failed, so rank {self.rank} ends too: {told['reason']}"
            )

    def _has(self, key: str, rank: int) -> bool:
        return self._store.check([key]) and not self._deaths.check([f"dead/{rank}"])

    def _may_come(self, rank: int) -> bool:
        if self._deaths.check([f"dead/{rank}"]) or self._heartbeat.is_silent(rank):
            return False
        return not self._store.check([f"finished/{rank}"])

    def _is_hopeless(self) -> bool:
        """Return True if a member is silent, or another one already regroups."""
        if any(self._heartbeat.is_silent(rank) for rank in self.members):
            return True
        return self._store.check([f"g{self.generation + 1}/open"])


def _do_nothing() -> None: ...


def require_agreement(rows: Sequence[ControlRow]) -> None:
    """Raise a DesyncError unless the rows of one window report one state."""
    states = [row.crc for row in rows]
    usual = max(dict.fromkeys(states), key=states.count)
    others = tuple(row.rank for row in rows if row.crc != usual)
    if others:
        named = "rank" if len(others) == 1 else "ranks"
        raise DesyncError(
            f"{named} {', '.join(map(str, others))} and the rest do not share one state any more in "
            f"window {rows[0].window}: something that each rank does for itself (a random number, a file, "
            "the time) changed weights or decisions; resume from a checkpoint",
            ranks=others,
        )
