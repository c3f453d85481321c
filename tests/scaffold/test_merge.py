"""Laws of the three-way merge."""

from hypothesis import given
from hypothesis import strategies as st

from fdl_cli.scaffold.merge import MIDDLE, OURS, THEIRS, merge

LINES = st.lists(st.sampled_from(["a", "b", "c", "d", ""]), max_size=8)
TEXTS = LINES.map(lambda lines: "".join(f"{line}\n" for line in lines))


@given(TEXTS, TEXTS)
def test_an_untouched_side_gives_the_other(base, other):
    assert merge(base, base, other).text == other
    assert merge(base, other, base).text == other
    assert merge(base, other, other).text == other
    assert merge(base, other, other).conflicts == 0


@given(TEXTS, TEXTS, TEXTS)
def test_no_line_of_either_side_is_lost(base, ours, theirs):
    merged = merge(base, ours, theirs)
    lines = merged.text.splitlines()
    kept = set(base.splitlines())
    for side in (ours, theirs):
        assert {line for line in side.splitlines() if line not in kept} <= set(lines)
    for mark in (OURS, MIDDLE, THEIRS):
        assert lines.count(mark) == merged.conflicts


@given(TEXTS, TEXTS, TEXTS)
def test_sides_may_be_swapped(base, ours, theirs):
    first, second = merge(base, ours, theirs), merge(base, theirs, ours)
    assert first.conflicts == second.conflicts
    if not first.conflicts:
        assert first.text == second.text


def test_edits_apart_are_both_taken():
    base = "one\ntwo\nthree\nfour\nfive\n"
    merged = merge(base, base.replace("one", "ONE"), base.replace("five", "FIVE"))
    assert (merged.text, merged.conflicts) == ("ONE\ntwo\nthree\nfour\nFIVE\n", 0)


def test_edits_of_one_line_are_marked():
    merged = merge("x = 1\ny\n", "x = 2\ny\n", "x = 3\ny\n")
    assert merged.conflicts == 1
    assert merged.text == f"{OURS}\nx = 2\n{MIDDLE}\nx = 3\n{THEIRS}\ny\n"


def test_a_missing_final_newline_survives():
    assert merge("a\nb", "a\nb", "a\nc").text == "a\nc"
