"""Place of this process among those that a launcher or a batch system started, read from the environment.

    torchrun, fdl launch   RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT
    srun                   SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID, and FLODL_STORE=host:port by you

A process with none of them was started by a person, and starts processes of its own if it needs some.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, final

from flodl.errors import DeviceError

STORE: Final = "FLODL_STORE"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One of several processes that train together, none of which started the others.

    Attributes:
        rank: number of this process among all.
        world_size: number of all processes.
        local_rank: number of this process among those of its host.
        is_local: whether all of them are known to be on one host.
        address: host and port of the store.
        serves: whether the store is in this process, because no other process has one.
        run: name of this start, apart from others that use the same store.
        attempt: how often the processes were started again.
        starter: who started them, for messages.

    Example:
        >>> place_of({"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"})
        Place(rank=1, world_size=2, local_rank=1, is_local=False, address=('10.0.0.1', 29500), \
serves=False, run='0', attempt=0, starter='the launcher')
    """

    rank: int
    world_size: int
    local_rank: int
    is_local: bool
    address: tuple[str, int]
    serves: bool
    run: str
    attempt: int
    starter: str


def place_of(environ: Mapping[str, str]) -> Place | None:
    """Return the place that an environment describes, or `None` for a process that a person started.

    Raises:
        DeviceError: a variable is missing or is no number.

    Example:
        >>> place_of({"PATH": "/bin"}) is None
        True
    """
    if "RANK" in environ and "WORLD_SIZE" in environ:
        return _launched(environ)
    if STORE in environ and "SLURM_PROCID" in environ:
        return _of_slurm(environ)
    return None


def _launched(environ: Mapping[str, str]) -> Place:
    rank, size = _number(environ, "RANK"), _number(environ, "WORLD_SIZE")
    is_served = environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    return Place(
        rank=rank,
        world_size=size,
        local_rank=_number(environ, "LOCAL_RANK", rank),
        is_local=_number(environ, "LOCAL_WORLD_SIZE", 0) == size,
        address=_launched_address(environ),
        serves=rank == 0 and not is_served,
        run=environ.get("TORCHELASTIC_RUN_ID", "0"),
        attempt=_number(environ, "TORCHELASTIC_RESTART_COUNT", 0),
        starter="torchrun" if is_served and "FDL_LAUNCH" not in environ else _starter(environ),
    )


def _starter(environ: Mapping[str, str]) -> str:
    return "fdl launch" if "FDL_LAUNCH" in environ else "the launcher"


def _launched_address(environ: Mapping[str, str]) -> tuple[str, int]:
    if "MASTER_ADDR" in environ and "MASTER_PORT" in environ:
        return environ["MASTER_ADDR"], _number(environ, "MASTER_PORT")
    if STORE in environ:
        return _address(environ[STORE])
    raise DeviceError(
        "RANK and WORLD_SIZE are set, and MASTER_ADDR and MASTER_PORT are not, so the ranks cannot meet; "
        f"start the script with torchrun or `fdl launch`, or set {STORE}=host:port"
    )


def _of_slurm(environ: Mapping[str, str]) -> Place:
    rank = _number(environ, "SLURM_PROCID")
    step = f"{environ.get('SLURM_JOB_ID', '0')}.{environ.get('SLURM_STEP_ID', '0')}"
    hosts = environ.get("SLURM_STEP_NUM_NODES", environ.get("SLURM_NNODES", ""))
    return Place(
        rank=rank,
        world_size=_number(environ, "SLURM_NTASKS"),
        local_rank=_number(environ, "SLURM_LOCALID", rank),
        is_local=hosts == "1",
        address=_address(environ[STORE]),
        serves=rank == 0,
        run=step,
        attempt=_number(environ, "SLURM_RESTART_COUNT", 0),
        starter="SLURM",
    )


def _number(environ: Mapping[str, str], name: str, default: int | None = None) -> int:
    text = environ.get(name)
    if text is None and default is not None:
        return default
    if text is None or not text.isdecimal():
        raise DeviceError(
            f"{name} is {text!r} in the environment of this rank, which must be a whole number; "
            "start the script with torchrun, srun or `fdl launch`, which set it"
        )
    return int(text)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal():
        raise DeviceError(
            f"{STORE} is {text!r}; it must name the host of rank 0 and a free port, as in node1:29400"
        )
    return host.strip("[]"), int(port)
