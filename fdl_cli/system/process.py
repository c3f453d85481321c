"""Child processes: the only user of `subprocess` in `fdl`."""

import os
import re
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, final

from fdl_cli.errors import EnvironmentLackingError, FdlError, OperationFailedError

Echo = Callable[[str], None]

# A failed command is quoted in the message; its last lines hold the reason.
QUOTED_LINES = 12

# Separate sessions do not see Ctrl-C: `end_all` ends those that threads wait for.
_captured: set[subprocess.Popen[Any]] = set()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """A process that ended; `returncode` is negative when a signal ended it.

    `stdout` and `stderr` are empty when the output was not captured.
    """

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str
    seconds: float


def run(
    argv: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
    capture: bool = True,
    check: bool = True,
    echo: Echo | None = None,
) -> Completed:
    """Run a program to its end, without a shell.

    The program gets its own session, so that a timeout ends its children too. `env` replaces
    the environment. `echo` is called with the quoted command line before it runs.

    Raises:
        EnvironmentLackingError: the program or the folder does not exist, or may not be run.
        OperationFailedError: it ran out of time, or `check` is on and it failed.
    """
    words = tuple(str(word) for word in argv)
    if echo is not None:
        echo(shlex.join(words))
    started = time.monotonic()
    pipe = subprocess.PIPE if capture else None
    try:
        child = subprocess.Popen(
            words,
            cwd=cwd,
            env=None if env is None else dict(env),
            stdin=subprocess.DEVNULL if capture else None,
            stdout=pipe,
            stderr=pipe,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=capture,
        )
    except OSError as problem:
        raise _cannot_start(words, cwd, problem) from problem
    with _noted(child, capture):
        stdout, stderr = _wait(child, words, timeout, group=capture)
    completed = Completed(
        argv=words,
        returncode=child.returncode,
        stdout=stdout,
        stderr=stderr,
        seconds=time.monotonic() - started,
    )
    if check and completed.returncode != 0:
        raise command_failed(completed)
    return completed


def end_all() -> None:
    """End every program that other threads wait for in `run` and whose output they capture."""
    for child in tuple(_captured):
        _kill(child, group=True)


@contextmanager
def _noted(child: subprocess.Popen[str], captured: bool) -> Iterator[None]:
    if captured:
        _captured.add(child)
    try:
        yield
    finally:
        _captured.discard(child)


def run_quietly(
    argv: Sequence[str], *, env: Mapping[str, str], news: re.Pattern[str], say: Echo
) -> Completed:
    """Run a program, and show its output from the first line on that says something new.

    Both streams are one. Output before that line is shown with it; without such a line, nothing is.

    Raises:
        EnvironmentLackingError: the program does not exist, or may not be run.
    """
    started = time.monotonic()
    lines: list[str] = []
    shown = False
    with child_of(argv, env, own_session=True, capture=True) as child:
        assert child.stdout is not None
        try:
            for raw in child.stdout:
                line = raw.decode(errors="replace").rstrip()
                lines.append(line)
                if shown:
                    say(line)
                elif news.search(line):
                    shown = True
                    for each in lines:
                        say(each)
        except BaseException:
            _kill(child, group=True)
            raise
    seconds = time.monotonic() - started
    return Completed(
        argv=tuple(argv),
        returncode=child.returncode,
        stdout="\n".join(lines),
        stderr="",
        seconds=seconds,
    )


def child_of(
    argv: Sequence[str], env: Mapping[str, str], *, own_session: bool, capture: bool = False
) -> subprocess.Popen[bytes]:
    """Start a program and return it.

    Raises:
        EnvironmentLackingError: the program does not exist, or may not be run.
    """
    try:
        return subprocess.Popen(
            list(argv),
            env=dict(env),
            stdin=subprocess.DEVNULL if capture else None,
            stdout=subprocess.PIPE if capture else None,
            stderr=subprocess.STDOUT if capture else None,
            start_new_session=own_session,
        )
    except OSError as problem:
        raise _cannot_start(tuple(argv), None, problem) from problem


def start_server(
    argv: Sequence[str | Path], *, cwd: Path, env: Mapping[str, str], descriptor: int, errors: int
) -> subprocess.Popen[Any]:
    """Start a program that is spoken to through one descriptor, and ends when that is closed.

    It gets its own session, and `end_all` ends it.

    Raises:
        EnvironmentLackingError: the program does not exist, or may not be run.
    """
    words = tuple(str(word) for word in argv)
    try:
        child = subprocess.Popen(
            words,
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            pass_fds=(descriptor,),
            start_new_session=True,
        )
    except OSError as problem:
        raise _cannot_start(words, cwd, problem) from problem
    _captured.add(child)
    return child


def end_server(child: subprocess.Popen[Any]) -> None:
    """End a server on the spot."""
    _captured.discard(child)
    _kill(child, group=True)
    child.wait()


def command_failed(completed: Completed) -> OperationFailedError:
    """Return the error that describes a process which ended badly."""
    code = completed.returncode
    how = f"ended by {_signal_name(-code)}" if code < 0 else f"exit code {code}"
    lines = (completed.stderr.strip() or completed.stdout.strip()).splitlines()
    return OperationFailedError(
        error_id="command-failed",
        message=f"`{shlex.join(completed.argv)}` failed: {how}",
        hint="run the command by itself to see all of its output",
        causes=tuple(lines[-QUOTED_LINES:]),
    )


def _wait(
    child: subprocess.Popen[str], words: tuple[str, ...], timeout: float | None, *, group: bool
) -> tuple[str, str]:
    try:
        with _sigterm_raises():
            stdout, stderr = child.communicate(timeout=timeout)
    except subprocess.TimeoutExpired as problem:
        _kill(child, group=group)
        child.communicate()
        raise OperationFailedError(
            error_id="command-timeout",
            message=f"`{shlex.join(words)}` did not end within {timeout:g} s and was stopped",
            hint="give it more time, or run it by itself to see where it hangs",
        ) from problem
    except BaseException:
        # Ctrl-C and SIGTERM must not leave the child behind: in its own session it sees neither.
        _kill(child, group=group)
        child.wait()
        raise
    return stdout or "", stderr or ""


@contextmanager
def _sigterm_raises() -> Iterator[None]:
    """Let SIGTERM unwind this process, as Ctrl-C does, instead of ending it on the spot."""
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def unwind(number: int, _: FrameType | None) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, unwind)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _kill(child: subprocess.Popen[Any], *, group: bool) -> None:
    try:
        if group and os.name == "posix":
            os.killpg(child.pid, signal.SIGKILL)
        else:
            child.kill()
    except ProcessLookupError:
        return


def _cannot_start(words: tuple[str, ...], cwd: Path | None, problem: OSError) -> FdlError:
    if cwd is not None and not cwd.is_dir():
        return EnvironmentLackingError(
            error_id="folder-missing",
            message=f"cannot run `{words[0]}` in `{cwd}`: there is no such folder",
            hint=f"create it with `mkdir -p {shlex.quote(str(cwd))}`",
        )
    return EnvironmentLackingError(
        error_id="program-missing",
        message=f"cannot run `{words[0]}`: {problem.strerror or problem}",
        hint=f"install `{Path(words[0]).name}` or put it on PATH",
    )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
