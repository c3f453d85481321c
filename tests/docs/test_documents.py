"""What the documents tell is so: code runs, output is real, and names, links, options and figures exist."""

import json
import re
import subprocess
import sys

import pytest

from flodl import Flow, FlowBuilder
from flodl.vocabulary.branches import Branches
from flodl.vocabulary.control_flow import MapBody, Scan
from flodl.vocabulary.loops import Loop
from tests.docs.checks import CHECKS, PAGE_CHECKS, pages_that_run
from tests.docs.reading import ROOT, blocks, name_of
from tests.docs.running import missing_for
from tests.docs.sentences import share_of_longer_sentences

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("name", CHECKS)
def test_check_of_the_documents_finds_nothing(name):
    assert CHECKS[name](ROOT) == []


@pytest.mark.usefixtures("forked_ranks")
@pytest.mark.parametrize("path", pages_that_run(ROOT), ids=lambda path: name_of(ROOT, path))
def test_python_blocks_run_and_print_what_follows(path):
    missing = missing_for(path)
    if missing:
        pytest.skip(f"the page needs {', '.join(missing)}, which is not installed")
    assert PAGE_CHECKS["blocks"](ROOT, path) == []


def test_the_error_shown_is_the_error_printed():
    assert PAGE_CHECKS["help"](ROOT, ROOT / "docs" / "reference" / "commands.md") == []


def test_the_map_of_rooms_is_complete():
    text = (ROOT / "docs" / "project" / "architecture.md").read_text(encoding="utf-8")
    rooms = text[text.index("## Who may import whom") : text.index("| Rule | Why |")]
    drawn = set(re.findall(r"\w+", rooms))
    missing = [
        name_of(ROOT, path)
        for package in ("fdl_cli", "flodl", "flodl_verify")
        for path in sorted((ROOT / package).iterdir())
        if (path / "__init__.py").exists() or path.suffix == ".py"
        if not path.stem.startswith("__") and path.stem not in drawn
    ]
    assert missing == []


def test_runtime_page_names_files_that_exist():
    text = (ROOT / "docs" / "explanation" / "runtime.md").read_text(encoding="utf-8")
    named = re.findall(r"`(\w+(?:/\w+)+\.py)`", text)
    assert len(named) > 15
    assert [path for path in named if not (ROOT / "flodl" / path).is_file()] == []


@pytest.mark.slow
def test_the_first_command_of_the_readme(tmp_path):
    lines = [line for block in blocks(ROOT / "README.md") for line in block.body.splitlines()]
    first = next(line for line in lines if line.startswith("./fdl "))
    assert first == "./fdl port examples/pytorch/resnet_cifar.py"
    script = tmp_path / "examples" / "pytorch" / "resnet_cifar.py"
    script.parent.mkdir(parents=True)
    script.write_bytes((ROOT / "examples" / "pytorch" / "resnet_cifar.py").read_bytes())
    done = subprocess.run(
        [sys.executable, "-m", "fdl_cli", *first.split()[1:], "--json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (file,) = json.loads(done.stdout)["data"]["files"]
    statuses = {(item["status"], item["verify"]["status"]) for item in file["classes"]}
    assert statuses == {("graph", "equal")}
    assert script.with_name("resnet_cifar_flodl.py").is_file()


def test_at_most_every_fiftieth_sentence_has_more_than_25_words():
    assert share_of_longer_sentences(ROOT) <= 0.02


def test_page_of_flow_words_names_each_word_of_a_flow_and_of_the_builder():
    text = (ROOT / "docs" / "reference" / "flow-words.md").read_text("utf-8")
    rows = [line.split("|")[1:3] for line in text.splitlines() if line.startswith("| ")]
    inside, chain = (" ".join(row[column] for row in rows) for column in (0, 1))
    assert words_of(Flow, Branches, Loop, MapBody, Scan) - set(re.findall(r"\w+", inside)) == set()
    assert words_of(FlowBuilder) - set(re.findall(r"\w+", chain)) == set()


def words_of(*kinds):
    return {
        name
        for kind in kinds
        for name, value in vars(kind).items()
        if name[0] != "_" and (callable(value) or isinstance(value, (classmethod, staticmethod)))
    }
