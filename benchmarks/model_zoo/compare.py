"""One model of a project: the original and its port, each in a process of its own, compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.model_zoo import families, side
from benchmarks.parity.case import describe
from benchmarks.parity.worker import EndedError, forked

if TYPE_CHECKING:
    from pathlib import Path

LIMIT_S = 60


def listed(root: Path, patterns: list[str], most: int | None) -> list[tuple[str, str]]:
    """Return the chosen models of a project, each with its group."""
    return forked(_listed, root, patterns, most, limit_s=LIMIT_S)


def _listed(root: Path, patterns: list[str], most: int | None) -> list[tuple[str, str]]:
    import sys

    sys.path.insert(0, str(root))
    family = families.recognise(root)
    return [(n, family.group(n)) for n in families.chosen(family, patterns, most)]


def compare(
    original: Path, ported: Path, name: str, *, max_params: int, memory_mb: int, limit_s: float
) -> dict[str, Any]:
    """Run both sides and say in what they differ.

    Returns:
        `status` is "equal", "different" with the sections that differ in `differs`, "skipped", or
        "no-case" when the original does not run or does not repeat itself, with `why`.
    """

    def run(root: Path, shape: families.Shape | None) -> dict[str, Any]:
        try:
            return forked(
                _observed, root, name, shape, max_params, limit_s=limit_s, memory_mb=memory_mb
            )
        except EndedError as ended:
            return {"error": str(ended)}

    first = run(original, None)
    if "skipped" in first or "error" in first:
        why = first.get("skipped") or first["error"]
        return {**first, "status": "skipped" if "skipped" in first else "no-case", "why": why}
    shape = families.Shape(kind=first["shape"][0], size=first["shape"][1])
    second = run(ported, shape)
    found = {key: first[key] for key in ("group", "params", "shape", "losses", "learns")}
    found["seconds"] = [first["seconds"], second.get("seconds")]
    if "error" in second:
        return {**found, "status": "different", "differs": {"raises": second["error"]}}
    found["classes"] = second["classes"]
    differs = _differences(first["sections"], second["sections"])
    if differs:
        again = run(original, shape)
        if "error" in again or _differences(first["sections"], again["sections"]):
            return {**found, "status": "no-case", "why": "the original does not repeat itself"}
        return {**found, "status": "different", "differs": differs}
    return {**found, "status": "equal"}


def _observed(
    root: Path, name: str, shape: families.Shape | None, max_params: int
) -> dict[str, Any]:
    try:
        return side.observe(root, name, shape, max_params)
    except Exception as error:
        return {"error": describe(error)}


def _differences(first: dict[str, Any], second: dict[str, Any]) -> dict[str, str]:
    """Return for each section that is not the same, where."""
    found = {}
    for section in side.SECTIONS:
        one, two = first[section], second[section]
        if one == two:
            continue
        found[section] = "differs"
        if isinstance(one, dict):
            names = [n for n in dict.fromkeys([*one, *two]) if one.get(n) != two.get(n)]
            found[section] = f"{len(names)} of {len(one)}, first {names[:1] or 'in order'}"
    return found
