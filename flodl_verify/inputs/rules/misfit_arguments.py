"""Replacements of constructor arguments of a wrong kind, by the line that failed."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator, Mapping

from torch import nn

from flodl_verify.inputs.rules.named_modules import items_of
from flodl_verify.sources.class_sources import class_node
from flodl_verify.sources.written_settings import Settings

Make = Callable[[type], object]
Guess = Callable[[str], object]

# The most common text for a kind of padding, and a network that most collections know.
_TEXT = "same"
_NETWORK = "resnet18"
_UNKNOWN_TEXT = re.compile(rf"['\"(]{_TEXT}['\")]|: {_TEXT}$")
_LENGTH = 4
_WORDS = 30
_NO_LENGTH = re.compile(r"object of type '\w+' has no len\(\)")
_NO_ITEMS = re.compile(r"'\w+' object is not subscriptable")
_NO_ITERATION = re.compile(
    r"non-iterable \w+ object|'\w+' object is not iterable|must be an iterable"
)
_NO_CALL = re.compile(r"'(\w+)' object is not callable")
_NO_ATTRIBUTE = re.compile(r"'(\w+)' object has no attribute '(\w+)'")
_NO_MULTIPLE = re.compile(
    r"\(?\b(\d+)\)? (?:must be|is not|should be) (?:evenly )?divisible by (?:[a-z_]+ )?\(?(\d+)\b"
)
_NO_MODULE = re.compile(r"(\w+) is not a Module subclass")
_MUST_BE = re.compile(
    r"[`'\"]?(\w+)[`'\"]? (?:must|should) be (?:an? )?(?:tuple|list)", re.IGNORECASE
)
_NAME = r"(?:self\.)?(?P<name>\w+)"
_TEXTS = re.compile(r"vocab|word|token|class|name|label|char")
_OF_DICTS = frozenset({"keys", "items", "values", "get", "pop", "update"})
_OF_LISTS = frozenset({"append", "index", "copy", "extend", "insert"})
_OF_TEXTS = frozenset({"lower", "upper", "split", "startswith", "endswith", "replace", "format"})


def fitting(
    made: type, given: Mapping[str, object], refusal: str, line: str, make: Make, guess: Guess
) -> dict[str, object]:
    """Return other values for given arguments that a line of code uses as what they are not.

    `make` constructs a class of the program, `guess` gives a value for the name of a setting. Attributes go
    by the names of the arguments that they keep.
    """
    said = _said_outright(given, refusal)
    if said:
        return said
    for kind, pattern, exchange in (
        (_NO_LENGTH, rf"len\({_NAME}\)(?:\s*==\s*(?P<count>\d+))?", _several),
        (_NO_ITEMS, rf"{_NAME}\[(?:['\"](?P<key>\w+))?", _several),
        (_NO_ITERATION, rf"(?:\bin\s+|=\s*|\*|\(){_NAME}\b(?!\.)", _several),
        (_NO_CALL, rf"{_NAME}\(", _callable),
    ):
        if not kind.search(refusal):
            continue
        for found in re.finditer(pattern, line):
            name, value = found["name"], given.get(found["name"])
            if name in given and not isinstance(value, (list, tuple, dict, nn.Module, type)):
                return {name: exchange(made, found, value, line, guess)}
    if _NO_MODULE.search(refusal):
        return _modules(made, given, line, make)
    missing = _NO_ATTRIBUTE.search(refusal)
    if missing is None:
        return {}
    owner, attribute = missing.groups()
    for found in re.finditer(rf"{_NAME}\.{attribute}\b", line):
        name = found["name"]
        if name in given and type(given[name]).__name__ == owner:
            return {name: _with_attribute(made, name, attribute, given[name], make, guess)}
    return {}


def _said_outright(given: Mapping[str, object], refusal: str) -> dict[str, object]:
    """Return the arguments that a refusal names, without a look at the line: a pair of numbers, a multiple.

    A text that it does not know is exchanged for the name of a network.
    """
    unknown: dict[str, object] = {
        name: _NETWORK for name, value in given.items() if value == _TEXT
    }
    if unknown and _UNKNOWN_TEXT.search(refusal):
        return unknown
    pair = _MUST_BE.search(refusal)
    if pair is not None and type(given.get(pair[1])) is int:
        return {pair[1]: (given[pair[1]],) * 2}
    parts = _NO_MULTIPLE.search(refusal)
    size, divisor = (int(parts[1]), int(parts[2])) if parts is not None else (0, 0)
    if divisor < 1 or size % divisor == 0:
        return {}
    # All arguments of this size: they go together.
    wanted = -(-size // divisor) * divisor
    return {name: wanted for name, value in given.items() if type(value) is int and value == size}


def _modules(made: type, given: Mapping[str, object], line: str, make: Make) -> dict[str, object]:
    """Return two modules for the list of modules that a line makes of an argument."""
    for name, value in given.items():
        if not re.search(rf"\b{re.escape(name)}\b", line) or isinstance(value, nn.Module):
            continue
        for kind in items_of(made, name):
            held = [one for one in (make(kind), make(kind)) if isinstance(one, nn.Module)]
            if held:
                return {name: held}
    return {}


def _several(made: type, found: re.Match[str], value: object, line: str, guess: Guess) -> object:
    """Return as many values as the line wants, or settings where it reads by a text."""
    groups = found.groupdict()
    if groups.get("key"):
        return _settings(_keys_read(made, found["name"]) | {groups["key"]}, guess)
    if _TEXTS.search(found["name"].lower()):
        return [f"word{number}" for number in range(_WORDS)]
    return (value,) * (int(groups["count"]) if groups.get("count") else _unpacked(line))


def _unpacked(line: str) -> int:
    targets = line.partition("=")[0].strip().strip("()")
    several = re.fullmatch(r"[\w.]+(\s*,\s*[\w.]+)+", targets)
    return targets.count(",") + 1 if several else _LENGTH


def _settings(names: set[str], guess: Guess) -> Settings:
    return Settings({name: _setting(name, guess) for name in sorted(names)})


def _setting(name: str, guess: Guess) -> object:
    # In a table that a program makes, an activation is mostly a class, and `layers` says how many.
    if "act" in name:
        return nn.ReLU
    value = guess(name)
    return 1 if isinstance(value, tuple) else value


def _callable(made: type, found: re.Match[str], value: object, line: str, guess: Guess) -> object:
    """Return a layer for what is called on values, a class of layers for what makes one."""
    del made, value, guess
    # `self.act = act(dim)` makes a layer; `x = self.act(x)` is one.
    makes = re.match(rf"self\.\w+\s*=\s*{found['name']}\(", line.strip())
    return nn.Identity if makes else nn.Identity()


def _with_attribute(
    made: type, name: str, attribute: str, value: object, make: Make, guess: Guess
) -> object:
    if attribute in _OF_DICTS:
        return {"first": value, "second": value}
    if attribute in _OF_LISTS:
        return [value] * _LENGTH
    if attribute in _OF_TEXTS:
        return _TEXT
    if attribute == "reduction":  # a loss around a loss
        return nn.MSELoss()
    for kind in _with_field(made, attribute):
        held = make(kind)
        if isinstance(held, nn.Module):
            return held
    if isinstance(value, int) and attribute in dir(nn.Linear(1, 1)):
        return nn.Linear(value, value)
    return _settings({attribute, *_attributes_of(made, name)}, guess)


def _with_field(made: type, attribute: str) -> Iterator[type]:
    """Yield the modules beside a class that keep something under a name, the simplest first."""
    beside = vars(sys.modules.get(made.__module__, sys)).values()
    kinds = [
        kind
        for kind in beside
        if isinstance(kind, type) and issubclass(kind, nn.Module) and not issubclass(made, kind)
    ]
    nodes = [(kind, node) for kind in kinds if (node := class_node(kind)) is not None]
    found = [pair for pair in nodes if _keeps(pair[1], attribute)]
    yield from (kind for kind, node in sorted(found, key=lambda pair: len(ast.dump(pair[1]))))


def _keeps(tree: ast.AST, attribute: str) -> bool:
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                if name == attribute:
                    return True
            case ast.Call(func=ast.Attribute(attr=method), args=[ast.Constant(value=name), *_]):
                if name == attribute and method.startswith("register_"):
                    return True
            case _:
                pass
    return False


def _keys_read(made: type, owner: str) -> set[str]:
    """Return the texts by which a class reads from what it calls `owner`."""
    node = class_node(made)
    return {
        item.slice.value
        for item in (ast.walk(node) if node is not None else ())
        if isinstance(item, ast.Subscript)
        and isinstance(item.slice, ast.Constant)
        and isinstance(item.slice.value, str)
        and ast.unparse(item.value) in {owner, f"self.{owner}"}
    }


def _attributes_of(made: type, owner: str) -> set[str]:
    node = class_node(made)
    return {
        item.attr
        for item in (ast.walk(node) if node is not None else ())
        if isinstance(item, ast.Attribute) and ast.unparse(item.value) in {owner, f"self.{owner}"}
    }
