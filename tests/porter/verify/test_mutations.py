"""The verifier finds a correct port equal, and every planted change of meaning different."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.porter.verify.examining import EXAMPLES, TWINS, ClassEvidence, examine_files, statuses
from tests.porter.verify.made_mutations import CLASSES, RealClass, chosen, ported_text
from tests.porter.verify.mutations import ALL, Mutation

pytestmark = [pytest.mark.torch, pytest.mark.slow]

ORIGINAL = TWINS / "museum.py"
PORTED = TWINS / "museum_ported.py"


def plant(mutation: Mutation, text: str) -> str:
    """Return the ported text with one mutation in it."""
    tree = ast.parse(text)
    lines = text.splitlines(keepends=True)
    node = next(
        item
        for item in tree.body
        if isinstance(item, ast.ClassDef) and item.name == mutation.class_name
    )
    assert node.end_lineno is not None
    body = "".join(lines[node.lineno - 1 : node.end_lineno])
    assert body.count(mutation.before) == 1, f"{mutation.name}: not exactly once in the class"
    changed = body.replace(mutation.before, mutation.after)
    return "".join(lines[: node.lineno - 1]) + changed + "".join(lines[node.end_lineno :])


def test_there_are_enough_mutations_and_no_two_alike() -> None:
    assert len(ALL) >= 60
    assert len({mutation.name for mutation in ALL}) == len(ALL)
    assert len({(m.class_name, m.before, m.after) for m in ALL}) == len(ALL)


def test_the_correct_port_is_equal_in_all_checks(tmp_path: Path) -> None:
    examples = tuple(text for texts in EXAMPLES.values() for text in texts)
    found = examine_files(
        ORIGINAL, PORTED, tuple(EXAMPLES), workdir=tmp_path / "work", examples=examples
    )
    assert {name: item["status"] for name, item in found.items()} == dict.fromkeys(
        EXAMPLES, "equal"
    ), found
    for name, item in found.items():
        assert set(statuses(item).values()) == {"equal"}, (name, item["checks"])
        assert len(item["checks"]) >= 7


def examine_mutation(mutation: Mutation, tmp_path: Path) -> ClassEvidence:
    mutated = tmp_path / "museum_ported.py"
    mutated.write_text(plant(mutation, PORTED.read_text(encoding="utf-8")), encoding="utf-8")
    name = mutation.class_name
    return examine_files(
        ORIGINAL, mutated, (name,), workdir=tmp_path / "work", examples=EXAMPLES[name]
    )[name]


@pytest.mark.parametrize("mutation", ALL, ids=lambda mutation: mutation.name)
def test_every_planted_mutation_is_reported(mutation: Mutation, tmp_path: Path) -> None:
    found = examine_mutation(mutation, tmp_path)
    assert found["status"] == "different", found
    assert found["detail"]
    assert found["error_code"] is not None


def test_there_are_three_hundred_mutations() -> None:
    made = [mutation.name for item in CLASSES for mutation in chosen(item)]
    assert len(set(made)) == len(made)
    assert len(ALL) + len(made) >= 300


@pytest.mark.parametrize(
    ("number", "item"),
    [*enumerate(CLASSES)],
    ids=[f"{each.module}-{each.name}" for each in CLASSES],
)
def test_mutations_of_a_real_class_are_reported(
    number: int, item: RealClass, tmp_path: Path
) -> None:
    ported = tmp_path / "ported.py"
    mutations = chosen(item)[number % 3 :: 3]  # kinds follow one another, so each has its turn
    for place, text in enumerate([ported_text(item), *(each.text for each in mutations)]):
        ported.write_text(text, encoding="utf-8")
        found = examine_files(
            item.file, ported, (item.name,), workdir=tmp_path / "work", examples=item.examples
        )[item.name]
        if place == 0:
            assert found["status"] == "equal", found
        else:
            assert found["status"] == "different", (mutations[place - 1].name, found)
