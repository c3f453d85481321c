"""Training steps of a script in copies of its process: its own, with a fused optimizer, and shaken.

Example: a script trains an MLP with `AdamW`. Before its first backward pass, its process forks three times:

    own      the script goes on as it is
    fused    every optimizer switches to its fused kernel at its first step
    shaken   after every step, each weight is rounded once more: up or down by the spacing of its numbers

The process itself is the conductor: it lets one copy at a time take one step, `own` and `fused` by turns,
so that a busy machine slows both. After some steps, each copy writes its weights. The answer holds the
seconds of the steps and the places of the weights; the judge compares them. The copy `shaken` shows how far
rounding alone moves these weights, so that a fused kernel with other numbers is told from one with other
last bits.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast, final

import torch
from torch.optim import Optimizer
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils.data import DataLoader

from flodl.step.fusing import fuse
from flodl_verify.protocol import COMPARED_STEPS, MEASURED_S, Request
from flodl_verify.sandbox.attempt import Failure, OutOfTimeError, time_limit
from flodl_verify.sandbox.containment import StopRunError
from flodl_verify.sandbox.isolated_import import locate
from flodl_verify.sandbox.main_module import run_main
from flodl_verify.sides.wire import (
    ClosedError,
    Fields,
    MalformedMessageError,
    Pipe,
    Store,
    add_tensor,
)
from flodl_verify.stubs.install import STUBS
from flodl_verify.values.raw import dense_copy

Variant = Literal["own", "fused", "shaken"]
VARIANTS: Final[tuple[Variant, ...]] = ("own", "fused", "shaken")
_TIMED: Final[tuple[Variant, ...]] = ("own", "fused")
# The first steps make the states of the optimizer.
WARM_UP = 2
LEAST_STEPS = 5
MOST_STEPS = 200
# Larger weights are not compared: three copies of them would have to lie in memory.
MAX_WEIGHT_BYTES = 512 << 20
_SEED = 20
_LOADING: Final = "the worker processes of its loader"


def run_variants(request: Request, text: bytes, outbox: Store, seconds: float) -> Fields:
    """Run a script up to its first backward pass, and its next steps in copies of the process.

    Returns:
        The seconds of each measured step by variant, `steps` after which the weights were written, their
        `places`, the `kernels` of the fused optimizers, the number of `threads`, and `trouble` with the
        `line`, if it came to no step.
    """
    STUBS.install(request.original)
    place = locate(request.original)
    sys.path[:0] = [str(place.root), *(str(item) for item in request.search_path)]
    threads = request.threads or usable_threads()
    stage = _Stage(deadline=time.monotonic() + seconds, threads=threads)
    trouble, line = "", None
    try:
        with time_limit(seconds), stage.loading_here(), stage.before_backward():
            ended = run_main(request.original, place.name, request.original, text)
            stage.end_copy(ended)
            trouble, line = _words(ended)
    except StopRunError:
        pass
    except OutOfTimeError:
        trouble = "time"
    finally:
        stage.close()
    return {**stage.told(outbox), "trouble": stage.trouble or trouble, "line": line}


def _words(ended: Failure | None) -> tuple[str, int | None]:
    """Return why a script that has ended took no backward pass, and the line of its error."""
    if ended is None or ended.text in {"SystemExit", "SystemExit: 0"}:
        return "finished", None
    return ended.text, ended.line


def usable_threads() -> int:
    """Return the number of CPUs that this process may use."""
    count = os.cpu_count() or 1
    if sys.platform == "linux":
        count = len(os.sched_getaffinity(0))
    return count


@final
@dataclass(slots=True, kw_only=True)
class _Player:
    """The conductor's view of one copy of the process."""

    variant: Variant
    pid: int
    pipe: Pipe
    store: Store
    seconds: list[float] = field(default_factory=list)
    steps: int = 0
    ended: str | None = None
    kernels: list[str] = field(default_factory=list)
    weights: list[list[Any]] | None = None
    compared: int = 0

    def ask(self, word: str, deadline: float) -> bool:
        """Let the copy act; return False if it has ended. Its next step or its weights are noted."""
        if self.ended is not None and not (word == "weights" and self.ended == "finished"):
            return False
        try:
            self.pipe.send({"do": word})
            told = self.pipe.receive(deadline)
        except (ClosedError, MalformedMessageError):
            self.ended = "its process ended"
            return False
        if "ended" in told:
            self.ended = str(told["ended"])
            return False
        if word == "weights":
            self.weights, self.compared = told["weights"], self.steps
            return True
        self.steps += 1
        self.kernels = told["kernels"]
        if self.steps > WARM_UP:
            self.seconds.append(told["seconds"])
        return True


@final
class _Stage:
    """The place where the process forks, and the conductor of its copies."""

    def __init__(self, *, deadline: float, threads: int) -> None:
        self.trouble = ""
        self._deadline = deadline
        self._players: list[_Player] = []
        self._descriptors: list[int] = []
        self._copy: _Copy | None = None
        self._threads = threads
        self._loads_here = False

    @contextlib.contextmanager
    def loading_here(self) -> Iterator[None]:
        """Let loaders of the block load in this process: copies of it cannot share theirs."""
        original = DataLoader.__init__

        def alone(loader: Any, *args: Any, **kwargs: Any) -> None:
            original(loader, *args, **kwargs)
            if loader.num_workers:
                self._loads_here = True
                loader.num_workers = loader.timeout = 0

        kind = cast("Any", DataLoader)
        kind.__init__ = alone
        try:
            yield
        finally:
            kind.__init__ = original

    @contextlib.contextmanager
    def before_backward(self) -> Iterator[None]:
        """Fork before the first backward pass of the block: autograd has no threads yet."""
        original = torch.autograd.backward

        def first(*args: Any, **kwargs: Any) -> Any:
            torch.autograd.backward = original
            self._fork()
            if self._copy is None:
                self._conduct()
                raise StopRunError
            return torch.autograd.backward(*args, **kwargs)

        torch.autograd.backward = first
        try:
            yield
        finally:
            torch.autograd.backward = original

    def end_copy(self, ended: Failure | None) -> None:
        """End this process if it is a copy: its script came to its end."""
        if self._copy is not None:
            self._copy.end("finished" if ended is None else str(ended))

    def told(self, outbox: Store) -> Fields:
        """Return all that was measured; the weights go into `outbox`."""
        complete = bool(self._players) and all(each.weights is not None for each in self._players)
        complete = complete and len({each.compared for each in self._players}) == 1
        return {
            "seconds": {each.variant: each.seconds for each in self._players},
            "kernels": next((e.kernels for e in self._players if e.variant == "fused"), []),
            "steps": self._players[0].compared if complete else 0,
            "places": {each.variant: _moved(each, outbox) for each in self._players}
            if complete
            else {},
            "threads": self._threads,
            "stubs": ", ".join([*STUBS.used, *[_LOADING] * self._loads_here]),
        }

    def close(self) -> None:
        """End the copies."""
        if self._copy is not None:
            os._exit(1)  # an error of this module, in a copy
        for each in self._players:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(each.pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(each.pid, 0)
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors.clear()

    def _fork(self) -> None:
        for variant in VARIANTS:
            ours, theirs = socket.socketpair()
            store = Store.make()
            pid = os.fork()
            if pid == 0:
                ours.close()
                for descriptor in self._descriptors:
                    os.close(descriptor)
                self._descriptors.clear()
                # No thread of torch was started before: this process had one.
                torch.set_num_threads(self._threads)
                self._copy = _Copy(variant, Pipe(theirs.detach()), store)
                self._copy.start()
                return
            theirs.close()
            self._descriptors.append(ours.detach())
            pipe = Pipe(self._descriptors[-1])
            self._players.append(_Player(variant=variant, pid=pid, pipe=pipe, store=store))

    def _conduct(self) -> None:
        """Let the copies take their steps by turns, for some seconds."""
        until = time.monotonic() + MEASURED_S
        compared = False
        try:
            for number in range(1, MOST_STEPS + 1):
                order = _TIMED if number % 2 else _TIMED[::-1]
                going = [e for name in order for e in self._players if e.variant == name]
                if not compared:
                    going += [each for each in self._players if each.variant == "shaken"]
                taken = [each.ask("step", self._deadline) for each in going]
                if not all(taken):  # the same script ends in all copies
                    break
                over = time.monotonic() > until and number >= WARM_UP + LEAST_STEPS
                if not compared and (number == COMPARED_STEPS or over):
                    self._write(going)
                    compared = True
                if over:
                    break
            if not compared:
                self._write(self._players)
        except TimeoutError:
            self.trouble = "time"
        self._note_trouble()

    def _write(self, players: list[_Player]) -> None:
        for each in players:
            each.ask("weights", self._deadline)

    def _note_trouble(self) -> None:
        errors = [each.ended for each in self._players if each.ended not in {None, "finished"}]
        if errors and not self.trouble:
            self.trouble = f"copy: {errors[0]}"


def _moved(player: _Player, outbox: Store) -> list[list[Any]]:
    """Return where the weights of a copy lie in another store."""
    stored = player.store.read()
    return [
        [dtype, shape, outbox.add(stored.blob(place))]
        for dtype, shape, place in player.weights or ()
    ]


@final
class _Copy:
    """One copy of the process: takes a step of its script whenever it is told to."""

    def __init__(self, variant: Variant, pipe: Pipe, store: Store) -> None:
        self._variant: Variant = variant
        self._pipe = pipe
        self._store = store
        self._optimizers: list[Optimizer] = []
        self._kernels: list[str] = []
        self._random = torch.Generator().manual_seed(_SEED)
        self._began = 0.0

    def start(self) -> None:
        """Watch the optimizers, and wait for the first word."""
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        register_optimizer_step_pre_hook(self._before)
        register_optimizer_step_post_hook(self._after)
        self._wait()

    def end(self, words: str) -> None:
        """Tell that the script is over; weights can still be fetched."""
        with contextlib.suppress(ClosedError):
            self._pipe.send({"ended": words})  # in answer to the word on which the script went on
            while self._pipe.receive()["do"] != "weights":
                self._pipe.send({"ended": words})
            self._pipe.send({"weights": self._weights()})
        os._exit(0)

    def _before(self, optimizer: Optimizer, *_: object) -> None:
        if any(optimizer is known for known in self._optimizers):
            return
        self._optimizers.append(optimizer)
        name = type(optimizer).__name__
        if all(group.get("fused") for group in optimizer.param_groups):
            self._kernels.append(f"already {name}")
        elif self._variant == "fused":
            kernel = fuse(optimizer)
            self._kernels.append(kernel if kernel.startswith("fused ") else f"none {name}")

    def _after(self, optimizer: Optimizer, *_: object) -> None:
        taken = time.perf_counter() - self._began
        self._before(
            optimizer
        )  # with a closure, its first step had begun before there were copies
        if self._variant == "shaken":
            self._shake(optimizer)
        # Several optimizers may step in one turn: the first one counts the turns.
        if optimizer is self._optimizers[0]:
            self._pipe.send({"seconds": taken, "kernels": self._kernels})
            self._wait()

    def _wait(self) -> None:
        while True:
            try:
                word = self._pipe.receive()["do"]
            except ClosedError:
                os._exit(0)
            if word == "step":
                self._began = time.perf_counter()
                return
            self._pipe.send({"weights": self._weights()})

    def _trained(self) -> Iterator[torch.Tensor]:
        seen: set[int] = set()
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                for each in group["params"]:
                    if id(each) not in seen:
                        seen.add(id(each))
                        yield each

    def _weights(self) -> list[list[Any]] | None:
        """Return the forms and places of all weights; None where they are too large to compare."""
        found, size = [], 0
        for each in self._trained():
            data = dense_copy(each.detach()).contiguous()
            size += data.numel() * data.element_size()
            if size > MAX_WEIGHT_BYTES:
                return None
            found.append([str(data.dtype), list(data.shape), add_tensor(self._store, data)])
        return found

    def _shake(self, optimizer: Optimizer) -> None:
        with torch.no_grad():
            for group in optimizer.param_groups:
                for each in group["params"]:
                    if each.is_floating_point() and each.layout == torch.strided:
                        sign = torch.randint(0, 2, each.shape, generator=self._random) * 2 - 1
                        each.mul_((1 + sign * torch.finfo(each.dtype).eps).to(each.dtype))
