"""One rank that runs a script: its process, its environment, and its output line by line.

[1] epoch 3 done        what rank 1 prints, on the stream on which it prints it
logs/rank-1.log         the same without the prefix, if a folder is wanted
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Final, final

from flodl.distributed.team.launcher import signal_session

# Asks the system to end the process with its parent, then becomes the program: nothing of ours is in it.
_BECOME: Final = (
    "import ctypes, os, signal, sys\n"
    "ctypes.CDLL(None).prctl(1, signal.SIGKILL)\n"
    "if os.getppid() != int(sys.argv[1]): sys.exit('the process that started this rank is gone')\n"
    "os.execv(sys.argv[2], sys.argv[2:])"
)
_DRAIN: Final = 2.0  # seconds for output that a process left behind
_STDOUT: Final = 1
_STDERR: Final = 2
_printing: Final = threading.Lock()


@final
class RankProcess:
    """The process of one rank, which never outlives this one.

    Args:
        rank: number of the rank.
        command: the program and its words.
        environment: its environment.
        log: file for all that it prints.
        is_only_stderr: whether its standard output goes to standard error too.

    Attributes:
        rank: number of the rank.
        log: file for all that it prints.
        status: exit status, negative for a signal; `None` while it runs.

    Example:
        >>> import sys, time
        >>> process = RankProcess(0, [sys.executable, "-c", "raise SystemExit(3)"], {})
        >>> while process.look() is None:
        ...     time.sleep(0.01)
        >>> process.status
        3
    """

    def __init__(
        self,
        rank: int,
        command: Sequence[str],
        environment: Mapping[str, str],
        log: Path | None = None,
        *,
        is_only_stderr: bool = False,
    ) -> None:
        self.rank = rank
        self.log = log
        self.status: int | None = None
        words = list(command)
        if sys.platform == "linux":
            words = [sys.executable, "-I", "-S", "-c", _BECOME, str(os.getpid()), *words]
        self._process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(environment),
            # Ctrl-C in a terminal reaches this process alone, which passes it on.
            start_new_session=os.name == "posix",
        )
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._threads = [
            self._copy(self._process.stdout, _STDERR if is_only_stderr else _STDOUT),
            self._copy(self._process.stderr, _STDERR),
        ]

    def look(self) -> int | None:
        """Return the status if the process has ended; its children are ended then."""
        if self.status is None and self._has_ended():
            if os.name == "posix":
                signal_session(self._process.pid, signal.SIGKILL)
            self.status = self._process.wait()
            for thread in self._threads:
                thread.join(_DRAIN)
        return self.status

    def send(self, number: int) -> None:
        """Send a signal to the process, if it runs; to all that it started if it cannot be refused."""
        if self.look() is not None:
            return
        if number == signal.SIGKILL and os.name == "posix":
            signal_session(self._process.pid, signal.SIGKILL)
        else:
            self._process.send_signal(number)

    def _has_ended(self) -> bool:
        if sys.platform == "linux":
            # Not reaped yet, so that its id and that of its session still belong to it.
            flags = os.WEXITED | os.WNOWAIT | os.WNOHANG
            return os.waitid(os.P_PID, self._process.pid, flags) is not None
        else:
            return self._process.poll() is not None

    def _copy(self, source: IO[bytes], target: int) -> threading.Thread:
        def copy() -> None:
            with source, contextlib.ExitStack() as files:
                log = None if self.log is None else files.enter_context(self.log.open("ab"))
                for line in iter(source.readline, b""):
                    whole = line if line.endswith(b"\n") else line + b"\n"
                    if log is not None:
                        log.write(whole)
                        log.flush()
                    _print(target, f"[{self.rank}] ".encode() + whole)

        thread = threading.Thread(target=copy, name=f"output of rank {self.rank}", daemon=True)
        thread.start()
        return thread


def _print(target: int, line: bytes) -> None:
    left = memoryview(line)
    with _printing, contextlib.suppress(BrokenPipeError):
        # If the reader is gone, the ranks must not stop because of that.
        while left:
            left = left[os.write(target, left) :]
