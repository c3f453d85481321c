"""A team whose ranks a launcher started: how one of them joins it, and leaves it.

    torchrun, fdl launch   the agent has the store; its keys get a prefix of this start
    srun                   rank 0 has it, so that the end of rank 0 ends all

No parent waits for these processes. A death shows as a closed connection and as silence; `fdl launch` also
tells it through the store, so that the survivors need not wait for the silence.
"""

from __future__ import annotations

import itertools
import os
import socket
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from torch._C._distributed_c10d import TCPStore

from flodl.distributed.team.failures import TeamError
from flodl.distributed.team.place import Place
from flodl.distributed.team.scope import Scope
from flodl.distributed.team.team import Team

_LOOK: Final = 0.01
# Stores that this process has for the others; they live as long as it does.
_served: dict[tuple[str, int], TCPStore] = {}
# A script may train several times; each training has keys of its own.
_numbers: Iterator[int] = itertools.count()


def join(place: Place, device: str, *, patience: float = 30.0, min_ranks: int = 1) -> Team:
    """Join the ranks that a launcher started, as one of them.

    Args:
        place: the place of this process among them.
        device: name of the device of this rank.
        patience: seconds for which the others wait for a rank that gives no sign of life.
        min_ranks: fewer ranks than these end the run.

    Raises:
        TeamError: a setting is impossible, or the store does not answer.

    Example:
        >>> from flodl.distributed.team.place import place_of
        >>> from flodl.distributed.team.launcher import open_store
        >>> store, port = open_store()
        >>> place = place_of(
        ...     {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": f"{port}",
        ...      "TORCHELASTIC_USE_AGENT_STORE": "True"}
        ... )
        >>> team = join(place, "cpu")
        >>> team.members
        (0,)
        >>> leave(team, place)
    """
    require_possible(patience, min_ranks, place.world_size)
    host, port = place.address
    scope = Scope(start=start_of(place), training=str(next(_numbers)), hostname=_hostname(place))
    try:
        if place.serves and place.address not in _served:
            _served[place.address] = TCPStore(
                host, port, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=60)
            )
        return Team(
            place.address,
            place.rank,
            [device] * place.world_size,
            patience=patience,
            min_ranks=min_ranks,
            scope=scope,
        )
    except RuntimeError as error:  # what torch raises for all of its network
        does = "cannot open" if place.serves else "does not reach"
        raise TeamError(
            f"rank {place.rank} {does} the store at {host}:{port}: {str(error).splitlines()[0]}; it must be "
            "an address of the host of rank 0 with a port that is free there and that the others may reach"
        ) from None


def leave(team: Team, place: Place) -> None:
    """Leave a team together with all of its members."""
    team.finish()
    others = len(team.members) - 1
    team.close()
    if not place.serves:
        team.count("left")
        return
    # The store ends with this process, and the others still read that all are through.
    limit = time.monotonic() + team.patience
    while team.counted("left") < others and time.monotonic() < limit:
        time.sleep(_LOOK)


def start_of(place: Place) -> str:
    """Return the prefix of one start of the ranks; keys of an earlier one would lead to dead processes.

    Example:
        >>> from flodl.distributed.team.place import place_of
        >>> start_of(place_of({"RANK": "0", "WORLD_SIZE": "1", "FLODL_STORE": "a:1"}))
        'flodl/0/try0'
    """
    return f"flodl/{place.run}/try{place.attempt}"


def require_possible(patience: float, min_ranks: int, count: int) -> None:
    """Refuse settings that no team can obey.

    Raises:
        TeamError: the message names the setting.
    """
    if not patience > 0:
        raise TeamError(f"patience is {patience} s; give a number above 0, or leave it out for 30")
    if not 1 <= min_ranks <= count:
        raise TeamError(
            f"min_ranks is {min_ranks} with {count} devices; give a number from 1 to {count}"
        )


def _hostname(place: Place) -> str:
    """Return the address under which the other ranks reach this one."""
    if place.is_local:
        return "127.0.0.1"
    if "GLOO_SOCKET_IFNAME" in os.environ:
        return ""  # Gloo reads it
    try:
        # Nothing is sent: the system only chooses the interface that leads to the store.
        family, kind, protocol, _, address = socket.getaddrinfo(
            *place.address, type=socket.SOCK_DGRAM
        )[0]
        with socket.socket(family, kind, protocol) as towards:
            towards.connect(address)
            return str(towards.getsockname()[0])
    except OSError:
        return ""
