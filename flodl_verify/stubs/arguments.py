"""Command line arguments that a script requires."""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from flodl_verify.sources.text_options import texts_compared

# Names of data that is made up, by programs or by the stand-ins: better than the name of a file.
_MADE_UP = ("fake", "synthetic", "random", "dummy", "toy", "mnist", "cifar10")
_MOST = 64


def supply_arguments(script: Path, note: Callable[[str], None]) -> None:
    """Let parsers that are given nothing fill in what is required, from now on."""
    parse = argparse.ArgumentParser.parse_known_args

    def supplied(
        self: argparse.ArgumentParser,
        args: Sequence[str] | None = None,
        namespace: Any = None,
        **others: Any,
    ) -> Any:
        given = list(sys.argv[1:] if args is None else args)
        if not given:
            texts = _texts(script)
            for action in _required(self):
                given += _words_for(action, texts)
                note(f"the argument {_shown(action)}")
        return parse(self, given, namespace, **others)

    argparse.ArgumentParser.parse_known_args = supplied  # type: ignore[method-assign,assignment]


def _required(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return the actions that have to be there: options first, since a subcommand ends them.

    A program with subcommands does nothing without one, required or not.
    """
    subcommands = argparse._SubParsersAction
    actions = [item for item in parser._actions if item.required or isinstance(item, subcommands)]
    for group in parser._mutually_exclusive_groups:
        if group.required:
            actions += group._group_actions[:1]
    return sorted(actions, key=lambda item: not item.option_strings)


def _words_for(action: argparse.Action, texts: dict[str, list[str]]) -> Iterator[str]:
    if action.option_strings:
        yield action.option_strings[-1]
    if action.nargs == 0:
        return
    count = action.nargs if isinstance(action.nargs, int) else 1
    for _ in range(min(count, _MOST)):
        yield _value(action, texts.get(action.dest, []))


def _value(action: argparse.Action, texts: list[str]) -> str:
    choices = [str(item) for item in action.choices or ()]
    for known in _MADE_UP:
        for text in choices or texts:
            if text.lower() == known:
                return text
    if choices:
        return choices[0]
    if action.type in {int, float}:
        return "2"
    return texts[0] if texts else "data"


def _shown(action: argparse.Action) -> str:
    return action.option_strings[-1] if action.option_strings else action.dest


def _texts(script: Path) -> dict[str, list[str]]:
    try:
        return texts_compared(ast.parse(script.read_bytes()), {})
    except (SyntaxError, ValueError, OSError):
        return {}
