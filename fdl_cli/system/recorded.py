"""Facts of another machine from a file: `fdl diagnose --json` or a recorded scenario."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, final, get_args, get_origin, get_type_hints

from fdl_cli.errors import UsageError
from fdl_cli.system.facts import SystemFacts
from fdl_cli.system.scenario import facts_of_scenario, is_scenario


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedMachine:
    """Facts from a file, with the wishes and the index contents that a scenario may carry.

    Attributes:
        facts: the machine.
        requested: the wishes, by option.
        index: the versions that an index holds, by variant; None where the file names none.
        index_unreachable: whether the file says that no index can be read there.
    """

    facts: SystemFacts
    requested: Mapping[str, str]
    index: Mapping[str, tuple[str, ...]] | None
    index_unreachable: bool = False


def read_machine(path: Path) -> RecordedMachine:
    """Read a file of facts.

    Raises:
        UsageError: the file cannot be read, or is neither of the two forms.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise _unreadable(path, problem.strerror or str(problem)) from problem
    except ValueError as problem:
        raise _unreadable(path, f"it is not JSON: {problem}") from problem
    if not isinstance(document, dict):
        raise _unreadable(path, "it holds no JSON object")
    return machine_of(document, path)


def machine_of(document: Mapping[str, Any], path: Path) -> RecordedMachine:
    """Turn a JSON object in either form into facts."""
    try:
        unreachable = _is_unreachable(document.get("index"))
        if is_scenario(document):
            held = document.get("index_available")
            requested = document.get("requested") or {}
            return RecordedMachine(
                facts=facts_of_scenario(document),
                requested={str(key): _wish(value) for key, value in requested.items()},
                index=None if held is None else {key: tuple(held[key]) for key in held},
                index_unreachable=unreachable,
            )
        facts = document["data"]["facts"] if "data" in document else document["facts"]
        return RecordedMachine(
            facts=decode(SystemFacts, facts),
            requested={},
            index=None,
            index_unreachable=unreachable,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise _unreadable(path, f"{type(problem).__name__}: {problem}") from problem


def _is_unreachable(index: object) -> bool:
    if index not in (None, "reachable", "unreachable"):
        raise ValueError(f"`index` is {index!r}; it may be `reachable` or `unreachable`")
    return index == "unreachable"


def decode(kind: Any, value: Any) -> Any:
    """Build a frozen value from its JSON form, checking every part against the annotation."""
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        if value is None and NoneType in get_args(kind):
            return None
        return decode(next(part for part in get_args(kind) if part is not NoneType), value)
    if origin is Literal:
        if value not in get_args(kind):
            raise ValueError(f"{value!r} is none of {get_args(kind)}")
        return value
    if origin is tuple:
        return _decode_tuple(get_args(kind), value)
    if is_dataclass(kind) and isinstance(kind, type):
        return _decode_dataclass(kind, value)
    return _decode_plain(kind, value)


def _decode_dataclass(kind: type, value: Mapping[str, Any]) -> Any:
    hints = get_type_hints(kind)
    known = {item.name for item in fields(kind)}
    return kind(**{key: decode(hints[key], value[key]) for key in value if key in known})


def _decode_plain(kind: type, value: Any) -> Any:
    if kind is float and isinstance(value, int):
        return float(value)
    if not isinstance(value, kind):
        raise TypeError(f"expected {kind.__name__}, found {value!r}")
    return value


def _decode_tuple(parts: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise TypeError(f"expected a list, found {value!r}")
    if len(parts) == 2 and parts[1] is Ellipsis:
        return tuple(decode(parts[0], item) for item in value)
    return tuple(decode(part, item) for part, item in zip(parts, value, strict=True))


def _wish(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(str(item) for item in value)
    return str(value)


def _unreadable(path: Path, reason: str) -> UsageError:
    return UsageError(
        error_id="facts-unreadable",
        message=f"cannot read facts from `{path}`: {reason}",
        hint="make the file with `fdl diagnose --json > facts.json` on the other machine",
        file=str(path),
    )
