"""The short way of `fdl <task>`: from words to the task without importing anything large.

Every unusual case (flags, overlays as words, Docker, questions, anything wrong) returns, and the
long way in `fdl_cli.commands` answers it; both use the same resolution.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import NoReturn

from fdl_cli.manifest.entry_arguments import known_arguments
from fdl_cli.manifest.execute import become, task_environment
from fdl_cli.manifest.model import Flags, Invocation, Trouble, overlay_name
from fdl_cli.manifest.records import record_end, record_start
from fdl_cli.manifest.resolve import (
    Found,
    find_task,
    read_task_words,
    require_forwardable,
    required,
    resolve,
    surprise,
)
from fdl_cli.manifest.store import project_here
from fdl_cli.manifest.supervise import end_as, run_child


def start_task(words: tuple[str, ...], environ: Mapping[str, str]) -> None:
    """Run the task and end as it does, or return where the long way is needed."""
    stored = project_here(environ)
    if stored is None:
        return
    found = find_task(stored.tree, stored.root, words)
    if found is None or _needs(found) or os.path.exists(f"{stored.root}/{overlay_name(words[0])}"):
        return
    try:
        flags, given = read_task_words(found)
        if flags != Flags():
            return
        require_forwardable(found, given)
        arguments = given.all
        if found.entry is not None:
            checked = known_arguments(stored, found, given, environ)
            if checked is None:
                return
            arguments = checked
        invocation = resolve(stored, found, flags, arguments, environ, os.path.exists)
    except Trouble:
        return
    if invocation.service or invocation.confirm or not _is_startable(invocation, environ):
        return
    packages = required(stored, found)
    if packages and not _has(packages, invocation, environ):
        return
    note = surprise(invocation, environ)
    if note is not None:
        os.write(2, f"{note}\n".encode(errors="replace"))
    run_id = record_start(invocation, stored.root, stored.environment, words, flags, environ)
    with suppress(OSError):  # the long way names the reason here too
        _run(invocation, run_id, stored.root, environ)


def _run(
    invocation: Invocation, run_id: str | None, root: str, environ: Mapping[str, str]
) -> NoReturn:
    if run_id is None:
        become(invocation, environ)
    ended = run_child(invocation, environ)
    record_end(run_id, root, ended.code, ended.seconds, environ)
    end_as(ended)


def _is_startable(invocation: Invocation, environ: Mapping[str, str]) -> bool:
    """Return True if the program and the folder are there; the long way names what is missing."""
    program = invocation.argv[0]
    if not os.path.isdir(invocation.folder):
        return False
    if "/" in program:
        return os.access(os.path.join(invocation.folder, program), os.X_OK)
    places = os.get_exec_path(task_environment(invocation, environ))
    return any(os.access(f"{place}/{program}", os.X_OK) for place in places)


def _needs(found: Found) -> bool:
    """Return True if other tasks must run first."""
    return any("needs" in task for task in (*found.parents, found.task))


def _has(packages: tuple[str, ...], invocation: Invocation, environ: Mapping[str, str]) -> bool:
    from fdl_cli.manifest.readiness import find_python, surely_has

    return surely_has(find_python(invocation, environ), packages)
