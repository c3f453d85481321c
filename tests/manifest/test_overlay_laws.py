"""What holds for every pair of manifests: merging, removing with null, and origins."""

from hypothesis import given
from hypothesis import strategies as st

from fdl_cli.manifest.reading.document import Leaf, Place, Table, parse
from fdl_cli.manifest.reading.overlay import leaves, lookup, merge, plain, without_nulls

NAMES = st.sampled_from(["a", "b", "c", "d"])
VALUES = st.sampled_from([None, True, False, 1, 2.5, "x", "y"])


def leaf(value):
    return Leaf(value, str(value), Place("made", 1, 1))


def tables(file):
    place = Place(file, 1, 1)
    leafs = VALUES.map(lambda value: Leaf(value, str(value), place))
    return st.recursive(
        st.dictionaries(NAMES, leafs, max_size=4),
        lambda inner: st.dictionaries(NAMES, st.one_of(leafs, inner), max_size=4),
        max_leaves=12,
    ).map(lambda entries: nested(entries, place))


def nested(entries, place):
    return Table(
        {k: nested(v, place) if isinstance(v, dict) else v for k, v in entries.items()}, place
    )


def values(table):
    return plain(without_nulls(table))


UNDER, OVER, TOP = tables("fdl.yml"), tables("fdl.ci.yml"), tables("fdl.local.yml")


@given(UNDER, OVER)
def test_merging_twice_is_merging_once(under, over):
    once = merge(under, over)
    assert values(merge(once, over)) == values(once)
    assert values(merge(without_nulls(once), over)) == values(once)


@given(UNDER)
def test_an_empty_overlay_changes_nothing(under):
    empty = Table({}, Place("fdl.ci.yml", 1, 1))
    assert merge(under, empty) == under
    assert merge(empty, under).entries == under.entries


@given(UNDER, OVER)
def test_every_value_of_the_overlay_wins(under, over):
    merged = merge(under, over)
    for path, item in leaves(over):
        assert lookup(merged, path) == item


@given(UNDER, OVER)
def test_what_the_overlay_does_not_name_stays(under, over):
    merged = merge(under, over)
    for path, item in leaves(under):
        parts = [lookup(over, path[: n + 1]) for n in range(len(path))]
        if all(part is None or isinstance(part, Table) for part in parts) and parts[-1] is None:
            assert lookup(merged, path) == item


@given(UNDER, OVER, TOP)
def test_every_value_comes_from_the_last_layer_that_sets_it(under, over, top):
    merged = without_nulls(merge(merge(under, over), top))
    layers = (top, over, under)
    for path, item in leaves(merged):
        setting = [layer for layer in layers if isinstance(lookup(layer, path), Leaf)]
        assert setting, path
        assert lookup(setting[0], path) == item
        assert item.place.file == setting[0].place.file


@given(UNDER, OVER)
def test_no_null_is_left(under, over):
    assert all(item.value is not None for _, item in leaves(without_nulls(merge(under, over))))


def test_null_removes_at_any_depth_also_below_a_new_table():
    under = nested({"opts": {"lr": leaf(1)}}, Place("fdl.yml", 1, 1))
    over = nested({"opts": {"lr": leaf(None)}, "new": {"x": leaf(None)}}, Place("b", 1, 1))
    assert values(merge(under, over)) == {"opts": {}, "new": {}}


def test_lists_replace_and_tables_merge():
    under = parse(b"run: [a, b]\nenv: {A: 1, B: 2}\n", "fdl.yml").table
    over = parse(b"run: [c]\nenv: {B: 3}\n", "fdl.ci.yml").table
    assert values(merge(under, over)) == {"run": ["c"], "env": {"A": "1", "B": "3"}}
