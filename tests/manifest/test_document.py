"""One YAML file becomes values with places, and every problem of its text is found."""

import random
import tracemalloc

import pytest

from fdl_cli.manifest.reading.document import Leaf, Place, parse
from fdl_cli.manifest.reading.overlay import leaves, plain
from tests.mutation_bounds import Bounds


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


def bomb(kind, levels=40):
    """Return a text in which every line means twice the line before."""
    if kind == "lists":
        lines = ["a0: &a0 [x, x]"] + [
            f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, levels)
        ]
    elif kind == "mappings":
        lines = ["a0: &a0 {k: x}"]
        lines += [f"a{i}: &a{i} {{k: *a{i - 1}, l: *a{i - 1}}}" for i in range(1, levels)]
    elif kind == "merges":
        lines = ["a0: &a0 {k: x}"]
        lines += [f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}]}}" for i in range(1, levels)]
    else:
        lines = ["a0: &a0 [x, x]"]
        lines += [f"a{i}: &a{i} {{? [*a{i - 1}, *a{i - 1}] : x}}" for i in range(1, levels)]
    return "\n".join(lines).encode()


@pytest.mark.parametrize("kind", ["lists", "mappings", "merges", "keys"])
def test_document_alias_bomb_is_refused_unfolded(kind):
    tracemalloc.start()
    document = parse(bomb(kind), "fdl.yml")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    (problem,) = document.problems
    assert "means more than 20,000 values" in problem.message
    assert document.table.entries == {}
    assert peak < 2_000_000


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"a: " + b"[" * 250_000, "brackets"),
        (b"{" * 250_000, "brackets"),
        (b"a: {b: [" * 30_000, "brackets"),
        (b"- " * 100_000 + b"x", "indented"),
        (b"? " * 100_000 + b"x", "indented"),
        (b"\n".join(b" " * i + b"a:" for i in range(600)), "indented"),
        (b"\n".join(b" " * i + b"a:" for i in range(100)), "nests deeper"),
        (b"a: " + b"[" * 60 + b"]" * 60, "nests deeper"),
        (b"a: x\n" * 100_000, "bytes"),
        (b"a: &x [b, *x]", "contains itself"),
        (b"a: &x {<<: *x}", "contains itself"),
        (b"a: {<<: 5}", "not valid YAML"),
        (b"a: !!int many", "is no int"),
        (b"a: !!float many", "is no float"),
        (b"a: !!bool many", "is no bool"),
        (b"a: " + b"9" * 5_000, "is no int"),
        (b"? [1]\n: x", "is no text"),
        (b"? {b: 1}\n: x", "is no text"),
    ],
)
def test_document_text_beyond_the_bounds_is_one_problem(text, words):
    (problem,) = parse(text, "fdl.yml").problems
    assert words in problem.message
    assert problem.hint


def test_document_commands_full_of_brackets_are_read():
    text = b"commands:\n" + b"".join(
        b"  t%d: {run: 'if [[ -f x ]]; then echo ${y}; fi'}\n" % each for each in range(900)
    )
    assert parse(text, "fdl.yml").problems == ()


HONEST = b"""\
commands:
  train: &t
    run: python train.py
    options: {epochs: {default: 3, type: int}, lr: {default: 1e-3}}
  again: {<<: *t, run: "x y"}
environment: [A, b, 1, yes]
"""
PIECES = [
    b"*t", b"&t ", b"<<: ", b"[", b"{", b"]", b"}", b": ", b"\n", b"- ", b"? ", b"!!int ", b"!x ",
    b"|\n", b"'", b'"', b"\x00", b"\xff", b"#", b"%", b"@", b"  ", b"9" * 5000, b"0x", b"1:1:1",
    b"---\n",
]  # fmt: skip


def survives_mutations(count, seed):
    """Read mutated texts; return the bounds of all."""
    generator = random.Random(seed)
    bounds = Bounds(lambda: parse(HONEST, "fdl.yml"))
    for _ in range(count):
        text = bytearray(HONEST)
        for _ in range(generator.randrange(1, 6)):
            place = generator.randrange(len(text))
            match generator.randrange(3):
                case 0:
                    del text[place : place + generator.randrange(1, 12)]
                case 1:
                    text[place:place] = generator.choice(PIECES)
                case 2:
                    text[place] = generator.randrange(256)
        problems = bounds.run(lambda text=bytes(text): parse(text, "fdl.yml").problems)
        bounds.outcomes["refused" if problems else "accepted"] += 1
    bounds.check()
    return bounds


def test_document_mutated_texts_raise_nothing():
    assert survives_mutations(600, 1).outcomes["refused"] > 200


@pytest.mark.campaign("manifest", covers=("fdl_cli/manifest",))
def test_document_campaign_of_ten_thousand_mutations(campaign):
    bounds = survives_mutations(10_000, 2)
    assert bounds.outcomes["refused"] > 4_000
    campaign.write(seed=2, cases=10_000, outcomes=bounds.outcomes, worst=bounds.worst)
