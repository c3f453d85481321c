"""The process of one rank: `python -m flodl.distributed.team.worker FOLDER RANK`.

The folder holds `team.json` (address of the store, devices, settings) and the parcel with the job. The rank
leaves `rank-<i>.result` or `rank-<i>.error` there, and its status: 0 done, 1 error, 75 left out, 76 the
parent is gone, 77 the others ended before it joined them.
It never outlives the parent: Linux kills it then, and elsewhere the heartbeat ends it.
"""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any, Final

import torch

from flodl.distributed.team.failures import LeftOutError, TooLateError
from flodl.distributed.team.parcel import LEFT_OUT, PARCEL, SETTINGS, TOO_LATE, unpack
from flodl.distributed.team.team import Team

_PR_SET_PDEATHSIG: Final = 1


def main(folder: Path, rank: int) -> int:
    """Run the job of a folder as one rank, and return the exit status."""
    settings = json.loads((folder / SETTINGS).read_text("utf-8"))
    _die_with(settings["parent"])
    sys.path[:] = settings["sys_path"]
    try:
        _work(folder, rank, settings)
    except (LeftOutError, TooLateError) as error:
        print(error, file=sys.stderr)  # noqa: T201
        return LEFT_OUT if isinstance(error, LeftOutError) else TOO_LATE
    except Exception as error:
        traceback.print_exc()
        _write(
            folder / f"rank-{rank}.error",
            {
                "type": type(error).__qualname__,
                "message": str(error),
                "traceback": traceback.format_exc(),
            },
        )
        return 1
    return 0


def _work(folder: Path, rank: int, settings: dict[str, Any]) -> None:
    joins_later = rank >= settings["started"]
    job = unpack(Path(settings["parcel"]) if joins_later else folder / PARCEL)
    device = torch.device(settings["devices"][rank])
    if device.type == "cuda":
        torch.cuda.set_device(device)
    team = Team(
        (settings["host"], settings["port"]),
        rank,
        settings["devices"],
        patience=settings["patience"],
        min_ranks=settings["min_ranks"],
        started=settings["started"],
    )
    is_last = not joins_later and team.count("loaded") == settings["started"]
    if is_last and settings["parcel"] != str(folder / PARCEL):
        # Mapped by every rank, so its room is free when they end, however the parent ends.
        (folder / PARCEL).unlink()
    value = job["function"](team, *job["args"], **job["kwargs"])
    members = team.members
    team.finish()
    part = folder / f"rank-{rank}.part"
    torch.save({"value": value, "members": list(members)}, part)
    part.replace(folder / f"rank-{rank}.result")
    team.close()  # after the result: the parent kills who is silent


def _write(path: Path, value: dict[str, Any]) -> None:
    part = path.with_suffix(".part")
    part.write_text(json.dumps(value), "utf-8")
    part.replace(path)


def _die_with(parent: int) -> None:
    """Let the system kill this process when its parent ends."""
    if parent and sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent and os.name == "posix" and os.getppid() != parent:
        sys.exit("the process that started this rank is gone")  # before the line above


if __name__ == "__main__":
    status = main(Path(sys.argv[1]), int(sys.argv[2]))
    # As multiprocessing ends its processes: a group that was given up would wait in its destructor.
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
