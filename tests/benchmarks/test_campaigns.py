"""Every campaign has a committed result, which is as new as the code that it covers."""

import json
import re
import subprocess

import pytest

from tests.campaigns import FOLDER, ROOT, Campaign, campaigns, command
from tests.code_digest import digest
from tests.mutation_bounds import FACTOR, SECONDS, SLACK

CAMPAIGNS = campaigns()
NAMES = [each.name for each in CAMPAIGNS]


def test_campaign_results_are_as_new_as_the_code_they_cover():
    stale = {each: each.problem() for each in CAMPAIGNS if each.problem()}
    shown = "\n".join(f"{each.name}: {problem}" for each, problem in stale.items())
    assert not stale, f"{shown}\nrun: {command(tuple(stale))}"


def test_every_marked_test_is_a_campaign_with_a_result():
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    marked = sum(
        len(re.findall(r"^\s*@pytest\.mark\.campaign\b", text, re.MULTILINE)) for text in texts
    )
    assert len(CAMPAIGNS) == marked >= 7
    assert len(set(NAMES)) == len(NAMES)
    assert sorted(path.stem for path in FOLDER.glob("*")) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_campaign_result_is_whole(name):
    (campaign,) = (each for each in CAMPAIGNS if each.name == name)
    result = json.loads(campaign.path.read_text(encoding="utf-8"))
    measured = result["measured"]
    assert re.fullmatch(r"[0-9a-f]{40}", measured["commit"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", measured["date"])
    assert measured["python"]
    assert measured["versions"]["torch"]
    assert (result["campaign"], result["test"]) == (name, campaign.test)
    assert sum(result["outcomes"].values()) == result["cases"] > 0
    assert result["worst"]


@pytest.mark.parametrize(
    "name", [each.name for each in CAMPAIGNS if each.test.endswith("_of_ten_thousand_mutations")]
)
def test_campaign_of_mutations_kept_the_bounds(name):
    result = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    assert result["cases"] == 10_000
    assert result["worst"]["seconds"] <= SECONDS
    assert result["worst"]["bytes"] <= FACTOR * result["worst"]["honest_bytes"] + SLACK


# ---- when a result is stale -----------------------------------------------------------------------

CODE = '''
"""A module."""

import os


def covered(x: int) -> int:
    """Return x."""
    return x + 1  # one more
'''
TESTS = """
import pytest
from tests.more import helper, unused

SEED = 3

@MARK("made up", covers=("code",))
def test_made_up(campaign):
    assert helper(SEED)

def test_another():
    assert unused()
"""
MORE = "LIMIT = 5\n\ndef helper(seed):\n    return seed < LIMIT\n\ndef unused():\n    return 1\n"


@pytest.fixture
def project(tmp_path):
    for path, text in {
        "code/one.py": CODE,
        "code/deep/two.py": "TWO = 2\n",
        "tests/test_it.py": TESTS.replace("MARK", "pytest.mark.campaign"),
        "tests/more.py": MORE,
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    for words in (
        ("init", "-q"), ("add", "."),
        ("-c", "user.name=x", "-c", "user.email=x@y", "commit", "-qm", "x"),
    ):  # fmt: skip
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True, capture_output=True)
    return tmp_path


@pytest.fixture
def made_up(project):
    (found,) = campaigns(project / "tests")
    assert (found.name, found.covers) == ("made up", ("code",))
    return Campaign(
        name=found.name, covers=found.covers, test=found.test, root=project, folder=project / "out"
    )


def write(campaign):
    campaign.write(cases=2, outcomes={"refused": 2}, worst={"seconds": 0.1}, seed=3)


def edit(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_campaign_without_a_result_is_a_problem_until_it_is_written(made_up):
    assert made_up.problem() == "no result"
    write(made_up)
    assert made_up.problem() == ""
    assert "./fdl test -m campaign -n 2 tests/test_it.py " in command((made_up, made_up))


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("code/one.py", '"""Return x."""', '"""Return one more than x."""'),
        ("code/one.py", "# one more", "# why not"),
        ("code/one.py", "return x + 1", "return (x\n        + 1)"),
        ("code/one.py", '"""A module."""', ""),
        ("tests/more.py", "return 1", "return 2"),
        ("tests/test_it.py", "assert unused()", "assert unused() == 1"),
    ],
)
def test_result_after_a_change_without_meaning_is_valid(made_up, file, old, new):
    write(made_up)
    edit(made_up.root / file, old, new)
    assert made_up.problem() == ""


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("code/one.py", "x + 1", "x + 2"),
        ("code/one.py", "x: int", "x: float"),
        ("code/deep/two.py", "TWO = 2", "TWO = 3"),
        ("tests/test_it.py", "SEED = 3", "SEED = 4"),
        ("tests/more.py", "LIMIT = 5", "LIMIT = 6"),
        ("tests/more.py", "seed < LIMIT", "seed <= LIMIT"),
    ],
)
def test_result_after_a_change_of_covered_code_is_stale(made_up, file, old, new):
    write(made_up)
    edit(made_up.root / file, old, new)
    assert "older than the code it covers" in made_up.problem()


def test_result_after_a_renamed_module_is_stale(made_up):
    write(made_up)
    (made_up.root / "code" / "one.py").rename(made_up.root / "code" / "uno.py")
    assert "older" in made_up.problem()


def test_result_names_uncommitted_changes_of_covered_code_alone(made_up):
    (made_up.root / "unrelated.txt").touch()
    write(made_up)
    commit = json.loads(made_up.path.read_text())["measured"]["commit"]
    assert re.fullmatch(r"[0-9a-f]{40}", commit)
    edit(made_up.root / "code" / "one.py", "x + 1", "x + 2")
    write(made_up)
    assert json.loads(made_up.path.read_text())["measured"]["commit"] == f"{commit}-dirty"


def test_result_with_other_counts_than_cases_is_not_written(made_up):
    with pytest.raises(AssertionError, match="3 cases"):
        made_up.write(cases=3, outcomes={"refused": 2}, worst={})
    assert not made_up.path.exists()


def test_digest_of_a_path_that_is_gone_is_an_error(project):
    with pytest.raises(FileNotFoundError, match="gone"):
        digest(project, ["gone"], "tests/test_it.py::test_made_up")
