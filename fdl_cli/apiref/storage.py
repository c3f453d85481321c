"""Storage of the reference's index: loaded where it is still true, else rebuilt."""

import contextlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fdl_cli import __version__
from fdl_cli.apiref.extract import build_index
from fdl_cli.apiref.lookup import names_that_mean
from fdl_cli.apiref.model import ApiIndex, Described, Doc, Entry
from fdl_cli.apiref.quick import SOURCE_ROOT, cache_path, read_stored, source_state
from fdl_cli.apiref.render import LOOKUP_CHARS, entry_text
from fdl_cli.apiref.source_tree import read_package
from fdl_cli.errors import ConfigError
from fdl_cli.result import to_json
from fdl_cli.system.atomic import write_whole

DATA = Path(__file__).parent / "data"


def load_index(cache: Path) -> ApiIndex:
    """Return the reference of this version, from the wheel, the cache or the source.

    A cache folder that cannot be written costs time at every call, and nothing else.
    """
    stored = read_stored(str(cache))
    if stored is not None:
        return index_from(stored)
    state = source_state()
    index = build_here()
    with contextlib.suppress(OSError):
        write_whole(Path(cache_path(str(cache))), stored_form(index, state).encode())
    return index


def build_here() -> ApiIndex:
    """Read the runtime that lies beside this tool."""
    index = build_index(read_package(Path(SOURCE_ROOT)), __version__, since_table())
    return with_examples(index, stored_examples())


def since_table() -> dict[str, str]:
    """Return in which earlier version each name appeared."""
    table = json.loads((DATA / "since.json").read_text(encoding="utf-8"))
    return {name: version for version, names in table.items() for name in names}


def stored_examples() -> dict[str, str]:
    """Return the examples that are kept beside the source: for names whose docstring has none."""
    examples: dict[str, str] = json.loads((DATA / "examples.json").read_text(encoding="utf-8"))
    return examples


def with_examples(index: ApiIndex, examples: Mapping[str, str]) -> ApiIndex:
    """Return the index with these examples for the entries that have none."""
    entries = tuple(
        replace(entry, doc=replace(entry.doc, examples=(examples[entry.name],)))
        if entry.name in examples and not entry.doc.examples
        else entry
        for entry in index.entries
    )
    return ApiIndex(version=index.version, entries=entries)


def stored_form(index: ApiIndex, state: str) -> str:
    """Return the text of an index file: the entries, and the ready text of every look-up."""
    texts = {
        word: entry_text(index, entry, LOOKUP_CHARS)
        for word, entry in names_that_mean(index).items()
    }
    document = {"state": state, "texts": texts, "index": to_json(index)}
    return json.dumps(document, separators=(",", ":"))


def read_index_file(path: Path) -> ApiIndex:
    """Read the reference of another version: a file of `fdl api-ref --json`, a wheel, a folder.

    Raises:
        ConfigError: the file is not such a document.
        NotFoundError: the folder or wheel holds no flodl.
    """
    if path.is_dir() or path.suffix == ".whl":
        return build_index(read_package(path), "unknown", {})
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return index_from({"index": document["data"]})
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise ConfigError(
            error_id="api-file-unreadable",
            message=f"cannot read a reference from it: {problem}",
            hint="make one with the older version: `fdl api-ref --json > old.json`",
            file=str(path),
        ) from problem


def index_from(stored: Mapping[str, Any]) -> ApiIndex:
    """Turn a stored document into values."""
    index = stored["index"]
    return ApiIndex(
        version=index["version"], entries=tuple(_entry(item) for item in index["entries"])
    )


def _entry(item: dict[str, Any]) -> Entry:
    doc = dict(item["doc"])
    for key in ("parameters", "raises"):
        doc[key] = tuple(Described(**part) for part in doc[key])
    doc["examples"] = tuple(doc["examples"])
    return Entry(**{**item, "doc": Doc(**doc)})
