"""A pytest plugin that writes down, for each test, the outcome, the processor time and the numbers.

The numbers of a test are digests of what its outermost calls of modules return, of the gradients after
each backward pass, and of the random state at its end:

    {"id": "tests/test_layers.py::test_mlp", "outcome": "passed", "seconds": 0.01, "message": "",
     "numbers": ["Mlp 5f2c...", "gradients 81aa...", "random state 0c11..."]}

A line is written when a test starts and another when it ends, so a test that ends the process is known.
Each test starts from the same seeds, and calls are watched below hooks, so fast paths stay as they are.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import random
import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.fx._symbolic_trace import is_fx_symbolic_tracing

from benchmarks.model_zoo.side import digest

SETTINGS = "FDL_LIBRARY_SUITE"
SEED = 1234
LATE = "over the limit"
_LONGEST_MESSAGE = 300


class LimitReached(BaseException):
    """A test took longer than it may; no `except Exception` of a library may catch it."""


class SeededRandom(random.Random):
    """Stands for `random.Random`, whose objects without a seed would differ between two processes."""

    known: weakref.WeakSet[SeededRandom] = weakref.WeakSet()

    def __init__(self, x: Any = None) -> None:
        super().__init__(SEED if x is None else x)
        if x is None:
            SeededRandom.known.add(self)


class Numbers:
    """Digests of what a test computes, in the order in which it computes them."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.seconds = 0.0
        self._modules: list[weakref.ref[torch.nn.Module]] = []
        self.depth = 0
        self._thread = threading.main_thread()

    def restart(self) -> None:
        """Forget the test before, and set all seeds."""
        self.found, self.seconds, self.depth = [], 0.0, 0
        self._modules = []
        torch.manual_seed(SEED)
        random.seed(SEED)
        np.random.seed(SEED)
        for each in SeededRandom.known:
            each.seed(SEED)

    def note(self, name: str, value: Any) -> None:
        """Add the digest of a value; its time is not that of the test."""
        started = time.process_time()
        self.depth += 1  # a tensor subclass may call modules when it is read
        try:
            self.found.append(f"{name} {_digest(value)}")
        finally:
            self.depth -= 1
            self.seconds += time.process_time() - started

    def call(self, function: Callable[..., Any], module: Any, args: Any, kwargs: Any) -> Any:
        """Call a module, and note what the outermost call returns or raises."""
        if _is_traced() or threading.current_thread() is not self._thread:
            return function(module, *args, **kwargs)
        self.depth += 1
        try:
            output = function(module, *args, **kwargs)
        except Exception as error:
            self.found.append(f"{type(module).__name__} raises {type(error).__name__}")
            raise
        finally:
            self.depth -= 1
        if all(each() is not module for each in self._modules):
            self._modules.append(weakref.ref(module))
        self.note(type(module).__name__, output)
        return output

    def gradients(self) -> None:
        """Note the gradients of all modules that the test called."""
        if self.depth or _is_traced():
            return
        alive = [each() for each in self._modules]
        parameters = [
            sorted(each.named_parameters(), key=lambda pair: pair[0])
            for each in alive
            if each is not None
        ]
        self.note("gradients", [[(n, p.grad) for n, p in each] for each in parameters])


def _is_traced() -> bool:
    return (
        torch.compiler.is_compiling()
        or torch._C._get_tracing_state() is not None
        or is_fx_symbolic_tracing()
        or torch._C._functorch.peek_interpreter_stack() is not None
        or torch._C._len_torch_dispatch_stack() > 0
    )


def _digest(value: Any) -> str:
    try:
        with torch.no_grad():
            return digest(_plain(value))
    except (RuntimeError, TypeError, NotImplementedError, AttributeError) as error:
        return f"cannot be read: {type(error).__name__}"


def _plain(value: Any) -> Any:
    """Return a value without what differs between two classes of the same name, or has no bits."""
    if isinstance(value, torch.Tensor):
        if value.device.type == "meta":
            return ("meta", str(value.dtype), tuple(value.shape))
        return value.as_subclass(torch.Tensor) if type(value) is not torch.Tensor else value
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, bool | int | float | str | type(None)):
        return value
    return type(value).__name__


def watch(numbers: Numbers) -> None:
    """Let the numbers see the calls of modules and the backward passes."""
    call, backward = torch.nn.Module._call_impl, torch.autograd.backward

    def _call_impl(module: Any, *args: Any, **kwargs: Any) -> Any:
        if numbers.depth:  # an inner call, of which the original has more: cheap
            return call(module, *args, **kwargs)
        return numbers.call(call, module, args, kwargs)

    def _backward(*args: Any, **kwargs: Any) -> None:
        backward(*args, **kwargs)
        numbers.gradients()

    torch.nn.Module._call_impl = _call_impl
    torch.autograd.backward = _backward
    random.Random = SeededRandom  # type: ignore[misc]


class Recorder:
    """The hooks of pytest: which tests run, and a line for each."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._file = Path(settings["file"])
        self._limit_s: float = settings["limit_s"]
        self._end = time.monotonic() + settings["budget_s"]
        self._done = frozenset(settings["done"])
        self._only = frozenset(settings["only"])
        self._numbers = Numbers()
        self._row: dict[str, Any] = {}
        watch(self._numbers)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out the tests that have a line already."""
        items[:] = [
            item
            for item in items
            if item.nodeid not in self._done and (not self._only or item.nodeid in self._only)
        ]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Run one test from the same seeds, within its limit, and write its lines."""
        if time.monotonic() > self._end:
            item.session.shouldstop = "the budget is used up"
        self._write({"id": item.nodeid, "started": True})
        self._row = {"outcome": "not run", "message": ""}
        self._numbers.restart()
        started = time.process_time()
        with _limited(self._limit_s) as late:
            done = yield
        if late:
            self._row["outcome"] = LATE
        if self._row["outcome"] != "not run":
            self._numbers.note("random state", torch.get_rng_state())
            seconds = time.process_time() - started - self._numbers.seconds
            numbers = self._numbers.found
            self._write(
                {"id": item.nodeid, **self._row, "seconds": round(seconds, 3), "numbers": numbers}
            )
        return done

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the first phase that does not pass, else that of the call."""
        failed_before = self._row["outcome"] not in {"not run", "passed"}
        if not failed_before and (report.when == "call" or report.outcome != "passed"):
            self._row["outcome"] = report.outcome
            self._row["message"] = _message(report)

    def _write(self, row: dict[str, Any]) -> None:
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def _message(report: pytest.TestReport) -> str:
    if report.outcome == "passed" or report.longrepr is None:
        return ""
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2])[:_LONGEST_MESSAGE]
    lines = [line for line in report.longreprtext.splitlines() if line.startswith("E ")]
    return (lines or report.longreprtext.splitlines()[-1:] or [""])[0][2:].strip()[
        :_LONGEST_MESSAGE
    ]


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[list[float]]:
    """End a test after some seconds, and tell of it by an entry of the list."""
    late: list[float] = []

    def stop(_signal: int, _frame: Any) -> None:
        late.append(seconds)
        raise LimitReached(f"the test took longer than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield late
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def make_torchvision_importable() -> None:
    """Stand in for the library of torchvision if it was built for another machine."""
    if importlib.util.find_spec("torchvision") is not None:
        try:
            importlib.import_module("torchvision")
        except RuntimeError:
            importlib.import_module("benchmarks.model_zoo.operators")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Start to record, before a conftest of the library imports it.

    flodl keeps the call of modules that it finds when it is imported.
    """
    settings = json.loads(Path(os.environ[SETTINGS]).read_text(encoding="utf-8"))
    early_config.pluginmanager.register(Recorder(settings))
    make_torchvision_importable()
