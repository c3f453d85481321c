"""Settings as shell scripts and documents of a project give them: `python run.py --model Net --width 64`."""

from __future__ import annotations

import ast
import functools
import itertools
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from flodl_verify.sources.project_files import project_files, texts_with

_ENDINGS: Final = (".sh", ".bash", ".md")
_CONTINUED: Final = re.compile(r"\\[ \t]*\r?\n")
_ASSIGNED: Final = re.compile(r"^\s*(?:export\s+)?(\w+)=(\S+)\s*;?\s*$")
# The first round of a loop shows as well as any other what a program takes.
_LOOP: Final = re.compile(r"^\s*for\s+(\w+)\s+in\s+([^\s;]+)")
_VARIABLE: Final = re.compile(r"\$\{?(\w+)\}?")
_SHORT: Final = re.compile(r"-[A-Za-z]")
_WORDS: Final = re.compile(r"[^a-z0-9]+")

Options = dict[str, tuple[str, ...]]


def shown_settings(
    file: Path, folders: tuple[Path, ...], wanted: frozenset[str], declared: Mapping[str, object]
) -> list[dict[str, object]]:
    """Return the values of declared names in commands that name a file, or the model in it.

    Of many, the lightest one and the one in the middle: the lightest may be too small for the model.
    """
    found = [
        {
            name: _value(words, declared[name])
            for name, words in options.items()
            if name in declared
        }
        for place, options in _commands(folders)
        if _is_about(file.stem.lower(), place, options)
    ]
    found.sort(key=lambda values: weight_of(values, wanted))
    middle = found[len(found) // 2 :][:1]
    return found[:1] + [values for values in middle if values != found[0]]


@functools.lru_cache(maxsize=8)
def _commands(folders: tuple[Path, ...]) -> tuple[tuple[Path, Options], ...]:
    """Return the options of all commands that run a Python file, each with its place."""
    files = project_files(Path(), folders, _ENDINGS)
    return tuple(
        (place, options)
        for place, text in texts_with(b".py", files)
        for options in _read(text.decode(errors="replace"))
    )


def _read(text: str) -> Iterator[Options]:
    variables: dict[str, str] = {}
    for line in _CONTINUED.sub(" ", text).splitlines():
        assigned = _ASSIGNED.match(line) or _LOOP.match(line)
        if assigned is not None:
            variables[assigned[1]] = assigned[2].strip("'\"")
        known = _VARIABLE.sub(lambda name: variables.get(name[1], ""), line)
        for part in known.split("`"):  # as documents set a command off
            if ".py" in part and " --" in part:
                yield from _options(part)


def _options(command: str) -> Iterator[Options]:
    """Yield the words after each option behind the name of the program, if there are any."""
    try:
        words = shlex.split(command, comments=True)
    except ValueError:  # a quote that does not end: no command, but prose
        return
    found: Options = {}
    name = ""
    program = next((n for n, word in enumerate(words) if word.endswith(".py")), len(words))
    for word in itertools.takewhile(_is_no_operator, words[program + 1 :]):
        if word.startswith("--"):
            name, is_given, value = word[2:].replace("-", "_").partition("=")
            found[name] = (value,) if is_given else ()
        elif _SHORT.match(word):
            name = ""
        elif name:
            found[name] = (*found[name], word)
    if found:
        yield found


def _is_no_operator(word: str) -> bool:
    return word[0:1] not in {"|", "&", ";", ">", "<"} and not word.startswith(("2>", "1>"))


def _is_about(stem: str, place: Path, options: Options) -> bool:
    """Return True if a command is for the model of a file: by a value, or by the name of its script."""
    values = {word.lower() for words in options.values() for word in words}
    return stem in values or (place.suffix != ".md" and stem in _WORDS.split(place.stem.lower()))


def _value(words: tuple[str, ...], default: object) -> object:
    """Return the value that a program makes of an option's words; the default tells the kind."""
    if not words:
        return not default if isinstance(default, bool) else default
    if len(words) > 1:
        return [_value((word,), None) for word in words]
    if isinstance(default, str):
        return words[0]
    try:
        return ast.literal_eval(words[0])
    except (ValueError, SyntaxError):
        return words[0]


def weight_of(values: Mapping[str, object], wanted: frozenset[str]) -> float:
    """Return the sum of the numbers under some names: models of small numbers are light."""
    numbers = (value for name, value in values.items() if name in wanted)
    return sum(abs(value) for value in numbers if isinstance(value, int | float))
