"""The environment of a run: versions, hardware, command line, and the code in git."""

from __future__ import annotations

import functools
import os
import platform
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch

from flodl.runs.repository import CodeState, code_state

if TYPE_CHECKING:
    from collections.abc import Mapping

_PACKAGES: Final = ("flodl", "torch", "numpy")
# A change of these may change the numbers of a run that continues.
_MATTERS: Final = ("python", "packages", "platform", "gpus")


def environment() -> dict[str, Any]:
    """Describe this process as plain values.

    Example:
        >>> from flodl.runs.environment import environment
        >>> "torch" in environment()["packages"]
        True
    """
    code = _code()
    return {
        "created": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "command": list(sys.argv),
        "process": os.getpid(),
        "host": platform.node(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "packages": {name: version for name in _PACKAGES if (version := _version(name))},
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpus": [torch.cuda.get_device_name(each) for each in range(torch.cuda.device_count())],
        "git": None if code is None else asdict(code),
    }


def find_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the changes since a run began that may change its numbers, one line each."""
    found = [
        f"{name}: was {before[name]}, is {now[name]}"
        for name in _MATTERS
        if name in before and before[name] != now[name]
    ]
    old, new = before.get("git"), now.get("git")
    if old and new:
        if old["commit"] != new["commit"]:
            found.append(f"code: was commit {old['commit'][:10]}, is {new['commit'][:10]}")
        elif old["digest"] != new["digest"]:
            found.append(f"code: the uncommitted changes on {new['commit'][:10]} are other ones")
    return tuple(found)


def _version(name: str) -> str:
    if name == "torch":
        return str(torch.__version__)
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


@functools.cache
def _code() -> CodeState | None:
    """Describe the code once: imported code does not change when files do."""
    return code_state(_folder_of_program())


def _folder_of_program() -> Path:
    main = sys.modules.get("__main__")
    path = main.__dict__.get("__file__") if main else None
    return Path(path).resolve().parent if path else Path.cwd()
