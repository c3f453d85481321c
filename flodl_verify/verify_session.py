"""The server of proofs: one process that has imported torch, and forks what a proof needs.

Example: `fdl port` sends one end of a connection to the server. The server forks a judge, which reads the
task from it and forks a worker for the original and one for the port. The judge sends both the same
requests, compares their answers, and reports each result as soon as it knows it. Torch is imported once.

    fdl -- server -- judge -- worker of the original
                           -- worker of the port

The judge never imports user code, and the workers cannot reach `fdl`: all they have is a pipe to the
judge. Each worker writes to one new folder, from which nothing imports.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import hashlib
import importlib
import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import final

import torch

from flodl_verify.compare.remote import SideGoneError
from flodl_verify.compare.rounds import examine
from flodl_verify.compare.step_speed import measure_steps
from flodl_verify.compare.whole_run import run_whole
from flodl_verify.protocol import OPTIMIZING, ClassEvidence, Request, request_of
from flodl_verify.sandbox.containment import contained, limit_memory
from flodl_verify.sandbox.isolated_import import Label
from flodl_verify.sandbox.own_modules import hide
from flodl_verify.sandbox.write_barrier import forbid_writes
from flodl_verify.sides.wire import (
    ClosedError,
    Fields,
    MalformedMessageError,
    Pipe,
    Store,
    Stored,
)
from flodl_verify.sides.worker import Worker

# A worker that does not notice the end of its time gets so much more.
GRACE_S = 5.0
_SET_PARENT_DEATH_SIGNAL, _SET_DUMPABLE, _SET_CHILD_SUBREAPER = 1, 4, 36
# Settings of this process; a program that looks at them would know that it is being proved.
_OWN_VARIABLES = (
    "MKL_NUM_THREADS", "OMP_NUM_THREADS", "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED",
)  # fmt: skip


def serve(control: int, root: Path) -> None:
    """Fork a judge for every connection that is sent, until the other side ends."""
    torch.set_num_threads(1)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    sys.dont_write_bytecode = True
    # All objects here stay: the processes share them as long as no search for garbage touches them.
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=control) as connection:
        while True:
            word, descriptors, _, _ = socket.recv_fds(connection, 1, 1)
            if not word:
                shutil.rmtree(root, ignore_errors=True)  # the tool may have been killed
                return
            (descriptor,) = descriptors
            if word == OPTIMIZING:
                _import_dynamo()
            if os.fork() == 0:
                connection.close()
                _end_after(partial(judge, descriptor, root))
            os.close(descriptor)


def _import_dynamo() -> None:
    """Import what the first optimizer of a process imports: once here, and not in every worker."""
    if "torch._dynamo" in sys.modules:
        return
    with contextlib.suppress(Exception):  # a worker that needs it reports the error
        importlib.import_module("torch._dynamo")
    gc.collect()
    gc.freeze()


def judge(descriptor: int, root: Path) -> None:
    """Do the task that comes over a connection, and answer it."""
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _prepare(dumpable=False)
    _adopt_orphans()
    signal.signal(signal.SIGTERM, _close)  # the tool gives up: end what the workers started, too
    pipe = Pipe(descriptor)
    pipe.send({"event": "started", "pid": os.getpid()})
    request = request_of(pipe.receive())
    ported = request.ported.read_bytes()
    found = hashlib.sha256(ported).hexdigest()
    if request.ported_sha256 and found != request.ported_sha256:
        pipe.send({"event": "changed"})
        return
    # Read before any user code runs, which may write to files.
    texts: dict[Label, bytes] = {"original": request.original.read_bytes()}
    if request.task == "check":
        texts["port"] = ported
    elif request.task == "curve":
        texts["original"] = ported
    folder = Path(tempfile.mkdtemp(dir=root))
    crew = Crew(request, texts, folder, descriptor)
    reporter = Reporter(pipe)
    try:
        channels = {label: crew.start(label) for label in texts}
        pipe.send({"event": "started", "pid": os.getpid(), "workers": crew.pids})
        if request.task == "check":
            recording = None if request.recording is None else request.recording.read_bytes()
            examine(request, reporter, channels["original"], channels["port"], recording)
        elif request.task == "fast":
            measure_steps(request, channels["original"], pipe)
        else:
            run_whole(request, channels["original"], pipe)
        pipe.send({"event": "done", "ported_sha256": found})
    except SideGoneError as problem:
        pipe.send({
            "event": "gone", "side": problem.label, "name": reporter.running,
            "trouble": problem.trouble, "end": problem.end,
        })  # fmt: skip
    finally:
        crew.end()
        shutil.rmtree(folder, ignore_errors=True)


@final
class Reporter:
    """Sends results to the tool."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self.running = ""

    def start(self, name: str, side: str) -> None:
        """Note which class and side is about to run user code."""
        self.running = name
        self._pipe.send({"event": "running", "name": name, "side": side})

    def add(self, result: ClassEvidence) -> None:
        """Report one class, in place of an earlier report."""
        self._pipe.send({"event": "class", "result": asdict(result)})

    def need(self, seconds: float) -> None:
        """Report the seconds that the whole task would have needed, where they were not enough."""
        self._pipe.send({"event": "need", "seconds": float(seconds)})

    def fail(self, error: str, *, source_runs: bool) -> None:
        """Report what keeps the comparison from starting, or what stopped the import of the original."""
        self._pipe.send({"event": "error", "error": error, "source_runs": source_runs})


@final
class Crew:
    """The workers of one judge."""

    def __init__(
        self, request: Request, texts: Mapping[Label, bytes], folder: Path, descriptor: int
    ) -> None:
        self._request = request
        self._texts = texts
        self._folder = folder
        # Descriptors that a worker must not have: the way to the tool, and those of other workers.
        self._private = [descriptor]
        self.pids: list[int] = []

    def start(self, label: Label) -> ProcessChannel:
        """Fork the worker of a side, before the judge has seen anything of the other one."""
        ours, theirs = socket.socketpair()
        inbox, outbox = Store.make(), Store.make()
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        pid = os.fork()
        if pid == 0:
            ours.close()
            for descriptor in self._private:
                os.close(descriptor)
            pipe, text = Pipe(theirs.detach()), self._texts[label]
            request = self._request.in_folder(folder)
            _end_after(partial(work, request, label, text, pipe, inbox, outbox))
        theirs.close()
        channel = ProcessChannel(label, pid, ours.detach(), inbox, outbox)
        self._private += [channel.descriptor, inbox.descriptor, outbox.descriptor]
        self.pids.append(pid)
        return channel

    def end(self) -> None:
        """End the workers, and all that they started."""
        for pid in self.pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
        _end_children()


@final
class ProcessChannel:
    """The judge's end of the connection to a worker."""

    def __init__(
        self, label: Label, pid: int, descriptor: int, inbox: Store, outbox: Store
    ) -> None:
        self._label: Label = label
        self._pid = pid
        self.descriptor = descriptor
        self._pipe = Pipe(descriptor)
        self._inbox = inbox
        self._outbox = outbox

    def ask(self, question: Fields, data: bytes | memoryview | None) -> tuple[Fields, Stored]:
        """Return the answer to a question, and the data that came with it.

        Raises:
            SideGoneError: the worker ended, did not answer in time, or answered something else.
        """
        self._inbox.clear()
        if data is not None:
            self._inbox.add(data)
        # User code that writes to the pipe does not know what this question is called.
        ticket = secrets.token_hex(16)
        try:
            self._pipe.send({**question, "ticket": ticket})
            deadline = time.monotonic() + question["limit_s"] + GRACE_S
            answer = self._pipe.receive(deadline)
            _require_ticket(answer, ticket)
            return answer, self._outbox.read()
        except ClosedError as problem:
            raise SideGoneError(self._label, self._how_it_ended(), "died") from problem
        except TimeoutError as problem:
            trouble = f"stopped after {question['limit_s']:.0f} s"
            raise SideGoneError(self._label, trouble, "timed-out") from problem
        except MalformedMessageError as problem:
            trouble = f"its answer was no answer: {problem}"
            raise SideGoneError(self._label, trouble, "malformed") from problem

    def _how_it_ended(self) -> str:
        deadline = time.monotonic() + GRACE_S
        while time.monotonic() < deadline:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                code = os.waitstatus_to_exitcode(status)
                return f"ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
            time.sleep(0.01)
        return "it closed its connection"


def _require_ticket(answer: Fields, ticket: str) -> None:
    if answer.pop("ticket", None) != ticket:
        raise MalformedMessageError("it answers no question")


def work(
    request: Request, label: Label, text: bytes, pipe: Pipe, inbox: Store, outbox: Store
) -> None:
    """Answer the questions of the judge; user code runs in this process only."""
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _prepare(dumpable=True)
    _look_usual(request)
    limit_memory(request.memory_mb)
    forbid_writes([request.workdir])
    worker = Worker(request, label, text, inbox, outbox)
    folders = (request.original.parent, request.ported.parent)
    # TorchScript would compile a function again at its third call or so, with other last bits in its
    # gradients, and the original is called more often than the port.
    unchanging = torch.jit.optimized_execution(False)  # type: ignore[attr-defined]  # public, undeclared
    own = os.getpid()
    with contained(request.workdir, folders), unchanging:
        hide()
        while True:
            question = pipe.receive()
            answer = worker.answer(question)
            if os.getpid() != own:
                return  # a copy that user code made
            pipe.send({**answer, "ticket": question["ticket"]})


def _look_usual(request: Request) -> None:
    """Take away what only a proof has, and keep output of user code from going anywhere."""
    for name in _OWN_VARIABLES:
        os.environ.pop(name, None)
    temporary = request.workdir / "tmp"
    temporary.mkdir()
    os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)
    # numba keeps compiled functions beside their source, where nothing can be written.
    os.environ["NUMBA_CACHE_DIR"] = str(temporary)
    sink = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(sink, descriptor)
    os.close(sink)
    sys.argv = [str(request.original)]
    sys.orig_argv[:] = [sys.executable, str(request.original)]
    sys.modules["__main__"] = ModuleType("__main__")


def _prepare(*, dumpable: bool) -> None:
    """Let this process end with the one that forked it; the memory of a judge is its own."""
    if sys.platform == "linux":
        library = ctypes.CDLL(None, use_errno=True)
        library.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        library.prctl(_SET_DUMPABLE, int(dumpable), 0, 0, 0)


def _close(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once: cleaning up is not interrupted
    raise ClosedError


def _adopt_orphans() -> None:
    """Become the parent of what user code started in other sessions, once its parent has ended."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _end_children() -> None:
    """End all children; each that ends may leave us others."""
    place = Path(f"/proc/self/task/{os.getpid()}/children")
    deadline = time.monotonic() + GRACE_S
    while place.is_file() and time.monotonic() < deadline:
        children = [int(word) for word in place.read_text(encoding="ascii").split()]
        if not children:
            return
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _end_after(run: Callable[[], None]) -> None:
    """Run something in a process that was forked for it, and end that process."""
    code = 1
    try:
        run()
        code = 0
    except ClosedError:
        code = 0  # the other side ended first
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            sys.stderr.flush()
        os._exit(code)
