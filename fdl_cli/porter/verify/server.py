"""Servers of proofs: processes of the user's Python that know torch, one for each Python and environment.

A server starts with the first proof and ends with this process, so torch is imported once for all files
of a project. It runs under the rules of the kernel from its first line on, in a folder that has nothing
but what the proofs write: the runtime, the ports and the tasks lie where no proof can write.
"""

import array
import atexit
import contextlib
import json
import os
import shutil
import signal
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

import fdl_cli
from fdl_cli.system.process import end_server, start_server
from flodl_verify.protocol import PLAIN

MAX_MESSAGE_BYTES = 64 << 20
MAX_RECORDING_BYTES = 256 << 20
_LENGTH = struct.Struct("!Q")
_LAST_LINES_BYTES = 4096
_END_S = 5.0  # a judge that does not end by then is killed
_SERVERS: dict[tuple[str, tuple[tuple[str, str], ...]], "Server"] = {}
_LOCK = threading.Lock()


@final
class NoAnswerError(Exception):
    """A task ended without its last word, or said something else than it may."""


@final
class Server:
    """One server, which forks a process for each task."""

    def __init__(self, python: str, environment: Mapping[str, str]) -> None:
        self._folder = Path(tempfile.mkdtemp()).resolve()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the server
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._control, theirs = socket.socketpair()
        packages = Path(fdl_cli.__file__).resolve().parent.parent
        variables = dict(environment)
        paths = variables.pop("PYTHONPATH", "")
        argv = (python, "-I", packages / "flodl_verify" / "launch.py", str(theirs.fileno()))
        try:
            self._child = start_server(
                (*argv, self._folder, packages, paths),
                cwd=self._folder,
                env=variables,
                descriptor=theirs.fileno(),
                errors=self._errors.fileno(),
            )
        except BaseException:
            self.clean()
            raise
        finally:
            theirs.close()

    @property
    def runs(self) -> bool:
        """Whether the server can take a task."""
        return self._owner == os.getpid() and self._child.poll() is None

    def begin(self, word: bytes = PLAIN) -> "Connection":
        """Return a connection to a new task; one of a server that has ended says nothing.

        Args:
            word: `OPTIMIZING` where workers are likely to make optimizers, else `PLAIN`.
        """
        ours, theirs = socket.socketpair()
        with theirs, self._lock, contextlib.suppress(OSError):
            packed = array.array("i", [theirs.fileno()])
            self._control.sendmsg([word], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, packed)])
        return Connection(ours)

    def trouble(self) -> str:
        """Return the last line that the server or one of its processes said about an error."""
        size = os.fstat(self._errors.fileno()).st_size
        start = max(size - _LAST_LINES_BYTES, 0)
        text = os.pread(self._errors.fileno(), _LAST_LINES_BYTES, start).decode(errors="replace")
        lines = text.strip().splitlines()
        if lines:
            return lines[-1]
        code = self._child.poll()
        return "no answer" if code is None else f"exit code {code}"

    def end(self) -> None:
        """End the server, and all processes that it forked."""
        end_server(self._child)
        self.clean()

    def clean(self) -> None:
        """Remove the files that the proofs wrote."""
        self._control.close()
        self._errors.close()
        if self._owner == os.getpid():
            shutil.rmtree(self._folder, ignore_errors=True)


@final
class Connection:
    """A connection to one task."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._pids: list[int] = []

    def send(self, fields: Mapping[str, Any]) -> None:
        """Send the task."""
        text = json.dumps(fields).encode()
        with contextlib.suppress(OSError):  # the end is seen when an answer is read
            self._socket.sendall(_LENGTH.pack(len(text)) + text)

    def receive(self, deadline: float) -> dict[str, Any]:
        """Return the next message.

        Raises:
            NoAnswerError: the task has ended, or the message is none.
            TimeoutError: there is none at a time of the monotonic clock.
        """
        (size,) = _LENGTH.unpack(self.exactly(_LENGTH.size, deadline))
        if size > MAX_MESSAGE_BYTES:
            raise NoAnswerError(f"a message of {size} bytes")
        try:
            message = json.loads(self.exactly(size, deadline))
        except (ValueError, RecursionError) as problem:
            raise NoAnswerError("a message that is no JSON") from problem
        if not isinstance(message, dict):
            raise NoAnswerError("a message that is no object")
        return message

    def exactly(self, size: int, deadline: float) -> bytes:
        """Return so many bytes.

        Raises:
            NoAnswerError: there are fewer.
            TimeoutError: there are fewer at a time of the monotonic clock.
        """
        parts = []
        while size:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self._socket.settimeout(left)
            try:
                part = self._socket.recv(min(size, 1 << 20))
            except TimeoutError:
                raise
            except OSError as problem:
                raise NoAnswerError from problem
            if not part:
                raise NoAnswerError
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def note_processes(self, pids: object) -> None:
        """Note which processes work at the task."""
        if isinstance(pids, list):
            self._pids += [pid for pid in pids if type(pid) is int and pid > 1]

    def end(self, *, ended: bool) -> None:
        """Close the connection; end the workers of a task that has not ended by itself."""
        self._socket.close()
        if ended or not self._pids:
            return
        judge, *workers = dict.fromkeys(self._pids)
        for pid in workers:
            _signal(pid, signal.SIGKILL)
        # The judge alone can find processes that the workers started in new sessions.
        deadline = time.monotonic() + _END_S
        while _signal(judge, signal.SIGTERM) and time.monotonic() < deadline:
            time.sleep(0.02)
        _signal(judge, signal.SIGKILL)


def _signal(group: int, number: signal.Signals) -> bool:
    """Send a signal to a group of processes; return True if there is one."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def server_of(python: str, environment: Mapping[str, str]) -> Server:
    """Return the server of a Python and an environment; start it if there is none."""
    key = python, tuple(sorted(environment.items()))
    with _LOCK:
        known = _SERVERS.get(key)
        if known is not None and not known.runs:
            known.clean()
            known = None
        if known is None:
            known = _SERVERS[key] = Server(python, environment)
        return known


@atexit.register
def _end_servers() -> None:
    for server in _SERVERS.values():
        if server.runs:
            server.end()
        else:
            server.clean()
