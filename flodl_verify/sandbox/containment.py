"""Containment of user code: no harm while it runs to be compared, and a stop in time.

This is a guard against accidents (downloads, checkpoints written over real ones), not a sandbox
against malice.
"""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, final

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from flodl_verify.sandbox.scratch import Scratch

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_DOWNLOADERS = frozenset({"curl", "wget", "aria2c", "gdown", "pip", "pip3", "git", "scp", "rsync"})
_REMOVALS = frozenset({"os.remove", "os.rmdir", "os.mkdir", "shutil.rmtree"})
_ADDRESSED = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})
_ON_FILES = frozenset({
    "os.chmod", "os.chown", "os.truncate", "os.utime", "os.setxattr", "os.removexattr",
})  # fmt: skip
_LINKS = frozenset({"os.link", "os.symlink"})
_SIGNALS = frozenset({"os.kill", "os.killpg"})
_STARTS = frozenset({"subprocess.Popen", "os.exec", "os.posix_spawn"})


@final
class StopRunError(BaseException):
    """Enough of the script was run; not an Exception, so that user code lets it pass."""


@final
class Containment:
    """An audit hook that refuses network, downloads, and writing outside the working folder."""

    def __init__(self) -> None:
        self._workdir = ""
        self._scratch: Scratch | None = None
        self._temporary = ""
        self._protected: tuple[str, ...] = ()
        self._installed = False
        self.on = False
        self._checks: dict[str, Callable[[tuple[Any, ...]], None]] = {
            **dict.fromkeys(_ON_FILES, lambda each: self._before_change(each[0])),
            **dict.fromkeys(_LINKS, lambda each: self._require_places(each[1:2])),
            **dict.fromkeys(_REMOVALS, lambda each: self._require_places(each[:1])),
            "os.rename": lambda each: self._require_places(each[:2]),
            **dict.fromkeys(_ADDRESSED, lambda each: self._require_near(each[1])),
            "socket.getaddrinfo": lambda each: _require_local((each[0],)),
            **dict.fromkeys(_SIGNALS, lambda each: _require_own(each[0])),
            **dict.fromkeys(_STARTS, lambda each: _require_harmless(each[0])),
            "os.system": lambda each: _require_harmless(os.fsdecode(each[0]).split(" ")[0]),
        }

    def install(self, workdir: Path, scratch: Scratch, protected: tuple[Path, ...]) -> None:
        """Set what may be written to; the hook itself is added once, since none can be removed."""
        self._workdir = os.path.realpath(workdir)
        self._temporary = os.path.realpath(tempfile.gettempdir())
        self._scratch = scratch
        self._protected = tuple(os.path.realpath(folder) for folder in protected)
        if not self._installed:
            sys.addaudithook(self)
            self._installed = True

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Refuse what must not happen; called by the interpreter for every audited event."""
        if not self.on:
            return
        if event == "open":
            path, _, flags = arguments
            if isinstance(path, str | bytes) and flags & _WRITING:
                self.before_writing(path, empty=bool(flags & os.O_TRUNC))
        elif event in self._checks:
            self._checks[event](arguments)

    def before_writing(self, path: str | bytes, *, empty: bool) -> None:
        """Replace a link by a copy of the file, or refuse to write."""
        if not self.on:
            return
        if self._scratch is not None:
            self.on = False
            try:
                self._scratch.make_own(path, empty=empty)
            finally:
                self.on = True
        self._require_writable(os.path.realpath(os.fsdecode(path)))

    def _before_change(self, place: object) -> None:
        """Prepare a change of a file by its name or descriptor, as `before_writing` does."""
        if isinstance(place, int):
            place = os.path.realpath(f"/proc/self/fd/{place}")
            if not os.path.lexists(place):
                return  # a pipe, or memory
        if isinstance(place, str | bytes | os.PathLike):
            self.before_writing(os.fspath(place), empty=False)

    def _require_near(self, address: object) -> None:
        """Refuse an address of another machine, and a Unix socket that is not a file of the proof."""
        if isinstance(address, str | bytes):
            name = os.fsdecode(address)
            # An abstract one begins with a zero, and is no file.
            if name.startswith("\0") or not _under(os.path.realpath(name), self._workdir):
                raise ConnectionRefusedError(f"{name!r} is not reached while a port is verified")
        elif address is not None:
            _require_local(address)

    def _require_places(self, paths: tuple[Any, ...]) -> None:
        # To remove or rename a link does nothing to the file behind it.
        for path in paths:
            if not isinstance(path, str | bytes | os.PathLike):
                continue
            if self._scratch is None or self._scratch.place_of(os.fsdecode(path)) is None:
                self._require_writable(os.path.realpath(os.fsdecode(path)))

    def _require_writable(self, real: str) -> None:
        # Not below /dev/shm: a file there would tell one program what the other one computed.
        if _under(real, self._workdir) or Path(real).parent == Path("/dev"):
            return
        if _under(real, self._temporary) and not any(_under(real, p) for p in self._protected):
            return
        raise PermissionError(f"writing `{real}` is not allowed while a port is verified")


_GUARD = Containment()


@contextlib.contextmanager
def contained(workdir: Path, protected: tuple[Path, ...]) -> Iterator[None]:
    """Run the block in a scratch folder which shows the script's own files, with the guards on.

    The scratch folder shows everything beside the original (`protected[0]`), so that data is found
    by relative paths; written files stay in the scratch folder.
    """
    scratch = Scratch(workdir, protected[0])
    _GUARD.install(workdir, scratch, protected)
    before = Path.cwd()
    os.chdir(scratch.folder)
    _GUARD.on = True
    try:
        with quiet(), _watching_torch(torch, "save"), _watching_torch(torch.jit, "save"):
            yield
    finally:
        _GUARD.on = False
        os.chdir(before)


@contextlib.contextmanager
def _watching_torch(owner: Any, name: str) -> Iterator[None]:
    """Guard a function that writes to its second argument without any event of Python's."""
    write = getattr(owner, name)

    def guarded(value: Any, f: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(f, str | os.PathLike):
            _GUARD.before_writing(os.fspath(f), empty=True)
        return write(value, f, *args, **kwargs)

    setattr(owner, name, guarded)
    try:
        yield
    finally:
        setattr(owner, name, write)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Send what the block prints nowhere: the answer of this process is a file."""
    with Path(os.devnull).open("w", encoding="utf-8") as sink, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with contextlib.redirect_stdout(sink), contextlib.redirect_stderr(sink):
            yield


@contextlib.contextmanager
def stop_at_first_backward() -> Iterator[None]:
    """Raise `StopRunError` when the block starts a backward pass: models are defined by then."""
    original = torch.autograd.backward

    def stop(*_args: object, **_kwargs: object) -> None:
        raise StopRunError

    torch.autograd.backward = stop
    try:
        yield
    finally:
        torch.autograd.backward = original


@contextlib.contextmanager
def stop_after_steps(num_steps: int) -> Iterator[None]:
    """Raise `StopRunError` before optimizer step number `num_steps` + 1."""
    taken = 0

    def count(*_: object) -> None:
        nonlocal taken
        taken += 1
        if taken > num_steps:
            raise StopRunError

    handle = register_optimizer_step_pre_hook(count)
    try:
        yield
    finally:
        handle.remove()


def limit_memory(megabytes: int) -> None:
    """Let allocations fail when this process grows by more than `megabytes` from now on."""
    status = Path("/proc/self/status")
    if not status.is_file():
        return
    text = status.read_text(encoding="ascii")
    kilobytes = next(
        int(line.split()[1]) for line in text.splitlines() if line.startswith("VmSize")
    )
    soft = (kilobytes + megabytes * 1024) * 1024
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard == resource.RLIM_INFINITY or soft < hard:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _under(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _require_local(address: object) -> None:
    host = address[0] if isinstance(address, tuple) and address else address
    if host in {None, "", "localhost", "127.0.0.1", "::1", socket.gethostname()}:
        return
    raise ConnectionRefusedError("there is no network while a port is verified")


def _require_own(process: object) -> None:
    """Refuse signals to processes that this one did not start: its children are in its session."""
    if not isinstance(process, int) or process in {0, os.getpid()}:
        return
    try:
        own = process > 0 and os.getsid(process) == os.getsid(0)
    except OSError:
        own = True  # it is gone
    if not own:
        raise PermissionError("no other process gets a signal while a port is verified")


def _require_harmless(program: object) -> None:
    name = Path(os.fsdecode(program)).name if isinstance(program, str | bytes) else ""
    if name in _DOWNLOADERS:
        raise PermissionError(f"`{name}` may not be started while a port is verified")
