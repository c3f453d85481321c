"""Training scripts of many shapes: moved as far as expected, and everything is as it was.

Each script says in its first line what becomes of its loop with `--training setup` and with
`--training builder`: the level, or the code of the reason why not.  Original and ports are run to their
ends: every loss, all weights after every update and every printed character must be equal.
"""

import functools
import warnings
from pathlib import Path

import pytest

from fdl_cli.porter.pipeline import draft, move_training, understand
from tests.porter.training_runs import run_script

SCRIPTS = sorted((Path(__file__).parents[1] / "data" / "training").glob("*.py"))
DOCUMENT = Path(__file__).parents[2] / "docs" / "how-to" / "port-projects.md"
LEVELS = ("setup", "builder")


@functools.lru_cache(maxsize=1)  # the levels of one script follow each other
def drafted(path):
    source, script = understand(path.read_bytes())
    return draft(source, script, {})


def moved(path, level):
    return move_training(drafted(path), level)


def expected(path):
    first, _, _ = path.read_text(encoding="utf-8").partition("\n")
    return dict(zip(LEVELS, first.removeprefix("# expected: ").split(), strict=True))


def test_there_are_many():
    assert len(SCRIPTS) >= 50
    reached = [expected(path) for path in SCRIPTS]
    assert sum(each["setup"] == "setup" for each in reached) >= 40
    assert sum(each["builder"] == "builder" for each in reached) >= 28


def test_the_document_has_the_numbers():
    text = DOCUMENT.read_text(encoding="utf-8")
    for level in LEVELS:
        count = sum(expected(path)[level] == level for path in SCRIPTS)
        assert (
            f"| `{level}` | {count} of {len(SCRIPTS)} | {len(SCRIPTS)} of {len(SCRIPTS)} |" in text
        )


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_loop_moves_as_far_as_it_can(path, level):
    made = moved(path, level)
    (loop,) = made.loops
    found = [reason.code for reason in loop.reasons(level)] or [loop.reached(level)]
    assert found == [expected(path)[level]]
    assert ("Trainer.builder(" in made.text) == (loop.reached(level) == "builder")
    assert (".setup(" in made.text) == (loop.reached(level) == "setup")
    for reason in loop.reasons(level):
        assert 1 < reason.line <= made.text.count("\n")


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_the_port_does_what_the_script_does(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    warnings.simplefilter("ignore")
    wanted = run_script(path)
    assert wanted.output
    assert len(wanted.losses) >= 4
    for level in ("keep", *LEVELS):
        port = tmp_path / f"{path.stem}_{level}.py"
        port.write_bytes(moved(path, level).data)
        found = run_script(port)
        assert found.output == wanted.output, level
        assert found.losses == wanted.losses, level
        assert found.weights == wanted.weights, level
