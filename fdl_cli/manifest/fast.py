"""The short way of `fdl <task>`: from words to the task without importing anything large.

Every unusual case (flags, overlays as words, Docker, questions, anything wrong) returns, and the
long way in `fdl_cli.commands` answers it; both use the same resolution.
"""

import os
from collections.abc import Mapping

from fdl_cli.manifest.entry_arguments import known_arguments
from fdl_cli.manifest.execute import become
from fdl_cli.manifest.model import Flags, Invocation, Trouble, overlay_name
from fdl_cli.manifest.records import record_start
from fdl_cli.manifest.resolve import (
    Found,
    find_task,
    read_task_words,
    require_forwardable,
    required,
    resolve,
)
from fdl_cli.manifest.store import project_here


def start_task(words: tuple[str, ...], environ: Mapping[str, str]) -> None:
    """Become the task, or return where the long way is needed."""
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
    if invocation.service is not None or invocation.confirm is not None:
        return
    packages = required(stored, found)
    if packages and not _has(packages, invocation, environ):
        return
    record_start(invocation, stored.root, stored.environment, words, flags, environ)
    try:
        become(invocation, environ)
    except OSError:
        return


def _needs(found: Found) -> bool:
    """Return True if other tasks must run first."""
    return any("needs" in task for task in (*found.parents, found.task))


def _has(packages: tuple[str, ...], invocation: Invocation, environ: Mapping[str, str]) -> bool:
    from fdl_cli.manifest.readiness import find_python, surely_has

    return surely_has(find_python(invocation, environ), packages)
