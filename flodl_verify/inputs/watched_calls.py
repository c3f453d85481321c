"""Construction and calls of the original's models under a recorder, from one seed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from flodl_verify.inputs.recorder import Case, Recorder
from flodl_verify.sandbox.attempt import Failure, attempt
from flodl_verify.sandbox.isolated_import import Side
from flodl_verify.sandbox.seeds import seed_all
from flodl_verify.values.recipes import Arguments, Construction, Packed, unpack

EXAMPLE_SEED = 555
NOTHING = Packed(data=b"")


def of_expression(text: str) -> Construction:
    """Return a construction that evaluates an expression."""
    return Construction(kind="expression", module="", qualname=text, arguments=NOTHING)


def of_value(side: Side, name: str) -> Construction:
    """Return a construction that takes the model of a module-level name."""
    return Construction(kind="value", module=side.name, qualname=name, arguments=NOTHING)


def new_recorder(side: Side, origin: str) -> Recorder:
    """Return a recorder for the classes of the program."""
    return Recorder(side.is_local, origin=origin, keep_live=True)


def call_watched(model: nn.Module, arguments: Arguments, recorder: Recorder) -> None:
    """Call a model, recording it and all modules inside it."""
    seed_all(EXAMPLE_SEED)
    with recorder.watching():
        model(*arguments[0], **arguments[1])


def watch(side: Side, call: Callable[[], object], origin: str) -> Recorder:
    """Run a call, and return the record of modules that it makes and calls, however it ends."""
    recorder = new_recorder(side, origin)

    def watched() -> object:
        seed_all(EXAMPLE_SEED)
        with recorder.watching():
            return call()

    with side.active():
        attempt(watched, side.file)
    return recorder


def runs_again(side: Side, case: Case) -> bool:
    """Return True if what was seen in other code can be done again without it."""

    def call() -> None:
        seed_all(EXAMPLE_SEED)
        model = case.construction.build(side)
        args, kwargs = unpack(case.inputs, side)
        model(*args, **kwargs)

    with side.active():
        return run_without_gradients(call, side.file) is None


def is_kept(side: Side, construction: Construction, model: nn.Module) -> bool:
    """Return True if an expression returns an earlier object: it draws nothing under a seed."""
    made = construction.qualname.partition("(")[0]
    if construction.kind != "expression" or made == type(model).__name__:
        return False  # a class makes again, and a heavy one need not do it twice
    return attempt(lambda: construction.build(side), side.file) is model


def run_without_gradients(call: Callable[[], object], file: Path) -> Failure | None:
    """Run a call without gradients; return its failure, if any."""
    with torch.no_grad():
        outcome = attempt(call, file)
    return outcome if isinstance(outcome, Failure) else None
