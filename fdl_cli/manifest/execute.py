"""Start of a task: change the folder and the environment, and replace this process.

On the path of `fdl <task>`. Where the run is recorded, the process is a child that `supervise` made;
with `FDL_NO_RECORD=1` it is `fdl` itself, and no Python is left.
"""

import os
import signal
from collections.abc import Mapping
from typing import NoReturn

from fdl_cli.manifest.model import Invocation
from fdl_cli.manifest.resolve import calls_so_far


def task_environment(invocation: Invocation, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the task."""
    changed = dict(environ)
    for change in invocation.changes:
        if change.value is None:
            changed.pop(change.name, None)
        else:
            changed[change.name] = change.value
    # `fdl` in the task counts on with it, so that a task which calls itself comes to an end.
    calls = calls_so_far(environ, changed.get("FDL_ROOT", ""))
    changed["FDL_CALLS"] = " > ".join((*calls, " ".join(invocation.task)))
    return changed


def become(invocation: Invocation, environ: Mapping[str, str]) -> NoReturn:
    """Replace this process by the task.

    Raises:
        OSError: the folder or the program does not exist or may not be used.
    """
    os.chdir(invocation.folder)
    restore_signals()
    program, *arguments = map(_bytes_of, invocation.argv)
    changed = task_environment(invocation, environ)
    variables = {_bytes_of(name): _bytes_of(value) for name, value in changed.items()}
    os.execvpe(program, (program, *arguments), variables)


def _bytes_of(text: str) -> bytes:
    """Return a text as the system takes it.

    What came from the system has its bytes again. A manifest is UTF-8 whatever the locale is, and the
    locale `C` may have no byte for a letter of it.
    """
    try:
        return os.fsencode(text)
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogateescape")


def restore_signals() -> None:
    """Restore the signals that Python changed: a task must die of a closed pipe as other programs do."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
