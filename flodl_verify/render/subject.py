"""The model that a request names, and inputs to call it with."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, final

import torch
from torch import nn

from flodl.errors import GraphError
from flodl.graph.observed import twin_of
from flodl.graph.planned_module import PlannedModule
from flodl.graph.texts import spec_of
from flodl_verify.inputs.input_search import find_arguments
from flodl_verify.inputs.rules.constructor_guesses import guess_constructor_arguments
from flodl_verify.inputs.rules.layer_shapes import guess_arguments
from flodl_verify.render.protocol import ModelRow, RenderError, Request
from flodl_verify.sandbox.isolated_import import locate
from flodl_verify.sources.literals import ExampleSyntaxError, parse_example

T = TypeVar("T")
Arguments = tuple[tuple[Any, ...], dict[str, Any]]
EXAMPLE_HINT = 'say how to make and call it: --example "{name}(...): torch.randn(...)"'
SEED = 555
MAX_SEARCH_S = 5.0
# A picture is worth the call of a model of this size; of a larger one it may cost minutes and gigabytes.
MOST_PARAMETERS_CALLED = 30_000_000


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A plain module, or a graph whose flow is described; with arguments for a call if any are known."""

    graph: nn.Module
    arguments: Arguments | None
    example: str


def find_subject(request: Request) -> Subject:
    """Import the file, make the model, and call it once if its flow must see values.

    Raises:
        RenderError: one of these steps fails.
    """
    torch.manual_seed(SEED)
    module = _import(request.file)
    made, inputs, how = _make(module, request)
    if not isinstance(made, nn.Module):
        raise _no_model(request, made)
    if not isinstance(made, PlannedModule) and request.heat in ("backward", "memory"):
        raise RenderError(
            "not-a-graph",
            f"`{request.name}` is a plain torch module ({type(made).__name__}), "
            f"and --heat {request.heat} measures graphs only",
            f"port it first: fdl port {request.file.name}; or draw it with --heat time",
        )
    arguments = _given_arguments(module, request, inputs) if inputs is not None else None
    runs = request.heat != "none" or {"summary", "values", "sizes", "rows"} & set(request.formats)
    if arguments is None and (runs or not _is_described(made)):
        arguments = _guessed_arguments(made, request)
        how += ", called with guessed inputs"
    if arguments is not None:
        args, kwargs = arguments
        _attempt(lambda: made(*args, **kwargs), request, "example-fails", "calling the model")
    elif _wants_shapes(made, request):
        # Shapes are an extra: a model that fits no guess, or cannot be copied, is drawn without them.
        with suppress(Exception):
            arguments = _guessed_arguments(twin_of(made), request)
            how += ", called with guessed inputs"
    return Subject(graph=made, arguments=arguments, example=how)


def _import(file: Path) -> ModuleType:
    place = locate(file)
    sys.path.insert(0, str(place.root))
    try:
        if place.package is None:
            return _import_script(file)
        sys.path.append(str(file.parent))  # for a program that is started in this folder
        return importlib.import_module(place.name)
    except RenderError:
        raise
    except (Exception, SystemExit) as problem:
        raise RenderError(
            "file-does-not-import",
            f"importing {file.name} fails: {_said(problem)}",
            "a file that trains when it is imported needs `if __name__ == '__main__':`",
            _line_in(problem, file),
        ) from problem


def _import_script(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise RenderError(
            "file-does-not-import",
            f"{file.name} is no Python file by its name",
            "name a file that ends in .py",
        )
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module


def _make(module: ModuleType, request: Request) -> tuple[Any, str | None, str]:
    """Return the model, the text of its inputs if given, and how it was made."""
    if request.example:
        try:
            example = parse_example(request.example)
        except ExampleSyntaxError as problem:
            raise RenderError("example-syntax", str(problem), "write it in Python") from problem
        made = _attempt(
            lambda: _evaluate(example.model, module), request, "example-fails", "making the model"
        )
        return made, example.inputs, request.example
    names = vars(module)
    if request.name not in names:
        listed = ", ".join(f"`{name}`" for name, _ in _models(module)) or "none"
        raise RenderError(
            "name-not-found",
            f"{request.file.name} has no `{request.name}`",
            f"the models in this file: {listed}",
        )
    found = names[request.name]
    if not isinstance(found, type):
        made = found() if callable(found) and not isinstance(found, nn.Module) else found
        return made, None, request.name
    return *_construct(found, request), f"{request.name}(...)"


def _construct(made: type, request: Request) -> tuple[Any, None]:
    problem: Exception | None = None
    for arguments in guess_constructor_arguments(made):
        try:
            return made(**arguments), None
        except Exception as failure:  # the next guess may fit
            problem = failure
    reason = f": {_said(problem)}" if problem is not None else ""
    raise RenderError(
        "cannot-construct",
        f"no guessed constructor arguments make `{request.name}`{reason}",
        EXAMPLE_HINT.format(name=request.name),
    )


def _given_arguments(module: ModuleType, request: Request, inputs: str) -> Arguments:
    text = f"(lambda *args, **kwargs: (args, kwargs))({inputs})"
    arguments: Arguments = _attempt(
        lambda: _evaluate(text, module), request, "example-fails", "making the inputs"
    )
    return arguments


def _guessed_arguments(graph: nn.Module, request: Request) -> Arguments:
    problem: Exception | None = None
    for arguments in _guesses(graph):
        try:
            with torch.no_grad():
                graph(*arguments[0], **arguments[1])
        except Exception as failure:  # the next guess may fit
            problem = failure
        else:
            return arguments
    if (found := _searched_arguments(graph, request)) is not None:
        return found
    reason = f" (the last try: {_said(problem)})" if problem is not None else ""
    raise RenderError(
        "no-inputs",
        f"no guessed inputs fit `{request.name}`{reason}",
        EXAMPLE_HINT.format(name=request.name),
    )


def _searched_arguments(graph: nn.Module, request: Request) -> Arguments | None:
    """Return inputs that the search of `fdl port` finds by what a model says of those it refuses.

    It finds integers for `edge_index` of a graph network, for instance.
    """
    over = time.process_time() + MAX_SEARCH_S
    found = find_arguments(graph, request.file, lambda: time.process_time() > over)
    return found if isinstance(found, tuple) else None


def _guesses(graph: nn.Module) -> Iterator[Arguments]:
    for number, (args, kwargs) in enumerate(guess_arguments(graph)):
        if number == 60:
            return
        yield args, kwargs


def _wants_shapes(made: nn.Module, request: Request) -> bool:
    """Return True for a model whose picture gets shapes although no inputs were given."""
    formats = set(request.formats)
    if request.before or not formats & {"svg", "html"} or formats & {"facts", "diff", "changes"}:
        return False
    return sum(each.numel() for each in made.parameters()) <= MOST_PARAMETERS_CALLED


def _is_described(graph: nn.Module) -> bool:
    if not isinstance(graph, PlannedModule):
        return True  # torch.fx reads the forward without a call
    try:
        return bool(spec_of(graph).nodes)
    except GraphError:
        return False


def list_models(request: Request) -> tuple[ModelRow, ...]:
    """Return the models of a file.

    Raises:
        RenderError: the file cannot be imported.
    """
    return tuple(_row(name, each) for name, each in _models(_import(request.file)))


def _models(module: ModuleType) -> list[tuple[str, nn.Module | type[nn.Module]]]:
    """Return the classes that a file defines, and the models that it makes."""
    return [
        (name, each)
        for name, each in vars(module).items()
        if isinstance(each, nn.Module)
        or (
            isinstance(each, type)
            and issubclass(each, nn.Module)
            and each.__module__ == module.__name__
        )
    ]


def _row(name: str, model: nn.Module | type[nn.Module]) -> ModelRow:
    kind = model if isinstance(model, type) else type(model)
    what = "flow module" if issubclass(kind, PlannedModule) else "plain module"
    if not isinstance(model, type):
        return ModelRow(name, f"{what} {kind.__name__}", 0)
    try:
        return ModelRow(name, what, inspect.getsourcelines(kind)[1])
    except (OSError, TypeError):  # made by a call, so that it has no text
        return ModelRow(name, what, 0)


def _no_model(request: Request, made: object) -> RenderError:
    return RenderError(
        "not-a-graph",
        f"`{request.name}` is no model but {type(made).__name__}",
        "name a module class, a module, or a function that makes one",
    )


def _evaluate(text: str, module: ModuleType) -> Any:
    names = {"torch": torch, "nn": nn, "F": nn.functional, **vars(module)}
    return eval(text, names)


def _attempt(call: Callable[[], T], request: Request, error_id: str, doing: str) -> T:
    try:
        return call()
    except Exception as problem:
        raise RenderError(
            error_id,
            f"{doing} fails: {_said(problem)}",
            EXAMPLE_HINT.format(name=request.name),
            _line_in(problem, request.file),
        ) from problem


def _said(problem: BaseException) -> str:
    text = str(problem).strip().splitlines()
    return f"{type(problem).__name__}: {text[0]}" if text else type(problem).__name__


def _line_in(problem: BaseException, file: Path) -> int:
    """Return the innermost line of the user's file that an exception came through, 0 for none."""
    if isinstance(problem, SyntaxError):
        return problem.lineno or 0
    frames = traceback.extract_tb(problem.__traceback__)
    lines = [each.lineno for each in frames if each.filename == str(file)]
    return (lines[-1] or 0) if lines else 0
