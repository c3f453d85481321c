"""The process group of one generation: Gloo between the members that are alive.

A collective ends in one of three ways: it completes; a peer closes its connection, which Gloo reports at
once; or the caller sees that a member is silent, and gives the group up while the collective still waits.
Gloo cannot cancel the last: `abort` of torch 2.13 leaves it waiting, and the destructor of the group
waits for it. So a group that was given up is kept until its timeout, or until the process ends.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import cache
from typing import Any, Final, final

import torch
from torch import Tensor
from torch._C._distributed_c10d import Store
from torch.distributed import AllreduceOptions, BroadcastOptions, ProcessGroupGloo

from flodl.distributed.team.failures import PeerLostError

_LOOK: Final = timedelta(milliseconds=50)  # how often a wait asks whether it still makes sense


@final
class Group:
    """Collectives between the members of one generation.

    Args:
        store: a store that no other generation uses.
        position: position of this rank among the members.
        size: number of members.
        connect: seconds within which all members must connect.
        patience: seconds after which a collective that waits fails by itself.
        is_hopeless: whether a wait makes no sense any more; asked while a collective waits.
        hostname: address on which this rank listens for the others; nothing for the choice of Gloo.

    Raises:
        PeerLostError: a member did not connect.
    """

    def __init__(
        self,
        store: Store,
        position: int,
        size: int,
        *,
        connect: float,
        patience: float,
        is_hopeless: Callable[[], bool],
        hostname: str = "127.0.0.1",
    ) -> None:
        gloo: Any = ProcessGroupGloo  # torch's types leave the options out
        options: Any = gloo._Options()
        options._devices = [_device(hostname)]
        options._timeout = timedelta(seconds=connect)
        try:
            group = gloo(store, position, size, options)
        except (RuntimeError, ValueError) as error:
            raise PeerLostError(f"a member did not connect: {error}") from None
        group._set_default_timeout(timedelta(seconds=patience))
        self._group: Any = group
        self._size = size
        self._is_hopeless = is_hopeless

    def gather(self, numbers: Sequence[float]) -> list[list[float]]:
        """Return the numbers of every member, in the order of the members."""
        own = torch.tensor(numbers, dtype=torch.float64)
        found = [torch.empty_like(own) for _ in range(self._size)]
        self._wait(self._group.allgather([found], [own]), own, found)
        return [each.tolist() for each in found]

    def sum_up(self, tensor: Tensor) -> None:
        """Add up a tensor over the members, in place."""
        options = AllreduceOptions()  # its operation is the sum
        self._wait(self._group.allreduce([tensor], options), tensor)

    def send_from(self, position: int, tensor: Tensor) -> None:
        """Overwrite a tensor with that of one member."""
        options = BroadcastOptions()
        options.rootRank = position
        options.rootTensor = 0
        self._wait(self._group.broadcast([tensor], options), tensor)

    def close(self) -> None:
        """Close the connections, so that members that wait for this one learn it."""
        self._group = None

    def _wait(self, work: Any, *buffers: Any) -> None:
        while True:
            try:
                work.wait(_LOOK)
            except RuntimeError:
                if work.is_completed():
                    self._check(work)
                    return
            else:
                return
            if self._is_hopeless():
                _keep((self._group, work, buffers))
                raise PeerLostError("a member is silent, or the others regroup") from None

    def _check(self, work: Any) -> None:
        """Raise the error of a completed collective; it may have completed after the look was over."""
        try:
            work.wait()
        except RuntimeError as error:
            raise PeerLostError(f"a member is lost: {error}") from None


def _keep(group: Any) -> None:
    """Keep a group with a collective that still waits, also when the process ends: see the opening."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(group))


@cache
def _device(hostname: str) -> Any:
    # All generations share the thread of the device.
    if not hostname:
        return ProcessGroupGloo.create_default_device(lazy_init=False)
    return ProcessGroupGloo.create_device(hostname=hostname, lazy_init=False)
