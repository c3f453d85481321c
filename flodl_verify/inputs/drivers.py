"""Code of a project that makes models without being one: scripts, functions, and objects around models."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType

import torch
from torch import nn

from flodl_verify.inputs.rules.constructor_guesses import (
    guess_constructor_arguments,
    other_options,
)
from flodl_verify.sandbox.attempt import OutOfTimeError, attempt, time_limit
from flodl_verify.sandbox.containment import StopRunError, stop_at_first_backward
from flodl_verify.sandbox.isolated_import import Place
from flodl_verify.sandbox.main_module import run_main
from flodl_verify.sources.project_values import ProjectValues
from flodl_verify.sources.users import names_any

Call = Callable[..., object]
Time = Callable[[], float]

MAX_OBJECTS = 4
DRIVER_LIMIT_S = 20.0
_MAIN = re.compile(rb"^if\s+__name__\s*==", re.MULTILINE)
# Methods of agents, experiments and benchmarks to call; training comes last, for it is stopped at its
# first backward pass.
_RUNS = (
    "eval", "evaluate", "test", "predict", "infer", "inference", "forward", "sample", "run", "main",
    "step", "fit", "train",
)  # fmt: skip


def carriers(module: ModuleType, names: Sequence[str], *, models: bool = False) -> tuple[str, ...]:
    """Return the functions and classes of a file that name some models, with `models` those that are some."""
    return tuple(
        name
        for name, value in vars(module).items()
        if _is_of(module, value) and (models or not _is_model(value)) and names_any(value, names)
    )


def drivers(
    module: ModuleType, names: Sequence[str], project: ProjectValues, left_s: Time
) -> Iterator[Call]:
    """Yield calls that make models of some names: of functions without arguments, then of objects.

    An object is made of guessed arguments, and its methods without arguments are called.
    """
    own = [vars(module)[name] for name in carriers(module, names)]
    for value in own:
        if inspect.isfunction(value) and _takes_nothing(value):
            yield partial(_bounded, value, left_s)
    for value in own:
        if isinstance(value, type):
            yield partial(_drive, value, project, left_s)


def is_script(file: Path) -> bool:
    """Return True if a file does something only when it is the main program."""
    return _MAIN.search(file.read_bytes()) is not None


def run_script(file: Path, place: Place, left_s: float) -> None:
    """Run a file as the main program, as far as its first backward pass."""
    main, argv = sys.modules["__main__"], sys.argv
    sys.path.insert(0, str(place.root))
    try:
        _bounded(partial(run_main, file, place.name, file), lambda: left_s)
    finally:
        sys.modules["__main__"], sys.argv = main, argv


def _drive(made: type, project: ProjectValues, left_s: Time) -> None:
    """Make an object of the first arguments that it takes, and let it do what it is for."""
    first = next(guess_constructor_arguments(made, project), {})
    choices = itertools.chain([first], other_options(made, first))
    for arguments in itertools.islice(choices, MAX_OBJECTS):
        built = _bounded(partial(made, **arguments), left_s)
        if isinstance(built, made):
            for name in _RUNS:
                method = inspect.getattr_static(made, name, None)
                if inspect.isfunction(method) and _takes_nothing(method, built):
                    _bounded(partial(method, built), left_s)
            return


def _bounded(call: Call, left_s: Time) -> object:
    """Return the result of a call that ends in time and before a backward pass; torch's defaults stay."""
    dtype, gradients = torch.get_default_dtype(), torch.is_grad_enabled()
    try:
        with (
            contextlib.suppress(StopRunError, OutOfTimeError),
            stop_at_first_backward(),
            time_limit(min(left_s(), DRIVER_LIMIT_S)),
        ):
            return attempt(call)
    finally:
        torch.set_default_dtype(dtype)
        torch.set_grad_enabled(gradients)
    return None


def _takes_nothing(function: Call, *given: object) -> bool:
    try:
        inspect.signature(function).bind(*given)
    except (TypeError, ValueError):
        return False
    return True


def _is_of(module: ModuleType, value: object) -> bool:
    is_defined = isinstance(value, type) or inspect.isfunction(value)
    return is_defined and value.__module__ == module.__name__


def _is_model(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, nn.Module)
