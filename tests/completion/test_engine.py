"""What may stand at the end of a command line, from a small table of options."""

import pytest

from fdl_cli.completion.engine import (
    Candidate,
    CommandFacts,
    Completion,
    OptionFacts,
    complete_command,
    facts_from,
    matching,
)
from fdl_cli.completion.protocol import answer_text, read_question

FACTS = CommandFacts(
    options=(
        OptionFacts(("--out", "-o"), "where", True, (), True, False),
        OptionFacts(("--mode",), "how", True, ("fast", "slow"), False, False),
        OptionFacts(("--tag",), "names", True, ("a", "b"), False, True),
        OptionFacts(("--dry-run",), "nothing", False, (), False, False),
    ),
    arguments=(
        OptionFacts(("kind",), "", True, ("one", "two"), False, False),
        OptionFacts(("paths",), "", True, (), True, True),
    ),
)
OPTIONS = {"--out", "-o", "--mode", "--tag", "--dry-run"}


def values(words, current):
    found = matching(complete_command(FACTS, words, current), current)
    return {item.value for item in found.candidates}


@pytest.mark.parametrize(
    ("words", "current", "expected"),
    [
        ([], "-", OPTIONS),
        ([], "--m", {"--mode"}),
        (["--dry-run"], "-", OPTIONS - {"--dry-run"}),
        (["-o", "x"], "-", OPTIONS - {"-o", "--out"}),
        (["--tag", "a"], "--t", {"--tag"}),
        (["--mode"], "", {"fast", "slow"}),
        (["--mode"], "f", {"fast"}),
        ([], "--mode=", {"fast", "slow"}),
        ([], "--mode=s", {"slow"}),
        ([], "", {"one", "two"}),
        (["--mode", "fast"], "o", {"one"}),
        (["one"], "", set()),
        (["--"], "-", set()),
        (["--"], "", {"one", "two"}),
    ],
)
def test_candidates(words, current, expected):
    assert values(words, current) == expected


@pytest.mark.parametrize(
    ("words", "current", "files"),
    [(["one"], "", True), (["one", "a", "b"], "", True), (["-o"], "", True), ([], "", False),
     (["--", "one"], "", True), (["--mode"], "", False)],
)  # fmt: skip
def test_files_are_asked_for_where_a_path_belongs(words, current, files):
    assert complete_command(FACTS, words, current).files is files


def test_the_table_survives_storage():
    import json

    stored = {
        "options": [list(item) for item in FACTS.options],
        "arguments": [list(item) for item in FACTS.arguments],
    }
    assert facts_from(json.loads(json.dumps(stored))) == FACTS


def test_bash_words_are_joined_and_answers_are_what_bash_replaces():
    question = read_question("bash", ["port", "--color", "=", "al"])
    assert question == (("port",), "--color=al")
    assert read_question("bash", ["port", "--color", "="]).current == "--color="
    assert read_question("zsh", ["a", "=", "b"]).words == ("a", "=")
    assert read_question("zsh", []) == ((), "")
    found = Completion((Candidate("always", "yes"),), True, "--color=")
    assert answer_text("bash", found) == ":files\nalways"
    assert answer_text("zsh", found) == ":files\n--color=always\tyes"
