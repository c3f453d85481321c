"""One family: ported, built twice, warmed up, and then one forked process for each change of the world."""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch

from benchmarks.parity.worker import EndedError, forked
from benchmarks.world_mutation import port
from benchmarks.world_mutation.changes import Change, MissingError, all_changes
from benchmarks.world_mutation.compare import UncomparedError, difference
from benchmarks.world_mutation.families import FAMILIES, Family
from benchmarks.world_mutation.flags import configurations, setting_changes
from benchmarks.world_mutation.side import PROBE, STATE, WARM, Seen, Side, probe, seed_all

EQUAL, SILENT, RAISES, BOTH, NOT_APPLIED = (
    "equal", "silently different", "raises instead", "both raise", "not applied",
)  # fmt: skip
NO_CASE, NOT_RUN = "no case", "not run"
STATUSES = (EQUAL, SILENT, RAISES, BOTH, NOT_APPLIED)
CHANGE_LIMIT_S = 30


def run(family: Family, work: Path, *, budget_s: float, patterns: list[str], itself: bool) -> Any:
    """Compare a family under all changes and return the result as plain data.

    Args:
        family: the family.
        work: a folder for the port.
        budget_s: processor time for all of it.
        patterns: parts of the names of the changes that are wanted, all of them if empty.
        itself: compare the original with itself, which tests the comparison.
    """
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    file, classes = port.ported(family.module, work)
    original_home, port_home = port.loaded(family.module, file)
    homes = (original_home, original_home, original_home if itself else port_home)
    sides = [_side(family, home) for home in homes]
    first, again, ported = sides
    result = {
        "family": family.name,
        "module": family.module,
        "model": family.model,
        "classes": classes,
    }
    wrong = difference(
        dict(first.model.state_dict()), dict(ported.model.state_dict()), "state_dict"
    )
    if wrong:
        return {**result, "error": f"the same seed builds other weights: {wrong}"}
    warm = [list(probe(side, WARM)) for side in sides]
    errors = [each.error and f"{each.what}: {each.error}: {each.message}" for each in warm[0]]
    if any(errors):
        return {**result, "error": f"the original does not run: {next(filter(None, errors))}"}
    status, detail = _judge(warm[0], warm[2])
    changes = [Change(group="repeat", name="first calls", apply=lambda _: None)]
    found = {"first calls": {"group": "repeat", "status": status, "detail": detail}}
    changes = list(_spread([*all_changes(first), *setting_changes(first, _reads(first))]))
    seen: set[str] = set()
    for change in changes:
        if change.name in seen or (patterns and not any(each in change.name for each in patterns)):
            continue
        seen.add(change.name)
        status, detail = NOT_RUN, "no time left"
        if _used_s() < budget_s:
            status, detail = _tried(change, first, ported)
            if status not in (EQUAL, BOTH) and _tried(change, first, again)[0] not in (
                EQUAL,
                BOTH,
            ):
                status, detail = NO_CASE, "the original does not repeat itself"
        found[change.name] = {"group": change.group, "status": status, "detail": detail}
    result["flows"] = _flows(ported)
    return {**result, "seconds": round(_used_s(), 1), "changes": found}


def _side(family: Family, home: Any) -> Side:
    model = family.build(home, family.configuration())
    return Side(family=family, home=home, model=model)


def _used_s() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _flows(side: Side) -> list[str]:
    """Return the classes of the port that are flows and that the model is made of."""
    kinds = {type(module) for module in side.model.modules()}
    return sorted(k.__name__ for k in kinds if any(b.__name__ == "FlowModule" for b in k.__mro__))


def _spread(changes: list[Change]) -> Iterator[Change]:
    """Return changes so that every group has its turn: when time runs out, no kind is left out."""
    groups: dict[str, list[Change]] = {}
    for change in changes:
        groups.setdefault(change.group, []).append(change)
    for turn in zip_longest(*groups.values()):
        yield from (change for change in turn if change is not None)


def _tried(change: Change, first: Side, other: Side) -> tuple[str, str]:
    try:
        return forked(_compared, change, first, other, limit_s=CHANGE_LIMIT_S)  # type: ignore[no-any-return]
    except EndedError as ended:
        return RAISES, f"the process ended: {ended}"


def _compared(change: Change, first: Side, other: Side) -> tuple[str, str]:
    """Do a change to both sides and compare what they do then."""
    errors = [_applied(change, side) for side in (first, other)]
    if all(errors):
        return BOTH, errors[0]
    if any(errors):
        where = "the port" if errors[1] else "the original"
        return NOT_APPLIED, f"to {where}: {errors[1] or errors[0]}"
    try:
        return _judge(list(probe(first, PROBE)), list(probe(other, PROBE)))
    except UncomparedError as error:
        return SILENT, f"not compared: {error}"


def _applied(change: Change, side: Side) -> str:
    seed_all(side.seed)
    try:
        change.apply(side)
    except MissingError as error:
        return f"there is no {error}"
    except Exception as error:
        return f"{type(error).__qualname__}: {str(error)[:300]}"
    return ""


def _judge(one: list[Seen], two: list[Seen]) -> tuple[str, str]:
    """Return how what one side has shown stands to the other, and in what they differ first."""
    found: Counter[str] = Counter()
    details: dict[str, str] = {}
    for left, right in zip(one, two, strict=True):
        status, detail = _judge_call(left, right)
        if status == SILENT and left.what == STATE and found[RAISES]:
            status = RAISES  # a call that raises leaves another state behind, and is no silent difference
        found[status] += 1
        details.setdefault(status, f"{left.what}: {detail}")
    for status in (SILENT, RAISES):
        if found[status]:
            return status, details[status]
    ran = found[EQUAL] > 1  # the state can always be read
    return (EQUAL, "") if ran else (BOTH, details.get(BOTH, ""))


def _judge_call(left: Seen, right: Seen) -> tuple[str, str]:
    if right.error and not left.error:
        return RAISES, f"{right.error}: {right.message}"
    if left.error and not right.error:
        return SILENT, f"runs where the original raises {left.error}: {left.message}"
    if left.error:
        same = left.error == right.error
        return BOTH, left.error if same else f"{left.error} against {right.error}: {right.message}"
    wrong = difference(left.found, right.found)
    return (EQUAL, "") if wrong is None else (SILENT, wrong)


def _reads(side: Side) -> set[tuple[str, str]]:
    """Return the settings that calls of a model read."""
    found: list[list[str]] = forked(_tracked, side, limit_s=CHANGE_LIMIT_S)
    return {(path, name) for path, name in found}


def _tracked(side: Side) -> list[list[str]]:
    paths = {id(each): path for path, each in configurations(side.model)}
    found: dict[tuple[str, str], None] = {}
    for kind in {type(each) for _, each in configurations(side.model)}:
        plain: Callable[[Any, str], Any] = kind.__getattribute__

        def read(self: Any, name: str, plain: Any = plain) -> Any:
            if id(self) in paths and name[:2] != "__":
                found[paths[id(self)], name] = None
            return plain(self, name)

        kind.__getattribute__ = read
    list(probe(side))
    return [list(each) for each in found]


def main(words: list[str]) -> int:
    """Run one family and write its result: the body of a process of its own."""
    name, target, work, options = words
    settings = json.loads(options)
    commit = settings.pop("commit", "")
    family = next(each for each in FAMILIES if each.name == name)
    started = time.monotonic()
    try:
        result = run(family, Path(work), **settings)
    except SystemExit as stopped:
        result = {"family": name, "error": str(stopped)}
    except Exception as error:
        import traceback

        where = traceback.format_exc()[-1500:]
        result = {"family": name, "error": f"{type(error).__name__}: {error}", "where": where}
    result["commit"] = commit
    result["wall"] = round(time.monotonic() - started, 1)
    Path(target).write_text(json.dumps(result, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
