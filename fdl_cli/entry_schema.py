"""Options of a program, reported to `fdl`: for programs that parse with argparse, typer or click.

A program can answer by itself:

    from fdl_cli.entry_schema import answer_schema
    answer_schema(parser)            # before parser.parse_args(); prints and ends for --fdl-schema
    arguments = parser.parse_args()

or stay as it is: `fdl` then runs `python .../entry_schema.py SCRIPT` (or `-m MODULE`), which starts
the program and prints its options at the moment when it would read its arguments. This file needs
the standard library only, and no other part of `fdl`, so that any Python can run it.
"""

import argparse
import json
import re
import runpy
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

FLAG = "--fdl-schema"
NO_PARSER = 3


def answer_schema(parser: Any, words: Sequence[str] | None = None) -> None:
    """Print the options of a parser and end the program, if `--fdl-schema` is given.

    Args:
        parser: an `argparse.ArgumentParser`, a `typer.Typer` or a click command.
        words: the command line; by default that of this process.
    """
    given = sys.argv[1:] if words is None else words
    if FLAG in given:
        _print(describe(parser, given))


def describe(parser: Any, words: Sequence[str] = ()) -> dict[str, Any]:
    """Return the options of a parser as the document that `--fdl-schema` prints.

    Where `words` name a sub-command, as in `python -m digits train`, its options are returned.

    Example:
        >>> parser = argparse.ArgumentParser()
        >>> _ = parser.add_argument("--lr", type=float, default=0.1)
        >>> describe(parser)["options"]["lr"]["type"]
        'number'
    """
    if isinstance(parser, argparse.ArgumentParser):
        return _describe_argparse(_chosen(parser, words))
    typer = sys.modules.get("typer")
    if typer is not None and isinstance(parser, typer.Typer):
        parser = vars(typer.main)["get_command"](parser)
    return _describe_click(parser)


def _chosen(parser: argparse.ArgumentParser, words: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser of the sub-command that the words name: it reads what follows them."""
    for word in words:
        for action in vars(parser)["_actions"]:
            if action.nargs == argparse.PARSER and word in action.choices:
                parser = action.choices[word]
                break
    return parser


def _describe_argparse(parser: argparse.ArgumentParser) -> dict[str, Any]:
    options: dict[str, Any] = {}
    arguments: list[dict[str, Any]] = []
    strict = True
    for action in vars(parser)["_actions"]:
        if action.nargs in (argparse.PARSER, argparse.REMAINDER):
            strict = False
        elif action.dest == "help" or isinstance(action, vars(argparse)["_VersionAction"]):
            continue
        elif action.option_strings:
            options[_name(action.option_strings)] = _argparse_option(action)
        else:
            item = _argparse_option(action)
            item["name"] = _positional_name(action)
            item["required"] = action.nargs not in ("?", "*")
            arguments.append(item)
    epilog = (parser.epilog or "").replace("%(prog)s", parser.prog)
    return _document(parser.description, options, arguments, epilog, strict=strict)


def _positional_name(action: argparse.Action) -> str:
    """Return the word that stands for an argument in a usage line, where it is one word."""
    shown = action.metavar
    return shown if isinstance(shown, str) and re.fullmatch(r"[^\s\[\]]+", shown) else action.dest


def _argparse_option(action: argparse.Action) -> dict[str, Any]:
    switches = ("_StoreTrueAction", "_StoreFalseAction", "_StoreConstAction", "_CountAction")
    kinds = tuple(vars(argparse)[name] for name in switches)
    boolean = isinstance(action, argparse.BooleanOptionalAction)
    flag = boolean or isinstance(action, kinds)
    words = list(action.option_strings)
    negated = [word for word in words if boolean and word.startswith("--no-")]
    default = None if action.default is argparse.SUPPRESS else action.default
    return {
        "type": "flag" if flag else _type_name(action.type),
        "description": _help(action),
        "default": default if isinstance(default, str | int | float | bool) else None,
        "choices": [str(choice) for choice in action.choices or ()],
        "required": action.required,
        "flags": sorted((word for word in words if word not in negated), key=_long_first),
        "negated": negated,
        "count": None if flag else action.nargs,
        "repeats": isinstance(action, vars(argparse)["_AppendAction"]),
    }


def _help(action: argparse.Action) -> str:
    return "" if action.help in (None, argparse.SUPPRESS) else str(action.help).split("%(")[0]


def _describe_click(command: Any) -> dict[str, Any]:
    options: dict[str, Any] = {}
    arguments: list[dict[str, Any]] = []
    group = bool(vars(command).get("commands"))
    for item in command.params:
        value = {
            "type": "flag" if vars(item).get("is_flag") else _type_name(item.type.name),
            "description": vars(item).get("help") or "",
            "default": item.default if isinstance(item.default, str | int | float) else None,
            "choices": [str(choice) for choice in vars(item.type).get("choices") or ()],
            "required": item.required,
            "count": str(item.nargs) if item.nargs > 1 else None,
            "repeats": bool(vars(item).get("multiple")),
            "env": item.envvar if isinstance(item.envvar, str) else None,
        }
        if item.param_type_name == "argument":
            several = "*" if item.nargs == -1 else None
            arguments.append({**value, "name": item.name, "count": value["count"] or several})
        elif item.name != "help" and "completion" not in str(item.name):
            value["flags"] = sorted(item.opts, key=_long_first)
            value["negated"] = list(item.secondary_opts)
            options[_name(item.opts)] = value
    epilog = vars(command).get("epilog") or ""
    return _document(command.help, options, arguments, epilog, strict=not group)


def _document(
    description: str | None,
    options: dict[str, Any],
    arguments: list[dict[str, Any]],
    epilog: str,
    *,
    strict: bool,
) -> dict[str, Any]:
    return {
        "description": (description or "").strip(),
        "strict": strict,
        "options": options,
        "args": arguments if strict else [],
        "epilog": epilog.strip("\n"),
    }


def _name(words: Sequence[str]) -> str:
    return min(words, key=_long_first).lstrip("-")


def _long_first(word: str) -> tuple[bool, bool, int]:
    return (not word.startswith("--"), word.startswith("--no-"), -len(word))


def _type_name(kind: Any) -> str:
    if kind in (int, "integer", "integer range"):
        return "integer"
    return "number" if kind in (float, "float", "float range") else "text"


def _print(document: dict[str, Any]) -> NoReturn:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()
    sys.exit(0)


def _stop_at_the_parser() -> None:
    """Make every parser print its options instead of reading the command line."""

    def answer(self: Any, *_: Any, **__: Any) -> NoReturn:
        _print(describe(self, sys.argv[1:]))

    for name in ("parse_args", "parse_known_args"):
        setattr(argparse.ArgumentParser, name, answer)
    for name in ("typer", "click"):
        try:
            library = __import__(name)
        except ImportError:
            continue
        kinds = ("Typer",) if name == "typer" else ("Command",)
        for kind in kinds:
            setattr(vars(library)[kind], "__call__" if name == "typer" else "main", answer)


def _main(words: list[str]) -> int:
    # The program must not see this file's folder, which holds modules of fdl.
    sys.path.pop(0)
    _stop_at_the_parser()
    if words[0] == "-m":
        sys.path.insert(0, "")
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, words[0].rpartition("/")[0])
        sys.argv = words
        runpy.run_path(words[0], run_name="__main__")
    sys.stderr.write("the program ended without reading its arguments\n")
    return NO_PARSER


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
