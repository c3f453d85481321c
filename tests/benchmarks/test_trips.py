"""The counts of `benchmarks/trips.py` are right on a package with known calls."""

import importlib
import json
import re
import sys

import pytest

from benchmarks import trips

pytestmark = pytest.mark.torch
BENCHMARKS = trips.ROOT / "benchmarks"

# `outer` starts `near` and `key` (from C code), `far.twice` calls back, and `late` is imported on the way.
PACKAGE = {
    "__init__.py": "",
    "start.py": """
from made_up_trip import far

def outer():
    near()
    far.twice(near)
    sorted([2, 1], key=far.key)
    return sum(far.numbers())

def near():
    return 1

def late():
    import made_up_trip.late

def fails():
    far.key(1)
    raise LookupError
""",
    "far.py": """
def twice(action):
    action()
    action()

def key(number):
    return number

def numbers():
    yield 1
    yield 2
""",
    "late.py": """
from made_up_trip import far

def decorator(function):
    far.key(1)
    return function

class Late:
    @decorator
    def method(self): ...
""",
}


@pytest.fixture
def start(tmp_path, monkeypatch):
    folder = tmp_path / "made_up_trip"
    folder.mkdir()
    for name, text in PACKAGE.items():
        (folder / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("made_up_trip.start")
    for name in [each for each in sys.modules if each.startswith("made_up_trip")]:
        del sys.modules[name]


def test_count_known_calls_gives_files_and_changes(start, tmp_path):
    found = trips.count(start.outer, [tmp_path / "made_up_trip"])
    # start: outer, near, two calls back; far: twice, two keys, a generator with two resumptions.
    assert found.calls_by_file == {"made_up_trip/start.py": 4, "made_up_trip/far.py": 6}
    # Into `twice`, back into `near` twice, two keys, three turns of the generator.
    assert found.numbers == {"files": 2, "changes": 8, "functions": 5, "calls": 10}


def test_count_frames_outside_the_roots_are_looked_through(start, tmp_path):
    found = trips.count(lambda: [start.near() for _ in range(3)], [tmp_path / "made_up_trip"])
    assert found.numbers == {"files": 1, "changes": 0, "functions": 1, "calls": 3}
    assert trips.count(start.outer, [tmp_path / "elsewhere"]).calls_by_file == {}


def test_count_import_on_the_way_leaves_out_the_module_and_its_calls(start, tmp_path):
    found = trips.count(start.late, [tmp_path / "made_up_trip"])
    assert "made_up_trip.late" in sys.modules
    assert found.calls_by_file == {"made_up_trip/start.py": 1}
    assert found.changes == 0


def test_count_failing_trip_restores_the_profile_function(start, tmp_path):
    before = sys.getprofile()
    with pytest.raises(LookupError):
        trips.count(start.fails, [tmp_path / "made_up_trip"])
    assert sys.getprofile() is before


def test_main_lists_the_files_of_both_trips(tmp_path, capsys):
    assert trips.main(["--list"]) == 0
    _, block, port = capsys.readouterr().out.split("\n\n")
    for text, name, root in ((block, "block", "flodl/"), (port, "port", "fdl_cli/porter/")):
        title, *files = text.splitlines()
        assert title == name
        assert files[0].split()[1].startswith(root)
        assert all((trips.ROOT / line.split()[1]).is_file() for line in files)


@pytest.fixture(scope="module")
def result():
    return json.loads((BENCHMARKS / "results" / "trips.json").read_text("utf-8"))


def test_result_names_its_commit_date_and_versions(result):
    measured = result["measured"]
    assert re.fullmatch(r"[0-9a-f]{40}", measured["commit"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", measured["date"])
    assert measured["python"]
    assert measured["versions"]["torch"]


def test_result_counts_both_trips_as_the_list_shows(result):
    assert list(result["trips"]) == list(trips.TRIPS)
    rows = [trips.row(name, numbers) for name, numbers in result["trips"].items()]
    assert "\n".join([*trips.HEAD, *rows]) in (BENCHMARKS / "README.md").read_text("utf-8")
    for numbers in result["trips"].values():
        assert 0 < numbers["files"] <= numbers["functions"] <= numbers["calls"]
        assert numbers["files"] - 1 <= numbers["changes"] < numbers["calls"]
