"""Search in the reference: by any form of a name, by words, and by similarity."""

import difflib
from dataclasses import dataclass
from typing import final

from fdl_cli.apiref.model import ApiIndex, Entry
from fdl_cli.errors import NotFoundError


def names_that_mean(index: ApiIndex) -> dict[str, Entry]:
    """Return every spelling that means one entry: full, without the package, and bare.

    A bare member name counts only where one class has it; public names win over members.
    """
    table: dict[str, Entry] = {}
    for entry in index.entries:
        table[entry.name] = entry
        table.setdefault(entry.short_name, entry)
    tails: dict[str, list[Entry]] = {}
    for entry in index.entries:
        tails.setdefault(entry.name.rpartition(".")[2], []).append(entry)
    for tail, entries in tails.items():
        if len(entries) == 1:
            table.setdefault(tail, entries[0])
    return table


def find_entry(index: ApiIndex, name: str) -> Entry:
    """Return the entry that a name means; case counts only where it must.

    Raises:
        NotFoundError: nothing has this name, or several members have it.
    """
    table = names_that_mean(index)
    if name in table:
        return table[name]
    lowered = {key.lower(): entry for key, entry in table.items()}
    if name.lower() in lowered:
        return lowered[name.lower()]
    tail = [e for e in index.entries if e.name.rpartition(".")[2].lower() == name.lower()]
    if tail:
        choices = ", ".join(f"`{entry.short_name}`" for entry in tail[:8])
        raise NotFoundError(
            error_id="api-name-ambiguous",
            message=f"`{name}` is a member of several classes: {choices}",
            hint=f"try `fdl api-ref {tail[0].short_name}`",
        )
    raise _unknown(name, list(table))


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """One result of a search, with how well it fits."""

    entry: Entry
    score: int


def search(index: ApiIndex, words: str) -> tuple[Match, ...]:
    """Return the entries that hold all the words, the best first."""
    wanted = words.lower().split()
    found = [Match(entry=entry, score=_score(entry, wanted)) for entry in index.entries]
    hits = [match for match in found if match.score > 0]
    return tuple(sorted(hits, key=lambda match: (-match.score, len(match.entry.name))))


def _score(entry: Entry, words: list[str]) -> int:
    total = 0
    name = entry.short_name.lower()
    tail = name.rpartition(".")[2]
    summary = entry.doc.summary.lower()
    rest = " ".join(
        (entry.doc.body, entry.signature, entry.category, entry.doc.returns, *entry.doc.examples)
    ).lower()
    for word in words:
        if word == tail:
            total += 100
        elif word in name:
            total += 40
        elif word in summary:
            total += 15
        elif word in rest:
            total += 4
        else:
            return 0
    return total


def _unknown(name: str, known: list[str]) -> NotFoundError:
    if name.startswith(("torch.", "nn.", "F.", "torch")):
        return NotFoundError(
            error_id="api-name-unknown",
            message=f"flodl has no `{name}`; that is a name of PyTorch",
            hint=f"see what becomes of it: `fdl api-ref --torch {name}`",
        )
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.55)
    return NotFoundError(
        error_id="api-name-unknown",
        message=f"flodl has no public name `{name}`",
        hint=f"did you mean `fdl api-ref {near[0]}`?"
        if near
        else f"try `fdl api-ref --search {name}`",
    )
