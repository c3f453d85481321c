"""Records of runs: the task, its manifest and commit, and the uncommitted changes.

On the path of `fdl <task>`. A record is one line of JSON in the user's state folder, written before
the task starts; a second line tells how it ended. `FDL_NO_RECORD=1` turns both off.
"""

import itertools
import json
import os
import time
import zlib
from collections.abc import Mapping

from fdl_cli.folders import user_folder
from fdl_cli.manifest.discover import read_layer
from fdl_cli.manifest.model import Flags, Invocation

# A process that runs the tasks that a task needs records several runs.
_numbers = itertools.count(1)


def records_path(root: str, environ: Mapping[str, str]) -> str:
    """Return the file with the runs of one project."""
    key = zlib.crc32(root.encode(errors="surrogateescape"))
    return f"{user_folder('state', environ)}/runs/{key:08x}.jsonl"


def record_start(
    invocation: Invocation,
    root: str,
    environment: str | None,
    words: tuple[str, ...],
    flags: Flags,
    environ: Mapping[str, str],
) -> str | None:
    """Write the record of a run that is about to begin; return its id, or None if it is off."""
    if environ.get("FDL_NO_RECORD", "0") not in ("", "0"):
        return None
    now = time.time()
    number = next(_numbers)
    run_id = f"{time.strftime('%Y%m%d-%H%M%S', time.localtime(now))}-{os.getpid()}"
    if number > 1:
        run_id += f"-{number}"
    line = {
        "id": run_id,
        "root": root,
        "task": list(invocation.task),
        "words": list(words),
        "environment": environment,
        "place": flags.place,
        "append": flags.append,
        "argv": list(invocation.argv),
        "folder": invocation.folder,
        "service": invocation.service,
        "env": {change.name: change.value for change in invocation.changes},
        "digest": invocation.digest,
        "git": git_commit(root),
        "started_s": round(now, 3),
    }
    return run_id if _append(records_path(root, environ), line) else None


def record_end(
    run_id: str, root: str, code: int, seconds: float, environ: Mapping[str, str]
) -> None:
    """Add the exit code of a run that this process saw the end of."""
    line = {"id": run_id, "exit_code": code, "seconds": round(seconds, 3)}
    _append(records_path(root, environ), line)


def git_commit(folder: str) -> str | None:
    """Return the commit of the work tree, read from its files; None where there is none."""
    while not os.path.exists(f"{folder}/.git"):
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent
    try:
        return _head(f"{folder}/.git")
    except OSError:
        return None


def _head(git: str) -> str | None:
    if os.path.isfile(git):
        # A work tree or submodule: the file names the real folder.
        git = _read(git).removeprefix("gitdir: ")
    head = _read(f"{git}/HEAD")
    if not head.startswith("ref: "):
        return head or None
    name = head.removeprefix("ref: ")
    shared = _read(f"{git}/commondir")
    folder = f"{git}/{shared}" if shared else git
    for place in (git, folder):
        commit = _read(f"{place}/{name}")
        if commit:
            return commit
    for line in _read(f"{folder}/packed-refs").splitlines():
        if line.endswith(f" {name}"):
            return line.split(" ")[0]
    return None


def _read(path: str) -> str:
    text = read_layer(path).text
    return "" if text is None else text.decode(errors="replace").strip()


def _append(path: str, line: Mapping[str, object]) -> bool:
    data = (json.dumps(line) + "\n").encode()
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            # One write of one line: runs that start together do not mix.
            os.write(descriptor, data)
        finally:
            os.close(descriptor)
    except OSError:
        # A read-only home must not stop a task; `fdl runs` will not list the run.
        return False
    return True
