"""Map from PyTorch names to flow graphs: most names stay, some have a flow word."""

import difflib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from fdl_cli.errors import NotFoundError

DATA = Path(__file__).parent / "data" / "torch_map.json"
_PREFIXES = ("torch.nn.functional.", "torch.nn.", "torch.optim.", "torch.")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TorchEntry:
    """One PyTorch name: how it is written with flodl, why, and an example that a test runs."""

    torch: str
    flodl: str
    note: str
    example: str


def torch_entry(name: str) -> TorchEntry:
    """Return the flow form of a PyTorch name, in any of the usual spellings.

    Raises:
        NotFoundError: the map does not know it.
    """
    table = {key.lower(): entry for key, entry in _table()}
    for spelling in _spellings(name):
        entry = table.get(spelling.lower())
        if entry is not None:
            return entry
    near = difflib.get_close_matches(_spellings(name)[0].lower(), list(table), n=1, cutoff=0.5)
    raise NotFoundError(
        error_id="torch-name-unknown",
        message=f"the PyTorch map has no `{name}`",
        hint=f"did you mean `fdl api-ref --torch {table[near[0]].torch}`?"
        if near
        else "operations on tensors work on flows as they are written",
    )


def torch_entries() -> tuple[TorchEntry, ...]:
    """Return the whole map, each thing once."""
    return tuple(dict.fromkeys(entry for _, entry in _table()))


def entry_lines(entry: TorchEntry) -> str:
    """Return one entry as text."""
    parts = [f"{entry.torch}  ->  {entry.flodl}", f"  {entry.note}"]
    if entry.example:
        example = "\n".join(f"  {line}".rstrip() for line in entry.example.splitlines())
        parts.append(f"Example (run by the tests of flodl):\n{example}")
    return "\n\n".join(parts)


def _spellings(name: str) -> list[str]:
    name = name.strip()
    if name.startswith("F."):
        name = f"nn.functional.{name[2:]}"
    bare = name.removeprefix("torch.")
    tail = bare.rpartition(".")[2]
    full = [bare, name]
    if "." not in bare:
        # A bare word: a layer, a function of torch, a functional one, then a tensor method.
        full += [f"nn.{bare}", f"nn.functional.{bare}", f"optim.{bare}"]
        full += [f"optim.lr_scheduler.{bare}", f"Tensor.{bare}"]
    return [*full, f"torch.{tail}"] if bare == tail else full


def _table() -> Iterator[tuple[str, TorchEntry]]:
    document: dict[str, Any] = json.loads(DATA.read_text(encoding="utf-8"))
    seen: set[str] = set()
    for item in document["concepts"]:
        first = item["torch"][0]
        entry = TorchEntry(
            torch=first, flodl=item["flodl"], note=item["note"], example=item["example"]
        )
        for name in item["torch"]:
            seen.add(name.removeprefix("torch."))
            yield name.removeprefix("torch."), entry
    for group in document["groups"]:
        for tail in group["names"]:
            name = f"{group['prefix']}{tail}"
            if name not in seen:
                yield name, _grouped(name, tail, group)


def _grouped(name: str, tail: str, group: dict[str, Any]) -> TorchEntry:
    return TorchEntry(
        torch=name if name.startswith("Tensor.") else f"torch.{name}",
        flodl=group["flodl"].replace("{tail}", tail),
        note=group["note"].replace("{tail}", tail),
        example="",
    )
