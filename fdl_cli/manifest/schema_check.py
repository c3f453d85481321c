"""Check of an entry's arguments against its schema, before the entry starts.

On the path of `fdl <task>`.
"""

from typing import NamedTuple, final

from fdl_cli.manifest.model import Trouble
from fdl_cli.manifest.schema import Option, Schema


@final
class Given(NamedTuple):
    """The contents of a command line: the names of its options, and its positional arguments."""

    names: frozenset[str]
    positional: tuple[str, ...]


def check_words(schema: Schema, words: tuple[str, ...], command: str) -> Given:
    """Read the words as the entry will read them.

    Raises:
        Trouble: an option is unknown, or a value is missing or of the wrong kind.
    """
    names: set[str] = set()
    positional: list[str] = []
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if not _is_option(word):
            positional.append(word)
            continue
        spelling, equals, value = word.partition("=")
        option = schema.find(spelling if word.startswith("--") else word)
        if option is None and not word.startswith("--"):
            option, position = _short(schema, word, words, position, command, names)
        elif option is not None:
            names.add(option.name)
            if equals and word.startswith("--"):
                _check_attached(option, spelling, value, command)
            elif option.type != "flag":
                position = _take(option, spelling, words, position, command)
        if option is None and schema.strict:
            raise _unknown(schema, spelling, command)
    _check_positional(schema, positional, command)
    return Given(frozenset(names), tuple(positional))


def check_value(option: Option, spelling: str, value: str, command: str) -> None:
    """Refuse a value that the option cannot take.

    Raises:
        Trouble: with what it takes.
    """
    if option.choices and value not in option.choices:
        import difflib

        near = difflib.get_close_matches(value, option.choices, n=1)
        known = ", ".join(option.choices)
        hint = f"did you mean `{near[0]}`? It takes: {known}" if near else f"one of: {known}"
        raise Trouble("option", f"`{spelling}` of `{command}` cannot be `{value}`", hint)
    if not option.choices and not _fits(option, value):
        kind = {"integer": "a whole number", "number": "a number"}.get(option.type, "text")
        message = f"`{spelling}` of `{command}` takes {kind}, not `{value}`"
        raise Trouble("option", message, f"see `{command} --help`")


def require_complete(schema: Schema, names: frozenset[str], given: Given, command: str) -> None:
    """Refuse a command line that lacks something required.

    Raises:
        Trouble: with what is missing.
    """
    if not schema.strict:
        return
    for option in schema.options:
        if option.required and option.name not in names:
            spelling = option.spellings[0]
            hint = f"write `{command} {spelling} VALUE`"
            raise Trouble("option", f"`{command}` needs `{spelling}`", hint)
    needed = [option for option in schema.arguments if option.required]
    if len(given.positional) < len(needed):
        missing = needed[len(given.positional)].name.upper()
        raise Trouble("option", f"`{command}` needs {missing}", f"see `{command} --help`")


def _is_option(word: str) -> bool:
    if len(word) < 2 or not word.startswith("-"):
        return False
    # A negative number is a value, as argparse has it.
    return not _is_number(word)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _fits(option: Option, value: str) -> bool:
    if option.type == "integer":
        return value.lstrip("+-").replace("_", "").isdecimal()
    return option.type != "number" or _is_number(value)


def _check_attached(option: Option, spelling: str, value: str, command: str) -> None:
    if option.type == "flag":
        message = f"`{spelling}` of `{command}` takes no value"
        raise Trouble("option", message, f"write `{spelling}` alone")
    check_value(option, spelling, value, command)


def _short(
    schema: Schema,
    word: str,
    words: tuple[str, ...],
    position: int,
    command: str,
    names: set[str],
) -> tuple[Option | None, int]:
    """Read `-e5`, and `-xyz` for flags written together."""
    option: Option | None = None
    for place, letter in enumerate(word[1:], 1):
        option = schema.find(f"-{letter}")
        if option is None:
            return None, position
        names.add(option.name)
        if option.type != "flag":
            rest = word[place + 1 :]
            if rest:
                check_value(option, f"-{letter}", rest.removeprefix("="), command)
                return option, position
            return option, _take(option, f"-{letter}", words, position, command)
    return option, position


def _take(
    option: Option, spelling: str, words: tuple[str, ...], position: int, command: str
) -> int:
    """Check the values that follow an option; return the position after them."""
    least, most = _bounds(option)
    taken = 0
    while position < len(words) and taken < most and not _is_option(words[position]):
        check_value(option, spelling, words[position], command)
        position += 1
        taken += 1
    if taken < least:
        message = f"`{spelling}` of `{command}` needs a value"
        raise Trouble("option", message, f"write `{spelling} VALUE`")
    return position


def _bounds(option: Option) -> tuple[int, int]:
    endless = 1 << 30
    match option.values:
        case None:
            return 1, 1
        case "?":
            return 0, 1
        case "*":
            return 0, endless
        case "+":
            return 1, endless
        case count:
            return (int(count), int(count)) if count.isdecimal() else (0, endless)


def _check_positional(schema: Schema, words: list[str], command: str) -> None:
    if not schema.strict:
        return
    for number, word in enumerate(words):
        if number >= len(schema.arguments):
            if schema.arguments and schema.arguments[-1].values not in (None, "?"):
                check_value(schema.arguments[-1], schema.arguments[-1].name, word, command)
                continue
            message = f"`{command}` has no place for the argument `{word}`"
            raise Trouble("option", message, f"see `{command} --help`")
        argument = schema.arguments[number]
        check_value(argument, argument.name.upper(), word, command)


def _unknown(schema: Schema, word: str, command: str) -> Trouble:
    import difflib

    known = [name for option in schema.options for name in option.spellings]
    near = difflib.get_close_matches(word, known, n=1)
    listed = ", ".join(option.spellings[0] for option in schema.options) or "none"
    hint = f"did you mean `{near[0]}`?" if near else f"its options: {listed}"
    return Trouble("option", f"`{command}` has no option `{word}`", hint)
