"""Two runs of the same tests, test by test: what became of each, and the table.

same            both pass, with the same numbers
wrong           both end alike, but a number differs; the original repeats itself
newly failing   the original passes, the port does not
newly passing   the original does not pass, the port does
both fail, both skip
unsteady        the numbers differ, and those of two runs of the original do so too
over the limit  a side did not end in time
one side only   one side has no such test, or was stopped before it
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

Rows = dict[str, dict[str, Any]]

STATES = (
    "same", "wrong", "newly failing", "no TorchScript", "newly passing", "both fail", "both skip", "unsteady",
    "over the limit", "one side only",
)  # fmt: skip
COMPARED = frozenset({"same", "wrong", "newly failing", "no TorchScript"})
_NEVER_LEFT_OUT = frozenset({"gradients", "random"})
_NO_SOURCE = "could not get source code"
_LATE = "over the limit"


def read(file: Path) -> Rows:
    """Return the last line of each test of a run; a test that only started ended the process."""
    rows: Rows = {}
    if file.is_file():
        for line in file.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            if "started" in row:
                row = {
                    "id": row["id"], "outcome": "crashed", "seconds": 0.0, "numbers": [],
                    "message": "the process ended in this test",
                }  # fmt: skip
            rows[row["id"]] = row
    return rows


def compare(original: Rows, port: Rows, again: Rows) -> dict[str, dict[str, Any]]:
    """Return the state, the times and the difference of each test that a side has."""
    return {
        name: _compare(original.get(name), port.get(name), again.get(name))
        for name in sorted(original.keys() | port.keys())
    }


def differing(tests: dict[str, dict[str, Any]]) -> list[str]:
    """Return the tests whose numbers differ, so that the original has to repeat them."""
    return [name for name, each in tests.items() if each["state"] == "wrong"]


def _compare(
    one: dict[str, Any] | None, other: dict[str, Any] | None, again: dict[str, Any] | None
) -> dict[str, Any]:
    if one is None or other is None:
        return {"state": "one side only"}
    found = {
        "state": "", "numbers": [len(one["numbers"]), len(other["numbers"])],
        "original_s": one["seconds"], "port_s": other["seconds"],
    }  # fmt: skip
    if _LATE in {one["outcome"], other["outcome"]}:
        return {**found, "state": _LATE}
    outcomes = one["outcome"], other["outcome"]
    if one["outcome"] == "passed" and _is_unscripted(one, other):
        return {**found, "state": "no TorchScript"}
    if "passed" in outcomes and outcomes[0] != outcomes[1]:
        state, told = (
            ("newly failing", other) if outcomes[0] == "passed" else ("newly passing", one)
        )
        return {**found, "state": state, "why": told["message"] or told["outcome"]}
    difference = first_difference(one["numbers"], other["numbers"])
    if difference:
        repeated = again is None or again["numbers"] == one["numbers"]
        return {**found, "state": "wrong" if repeated else "unsteady", "why": difference}
    if one["outcome"] == "passed":
        return {**found, "state": "same"}
    state = "both skip" if outcomes == ("skipped", "skipped") else "both fail"
    return {**found, "state": state, "why": one["message"]}


def _is_unscripted(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Return True if the port stopped where TorchScript wants the source of a forward."""
    if other["outcome"] != "failed" or _NO_SOURCE not in other["message"]:
        return False
    until = other["numbers"][:-1]  # without the random state at the end
    return not first_difference(one["numbers"][: len(until)], until)


def first_difference(ones: list[str], others: list[str]) -> str:
    """Return the first number of the port that the original has not at its place, or an empty text.

    A method that became part of a flow runs its layers within one plan, so the port may show fewer
    calls. Gradients and the random state are never left out.
    """
    rest = iter(ones)
    for place, other in enumerate(others, 1):
        passed: list[str] = []
        for one in rest:
            if one == other:
                break
            passed.append(one)
            if one.partition(" ")[0] in _NEVER_LEFT_OUT:
                return f"number {place} of {len(others)}: {passed[0]} is {other}"
        else:
            before = passed[0] if passed else "nothing"
            return f"number {place} of {len(others)}: {before} is {other}"
    left = list(rest)
    return f"{len(left)} numbers are missing, first {left[0]}" if left else ""


def summary(tests: dict[str, dict[str, Any]], classes: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the counts and the times."""
    counts = Counter(each["state"] for each in tests.values())
    same = [each for each in tests.values() if each["state"] == "same"]
    one, other = (sum(each[side] for each in same) for side in ("original_s", "port_s"))
    numbers = [sum(each["numbers"][side] for each in same) for side in (0, 1)]
    states = Counter(each["status"] for each in classes)
    return {
        "tests": len(tests),
        "compared": sum(counts[state] for state in COMPARED),
        **{state: counts[state] for state in STATES},
        "numbers": numbers,
        "graphs": states["graph"],
        "classes": states.total(),
        "original_s": round(one, 1),
        "port_s": round(other, 1),
        "ratio": round(other / one, 3) if one else None,
    }


def is_good(found: dict[str, Any]) -> bool:
    """Return True if tests were compared, and none is wrong or newly failing."""
    return bool(found["compared"]) and not found["wrong"] and not found["newly failing"]


def text(found: dict[str, Any], tests: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yield the lines to print."""
    for state in ("wrong", "newly failing", "newly passing", "unsteady"):
        for name, each in tests.items():
            if each["state"] == state:
                yield f"{state}: {name}: {each['why']}"
    yield f"tests: {found['tests']}, compared {found['compared']}"
    yield "  ".join(f"{state}: {found[state]}" for state in STATES if found[state])
    yield f"numbers of the tests that are the same: {found['numbers'][1]} of {found['numbers'][0]}"
    yield f"classes: {found['graphs']} graphs of {found['classes']}"
    yield (
        f"processor time of the tests that are the same: {found['original_s']} s, "
        f"ported {found['port_s']} s, ratio {found['ratio']}"
    )


HEAD = (
    "| Library | Compared | Same | No TorchScript | Wrong | Newly failing | Graphs | Original | Port |",
    "|---|---|---|---|---|---|---|---|---|",
)


def row(name: str, found: dict[str, Any]) -> str:
    """Return the row of a library in the table of results; times are of the tests that are the same."""
    version = found["measured"]["versions"][name]
    return (
        f"| {name} {version} | {found['compared']} | {found['same']} | {found['no TorchScript']}"
        f" | {found['wrong']} | {found['newly failing']} | {found['graphs']} of {found['classes']}"
        f" | {found['original_s']} s | {found['port_s']} s |"
    )
