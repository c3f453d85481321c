"""Tasks as children, for `--wait`: forward signals, learn the exit code, then end the same way.

Without it a task replaces this process, and its exit code stays unknown here.
"""

import os
import signal
import time
from collections.abc import Mapping
from types import FrameType
from typing import Final, NamedTuple, final

from fdl_cli.manifest.execute import become
from fdl_cli.manifest.model import Invocation

FORWARDED: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT)
NOT_STARTED: Final = 127


@final
class Ended(NamedTuple):
    """The end of a child: the code a shell would see, and how long it ran."""

    code: int
    seconds: float


def run_child(invocation: Invocation, environ: Mapping[str, str]) -> Ended:
    """Run the task to its end.

    A terminal sends Ctrl-C to the child too; a signal sent to this process alone is forwarded.
    """
    started = time.monotonic()
    # Held back until both sides are ready: a signal in between would end this process only.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        _become_or_die(invocation, environ)
    interactive = os.isatty(0)

    def forward(number: int, _: FrameType | None) -> None:
        if number != signal.SIGINT or not interactive:
            os.kill(child, number)

    for number in FORWARDED:
        signal.signal(number, forward)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    for number in FORWARDED:
        signal.signal(number, signal.SIG_DFL)
    return Ended(code if code >= 0 else 128 - code, time.monotonic() - started)


def _become_or_die(invocation: Invocation, environ: Mapping[str, str]) -> None:
    try:
        become(invocation, environ)
    except OSError as problem:
        os.write(2, f"fdl: cannot run `{invocation.argv[0]}`: {problem.strerror}\n".encode())
    os._exit(NOT_STARTED)
