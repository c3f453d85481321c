"""Tasks as children: pass signals on, learn how the task ended, then end the same way.

Example: `kill PID` of `fdl train` reaches the training, which saves and exits with 3. This process
returns `Ended(code=3, ...)`, its caller records it, and the shell sees 3 as well. A task that dies of a
signal ends this process by the same signal (`end_as`), as if the task had replaced it.

The terminal sends Ctrl-C to the task as well as to this process, so that signal is not passed on; one
that a process sent to this one is. Only Linux tells the two apart; elsewhere a terminal as standard
input decides.
"""

import errno
import os
import signal
import sys
import time
from collections.abc import Mapping
from typing import Final, NamedTuple, NoReturn, final

from fdl_cli.manifest.execute import become
from fdl_cli.manifest.model import Invocation

FORWARDED: Final = frozenset(
    (
        signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT,
        signal.SIGQUIT, signal.SIGCONT,
    )
)  # fmt: skip
FROM_TERMINAL: Final = frozenset((signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGCONT))
NOT_STARTED: Final = 127
_PR_SET_PDEATHSIG: Final = 1  # of <linux/prctl.h>


@final
class Ended(NamedTuple):
    """The end of a child: the code a shell would see, how long it ran, and the signal it died of."""

    code: int
    seconds: float
    signal: int | None = None


def run_child(invocation: Invocation, environ: Mapping[str, str]) -> Ended:
    """Run the task to its end.

    Raises:
        OSError: the folder or the program does not exist or may not be used.
    """
    started = time.monotonic()
    watched = FORWARDED | {signal.SIGCHLD}
    # Held back until both sides are ready: a signal in between would end this process only.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    # Where a parent of ours ignores SIGCHLD, children vanish without an exit code.
    inherited = signal.signal(signal.SIGCHLD, _note_nothing)
    reading, writing = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGCHLD, inherited)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        _become_or_tell(invocation, environ, parent, writing)
    os.close(writing)
    try:
        with open(reading, "rb") as told:
            problem = told.read()  # ends when the task has taken the place of the child
        status = _wait_for(child, watched)
    finally:
        signal.signal(signal.SIGCHLD, inherited)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    if problem:
        raise OSError(int(problem), os.strerror(int(problem)))
    code = os.waitstatus_to_exitcode(status)
    seconds = time.monotonic() - started
    return Ended(code, seconds) if code >= 0 else Ended(128 - code, seconds, -code)


def end_as(ended: Ended) -> NoReturn:
    """End this process as the task ended.

    A shell leaves its script after Ctrl-C only if the program that it waited for died of the signal.
    """
    if ended.signal is not None:
        import resource

        # The task has left its core already.
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        if ended.signal != signal.SIGKILL:
            signal.signal(ended.signal, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {ended.signal})
        os.kill(os.getpid(), ended.signal)
    # The first process of a container cannot kill itself.
    os._exit(ended.code)


def _wait_for(child: int, watched: frozenset[signal.Signals]) -> int:
    """Return the status of a child that has ended; meanwhile pass signals on."""
    while True:
        number, is_theirs = _next_signal(watched)
        if number == signal.SIGCHLD:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended == child:
                return status
        elif not is_theirs:
            os.kill(child, number)


def _next_signal(watched: frozenset[signal.Signals]) -> tuple[int, bool]:
    """Return the next signal, and whether the child got it too."""
    if sys.platform == "linux":
        got = signal.sigwaitinfo(watched)
        # Above 0 it is the kernel's own: a terminal signals its whole group.
        return got.si_signo, got.si_code > 0
    else:
        number = signal.sigwait(watched)
        return number, number in FROM_TERMINAL and os.isatty(0)


def _note_nothing(*_: object) -> None: ...


def _become_or_tell(
    invocation: Invocation, environ: Mapping[str, str], parent: int, writing: int
) -> NoReturn:
    """Become the task, or write the number of the error into the pipe, which closes with success."""
    try:
        if sys.platform == "linux":
            _die_with(parent)
        become(invocation, environ)
    except OSError as problem:
        os.write(writing, str(problem.errno).encode())
    except ValueError:  # a zero byte in a word
        os.write(writing, str(errno.EINVAL).encode())
    finally:
        os._exit(NOT_STARTED)


def _die_with(parent: int) -> None:
    """Let the kernel end the task if this process is killed: `kill -9` must not leave a training."""
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(NOT_STARTED)
