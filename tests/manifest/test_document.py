"""One YAML file becomes values with places, and every problem of its text is found."""

import pytest

from fdl_cli.manifest.document import Leaf, Place, parse
from fdl_cli.manifest.overlay import leaves, plain


def test_every_value_has_the_place_of_its_key():
    document = parse(b"a: 1\nb:\n  c: [x, 2]\n  d: yes\n", "fdl.yml")
    assert document.problems == ()
    places = {".".join(path): item.place[1:] for path, item in leaves(document.table)}
    assert places == {"a": (1, 1), "b.c": (3, 3), "b.d": (4, 3)}


def test_numbers_stay_the_text_that_was_written():
    text = b"a: 1e-3\nb: 1.10\nc: 0x10\nd: '007'\ne: yes\nf: 2020-01-01\ng: 1_000\n"
    table = parse(text, "fdl.yml").table
    assert plain(table) == {
        "a": "1e-3", "b": "1.10", "c": "0x10", "d": "007", "e": True, "f": "2020-01-01",
        "g": "1_000",
    }  # fmt: skip


def test_aliases_and_merge_keys_work():
    text = b"a: &x {k: 1, l: 2}\nb: {<<: *x, l: 3}\n"
    document = parse(text, "fdl.yml")
    assert document.problems == ()
    assert plain(document.table) == {"a": {"k": "1", "l": "2"}, "b": {"k": "1", "l": "3"}}


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        (b"a: 1\nb: [x\n", 3, 1, "not valid YAML"),
        (b"a: 1\n b: 2\n", 2, 3, "not valid YAML"),
        (b"a: 1\n\ta: 2\n", 2, 1, "not valid YAML"),
        (b"a: 1\na: 2\n", 2, 1, "`a` stands twice, first on line 1"),
        (b"a:\n  x: 1\n  x: 2\n", 3, 3, "`x` stands twice, first on line 2"),
        (b"on: 1\n", 1, 1, "the key `on` is no text"),
        (b"1: 1\n", 1, 1, "the key `1` is no text"),
        (b"- a\n- b\n", 1, 1, "no mapping"),
        (b"a: [1, [2]]\n", 1, 8, "plain values"),
        (b"a: !!python/object:os.system x\n", 1, 4, "has no meaning here"),
        (b"a: 1\n---\nb: 2\n", 2, 1, "several documents"),
        (b"a: caf\xe9\n", 1, 1, "UTF-8"),
        (b"a: &x\n  b: *x\n", 2, 3, "contains itself"),
    ],
)
def test_problems_name_the_place(text, line, column, words):
    (problem,) = parse(text, "fdl.yml").problems
    assert words in problem.message
    assert problem.place == Place("fdl.yml", line, column)
    assert problem.hint


@pytest.mark.parametrize("text", [b"", b"# nothing\n", b"---\n", b"null\n"])
def test_an_empty_file_is_an_empty_manifest(text):
    document = parse(text, "fdl.yml")
    assert document.table.entries == {}


def test_lists_keep_each_text():
    table = parse(b"run: [python, -c, 1.0, 'true', ~]\n", "fdl.yml").table
    item = table.entries["run"]
    assert isinstance(item, Leaf)
    assert item.text == ("python", "-c", "1.0", "true", "~")
    assert item.value == ("python", "-c", 1.0, "true", None)
