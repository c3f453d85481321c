"""Settings that a project keeps in files: JSON, TOML, and YAML where it can be read.

Example: the constructor `Generator(h)` reads `h.width` and `h.rates`.

    config_v1.json     {"seed": 1, "width": 512, "rates": [8, 8]}      knows both names
    config_v2.json     {"seed": 1, "width": 128, "rates": [8, 8]}      the same, and lighter: the first choice
    data/labels.json   {"cat": 3, "dog": 7}                            knows none of them

A mapping inside of another one counts too, as in `{"model": {"width": 512, "rates": [8, 8]}}`.
"""

from __future__ import annotations

import functools
import importlib
import json
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, final

from flodl_verify.sources.project_files import project_files
from flodl_verify.sources.shown_commands import weight_of

_MOST_FILES: Final = 300
_MOST_BYTES: Final = 1 << 16  # files with data are larger
_MOST_ITEMS: Final = 20  # of a list
_DEPTH: Final = 5
_CHOICES: Final = 2
_LEAST: Final = 2  # arguments that a mapping must know to be meant for a class


@final
class Settings(dict[str, Any]):
    """Values by key and by attribute, as both kinds of settings are read."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


def written_settings(
    file: Path, folders: tuple[Path, ...], wanted: frozenset[str]
) -> tuple[Settings, ...]:
    """Return mappings of the project that know most of the names, and at least half of them.

    Of those that know equally many, the lightest one comes first.
    """
    found = [
        (len(wanted & each.keys()), each)
        for each in _mappings(file.parent, folders)
        if wanted & each.keys() and 2 * len(wanted & each.keys()) >= len(wanted)
    ]
    most = max((count for count, _ in found), default=0)
    best = [each for count, each in found if count == most]
    return tuple(sorted(best, key=lambda each: weight_of(each, wanted))[:_CHOICES])


def written_arguments(
    file: Path, folders: tuple[Path, ...], required: frozenset[str], known: frozenset[str]
) -> tuple[dict[str, Any], ...]:
    """Return arguments of mappings that have a value for each required parameter, if those are several.

    Args:
        file: the file of the class.
        folders: those of the project.
        required: parameters without a default.
        known: all parameters.
    """
    if len(required) < _LEAST:
        return ()
    found = [each for each in _mappings(file.parent, folders) if required <= each.keys()]
    found.sort(key=lambda each: weight_of(each, known))
    return tuple({name: each[name] for name in known & each.keys()} for each in found[:_CHOICES])


@functools.lru_cache(maxsize=8)
def _mappings(folder: Path, folders: tuple[Path, ...]) -> tuple[Settings, ...]:
    """Return all mappings in the files of a project, those near a folder first."""
    found: list[Settings] = []
    files = project_files(folder / "any", folders, tuple(_readers()))
    for count, path in enumerate(files):
        if count == _MOST_FILES:
            break
        found += _inside(_read(path), _DEPTH)
    return tuple(found)


def _readers() -> dict[str, Callable[[str], object]]:
    """Return what reads each kind of file; YAML where the user's Python has a reader for it."""
    found: dict[str, Callable[[str], object]] = {".json": json.loads, ".toml": tomllib.loads}
    try:
        yaml: Any = importlib.import_module("yaml")
    except ImportError:
        return found
    return found | {".yaml": yaml.safe_load, ".yml": yaml.safe_load}


def _read(path: Path) -> object:
    try:
        if path.stat().st_size > _MOST_BYTES:
            return None
        return _readers()[path.suffix](path.read_text(encoding="utf-8"))
    except Exception:  # a reader of YAML has errors of its own kind
        return None


def _inside(value: object, depth: int) -> Iterator[Settings]:
    """Yield the mappings in a value, outer ones first."""
    if depth == 0:
        return
    if isinstance(value, dict):
        yield _opened(value, depth)
        for each in value.values():
            yield from _inside(each, depth - 1)
    elif isinstance(value, list):
        for each in value[:_MOST_ITEMS]:
            yield from _inside(each, depth - 1)


def _opened(value: Mapping[object, object], depth: int) -> Settings:
    # A mapping of YAML may be inside itself.
    return Settings(
        {
            str(name): _opened(each, depth - 1) if isinstance(each, dict) and depth else each
            for name, each in value.items()
        }
    )
