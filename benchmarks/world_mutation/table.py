"""The table of `benchmarks/world.py`, and its sums."""

from __future__ import annotations

from collections import Counter
from typing import Any

from benchmarks.world_mutation.trial import (
    BOTH,
    EQUAL,
    NO_CASE,
    NOT_APPLIED,
    NOT_RUN,
    RAISES,
    SILENT,
    STATUSES,
)

Result = dict[str, Any]
_TITLES = ("equal", "silent", "raises", "both raise", "not applied")
_KEPT = ("family", "module", "model", "commit", "seconds", "error")
_ROW = "{:34} {:>7} {:>7} {:>7} {:>7} {:>10} {:>11} {:>7}"


def counts(result: Result) -> Counter[str]:
    """Return how often each status was found."""
    return Counter(each["status"] for each in result.get("changes", {}).values())


def line(result: Result) -> str:
    """Return the row of one family."""
    if "error" in result:
        return f"{result['family']:34} {result['error']}"
    found = counts(result)
    total = sum(found[each] for each in STATUSES)
    return _ROW.format(
        result["family"], total, *(found[each] for each in STATUSES), f"{result['seconds']:.0f} s"
    )


def text(results: list[Result], *, details: bool) -> str:
    """Return the table for people."""
    lines = [_ROW.format("family", "changes", *_TITLES, "time")]
    lines += [line(each) for each in results]
    sums = summary(results)["total"]
    lines.append(
        _ROW.format("all", sum(sums[s] for s in STATUSES), *(sums[s] for s in STATUSES), "")
    )
    for status in (NO_CASE, NOT_RUN):
        if sums.get(status):
            lines.append(f"{status}: {sums[status]}")
    if details:
        for result in results:
            for name, each in result.get("changes", {}).items():
                if each["status"] in (SILENT, RAISES, NOT_APPLIED):
                    lines.append(f"{result['family']}: {each['status']}: {name}: {each['detail']}")
    return "\n".join(lines)


def summary(results: list[Result]) -> dict[str, Any]:
    """Return the sums over all families, and the share of classes that are graphs."""
    total: Counter[str] = Counter(dict.fromkeys(STATUSES, 0))
    classes: Counter[str] = Counter()
    for result in results:
        total += counts(result)
        classes.update(result.get("classes", {}).values())
    for status in STATUSES:
        total[status] += 0
    return {
        "total": {status: total[status] for status in (*STATUSES, NO_CASE, NOT_RUN)},
        "classes": dict(classes),
        "failed": {r["family"]: r["error"] for r in results if "error" in r},
    }


def compact(result: Result) -> Result:
    """Return what is kept of the result of one family: sums, classes, and each change that differs."""
    kept = {key: result[key] for key in _KEPT if key in result}
    statuses = result.get("classes", {})
    named = {
        status: sorted(name for name, each in statuses.items() if each == status)
        for status in sorted(set(statuses.values()))
    }
    differing = [
        {"change": name, **each}
        for name, each in result.get("changes", {}).items()
        if each["status"] in (SILENT, RAISES, NOT_APPLIED)
    ]
    found = counts(result)
    sums = {each: found[each] for each in (*STATUSES, NO_CASE, NOT_RUN)}
    return {**kept, "classes": named, "counts": sums, "differing": differing}


def lost_graphs(results: list[Result], known: list[Result]) -> list[str]:
    """Return the classes that were graphs in a committed result and are none any more."""
    before = {each["family"]: each["classes"].get("graph", ()) for each in known}
    return [
        f"{result['family']}: {name}"
        for result in results
        if "error" not in result
        for name in before.get(result["family"], ())
        if result["classes"].get(name) != "graph"
    ]


def is_good(results: list[Result]) -> bool:
    """Return True if nothing is silently different, and little raises or cannot be done."""
    total = summary(results)["total"]
    changes = max(sum(total[each] for each in STATUSES), 1)
    return (
        not any("error" in each for each in results)
        and not total[SILENT]
        and total[RAISES] <= 0.01 * changes
        and total[NOT_APPLIED] <= 0.02 * changes
    )


__all__ = [
    "BOTH",
    "EQUAL",
    "compact",
    "counts",
    "is_good",
    "line",
    "lost_graphs",
    "summary",
    "text",
]
