"""The files of a project that use the classes of another one: models around blocks, and tests."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

from flodl_verify.sources.project_files import project_files, texts_with

MAX_USERS = 12
MAX_CALLS_OF_TEST = 4
_TEST_NAME = re.compile(r"_?tests?(_|$)|demo(_|$)|example(_|$)")


def user_files(file: Path, folders: Sequence[Path], names: Sequence[str]) -> list[Path]:
    """Return the files that name a file's module and some of its classes, the best first.

    Files that name more of the classes come first; tests come behind models.
    """
    words = re.compile(rb"\b(" + b"|".join(re.escape(name.encode()) for name in names) + rb")\b")
    home = file.parent.name if file.stem == "__init__" else file.stem
    module = re.compile(
        rb"\bimport\b.*\b" + home.encode() + rb"\b|\b" + home.encode() + rb"\b.*\bimport\b"
    )
    found: list[tuple[bool, int, int, Path]] = []
    for number, (user, text) in enumerate(texts_with(b"import", project_files(file, folders))):
        named = set(words.findall(text))
        if named and (module.search(text) or user.parent == file.parent):
            found.append((is_test(user), -len(named), number, user))
    return [user for *_, user in sorted(found)[:MAX_USERS]]


def is_test(file: Path) -> bool:
    """Return True if a file holds tests, by its name or its folder."""
    folders = {"test", "tests"} & set(file.parts[-3:-1])
    return bool(folders) or file.stem.startswith("test") or file.stem.endswith("_test")


def classes_in(module: ModuleType, names: Sequence[str]) -> list[type[nn.Module]]:
    """Return the modules that a file defines, whole models before their parts.

    Those whose text names one of the classes come first.
    """
    own = [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, nn.Module)
        and value.__module__ == module.__name__
    ]
    own.reverse()
    return sorted(own, key=lambda item: not names_any(item, names))


def test_calls(module: ModuleType, names: Sequence[str]) -> Iterator[Callable[[], object]]:
    """Yield calls of the functions of a file that test something which one of the classes is in.

    Arguments are those that `pytest.mark.parametrize` gives; functions that need others are left.
    """
    functions = [
        value
        for name, value in vars(module).items()
        if inspect.isfunction(value)
        and value.__module__ == module.__name__
        and _TEST_NAME.match(name)
    ]
    for function in sorted(functions, key=lambda item: not names_any(item, names)):
        for arguments in itertools.islice(_arguments(function), MAX_CALLS_OF_TEST):
            if _takes(function, arguments):
                yield lambda f=function, a=arguments: f(**a)  # type: ignore[misc]


def _arguments(function: Any) -> Iterator[dict[str, object]]:
    """Yield the arguments that parametrised marks give to a test."""
    choices: list[list[dict[str, object]]] = []
    for mark in vars(function).get("pytestmark", ()):
        if mark.name != "parametrize" or len(mark.args) < 2:
            continue
        names, rows = mark.args[0], mark.args[1]
        words = [name.strip() for name in names.split(",")] if isinstance(names, str) else [*names]
        choices.append([_row(words, row) for row in rows])
    for choice in itertools.product(*choices):
        yield {name: value for row in choice for name, value in row.items()}


def _row(words: list[str], row: Any) -> dict[str, object]:
    given = type(row).__name__ == "ParameterSet"  # a `pytest.param(...)`
    values = row.values if given else row
    if len(words) == 1:
        return {words[0]: values[0] if given else row}
    return dict(zip(words, values, strict=False))


def _takes(function: Callable[..., object], arguments: dict[str, object]) -> bool:
    try:
        inspect.signature(function).bind(**arguments)
    except (TypeError, ValueError):
        return False
    return True


def names_any(thing: Any, names: Sequence[str]) -> bool:
    """Return True if the text of a class or a function holds one of the names."""
    try:
        text = inspect.getsource(thing)
    except (OSError, TypeError):
        return False
    return any(re.search(rf"\b{re.escape(name)}\b", text) for name in names)
