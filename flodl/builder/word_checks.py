"""Checks of what the words of a builder chain are given: names are texts, counts are whole numbers.

The words only note their arguments, and `build` reports every mistake with its line. So a wrong kind of
argument is found here, before a word is run, and leaves as a problem of the chain:

    FlowBuilder.from_(layer).tag(3).loop_body(layer).for_n(2.5).build()
    # BuildError: tag(3): a tag is a text, not an int
    #             for_n(2.5): a number of turns is a whole number, not a float
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from flodl.ir.graph import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from flodl.builder.flow_builder import BuilderStep


def without_misfits(
    steps: Sequence[BuilderStep],
) -> tuple[list[BuilderStep], list[Problem]]:
    """Return the words whose arguments are of the right kinds, and a problem for each of the others."""
    kept: list[BuilderStep] = []
    problems: list[Problem] = []
    for step in steps:
        messages = list(_misfits(step))
        problems += [Problem(message=each, site=step.site) for each in messages]
        if not messages:
            kept.append(step)
    return kept, problems


def _misfits(step: BuilderStep) -> Iterator[str]:
    word, args = step.word, step.args
    if word in ("tag", "tag_group", "internal", "input", "using"):
        for value in (*args, *(value for _, value in step.named)):
            yield from name_misfit(word, value)
    elif word == "initial":
        yield from name_misfit(word, args[0])
    elif word == "loop":
        yield from _count_misfit("for_n", args[1], "a number of turns")
    elif word == "halting":
        yield from _count_misfit(f"{args[3]}_cond", args[2], "a limit of turns")
    elif word == "map":
        yield from _map_misfits(args[1], args[2])


def _map_misfits(how: str, arguments: tuple[Any, ...]) -> Iterator[str]:
    if how == "over":
        yield from name_misfit("map(...).over", arguments[0])
    elif how == "slices":
        yield from _count_misfit("slices", arguments[0], "a number of slices")
    elif how == "along":
        for each in arguments:
            if each is not None:
                yield from _count_misfit("along", each, "a dimension")


def name_misfit(word: str, value: Any) -> Iterator[str]:
    """Yield the fault of the name that a word is given, if there is one."""
    noun = {"input": "the name of an input", "label": "a label"}.get(word, "a tag")
    if not isinstance(value, str):
        yield f"{word}({_shown(value)}): {noun} is a text, not {_kind(value)}"
    elif not value:
        yield f'{word}(""): {noun} needs at least one character'


def _count_misfit(word: str, value: Any, noun: str) -> Iterator[str]:
    try:
        operator.index(value)
    except TypeError:
        whole = False
    else:
        whole = not isinstance(value, bool)
    if not whole:
        yield f"{word}({_shown(value)}): {noun} is a whole number, not {_kind(value)}"


def _shown(value: Any) -> str:
    text = repr(value) if isinstance(value, (int, float, complex, bytes)) or value is None else ""
    return text if 0 < len(text) <= 40 else "..."


def _kind(value: Any) -> str:
    name = "None" if value is None else type(value).__name__
    return f"an {name}" if name[0] in "aeiouAEIOU" else f"a {name}" if value is not None else name
