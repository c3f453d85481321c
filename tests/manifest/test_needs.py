"""Tasks that need others: the order, and the mistakes that are found before anything runs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdl_cli.errors import ConfigError
from fdl_cli.manifest.reading.load import load
from fdl_cli.manifest.reading.needs import needed
from fdl_cli.manifest.resolve import find_task

NAMES = "abcdefg"


def order(tree, *words):
    return [" ".join(each.names) for each in needed(tree, "/p", find_task(tree, "/p", words))]


def graph(edges):
    return {"commands": {name: {"run": "x", "needs": list(edges.get(name, ()))} for name in NAMES}}


def test_needed_tasks_come_in_an_order_that_fits():
    tree = graph({"a": ["b", "c"], "b": ["d"], "c": ["d", "e"]})
    assert order(tree, "a") == ["d", "b", "e", "c"]
    assert order(tree, "d") == []


def test_preset_needs_what_its_entry_needs():
    preset = {"needs": ["b"]}
    tree = graph({}) | {}
    tree["commands"]["train"] = {"entry": "x", "needs": ["a"], "commands": {"quick": preset}}
    tree["commands"]["z"] = {"run": "x", "needs": ["train quick"]}
    assert order(tree, "train") == ["a"]
    assert order(tree, "train", "quick") == ["a", "b"]
    assert order(tree, "z") == ["a", "b", "train quick"]


@st.composite
def acyclic(draw):
    """Edges that only lead to later names."""
    return {
        name: draw(st.lists(st.sampled_from(NAMES[at + 1 :]), unique=True))
        for at, name in enumerate(NAMES[:-1])
    }


@given(acyclic(), st.sampled_from(NAMES))
def test_every_need_comes_once_and_before_its_task(edges, start):
    found = order(graph(edges), start)
    assert len(found) == len(set(found))
    reached, pending = set(), [start]
    while pending:
        for name in edges.get(pending.pop(), ()):
            if name not in reached:
                reached.add(name)
                pending.append(name)
    assert set(found) == reached
    place = {name: at for at, name in enumerate([*found, start])}
    assert all(place[need] < place[name] for name in place for need in edges.get(name, ()))


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("a: {run: x, needs: [b]}", "2:15", "needs `b`, and there is no such task"),
        ("a: {run: x, needs: [a]}", "2:15", "in a circle: a > a"),
        ("a: {run: x, needs: [b]}\n  b: {run: x, needs: [a]}", "3:15", "in a circle: a > b > a"),
        ("t: {entry: x, commands: {q: {needs: [t q]}}}", "2:32", "in a circle: t q > t q"),
        ("t: {entry: x, needs: [u], commands: {q: {}}}\n  u: {run: x, needs: [t q]}",
         "2:17", "in a circle: u > t q > u"),
        ("a: {run: x, needs: b}", "2:15", "must be a list"),
    ],
)  # fmt: skip
def test_wrong_need_names_its_place(tmp_path, text, place, words):
    (tmp_path / "fdl.yml").write_text(f"commands:\n  {text}\n")
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, None)
    error = caught.value
    assert f"{error.line}:{error.column}" == place
    assert words in str(error.message)
