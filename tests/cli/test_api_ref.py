"""`fdl api-ref`: what it prints in each form, how quickly, and from which stored index."""

import json
import os
import resource
import subprocess
import sys
import zipfile
from pathlib import Path

import jsonschema
import pytest

from fdl_cli.apiref import quick


@pytest.fixture
def home(tmp_path):
    return {"FLODL_HOME": str(tmp_path / "home")}


def cached(home):
    return Path(quick.cache_path(f"{home['FLODL_HOME']}/cache"))


@pytest.mark.slow
def test_one_name(fdl, home):
    done = fdl("api-ref", "FlowBuilder.through", **home)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("FlowBuilder.through(")
    assert "flodl/builder/flow_builder.py:" in done.stdout


@pytest.mark.slow
def test_the_quick_way_prints_what_the_long_way_prints(fdl, home):
    long = fdl("--color", "never", "api-ref", "FlowModule", **home)
    stored = json.loads(cached(home).read_text())
    assert stored["state"] == quick.source_state()
    assert stored["texts"]["FlowModule"] + "\n" == long.stdout
    assert fdl("api-ref", "FlowModule", **home).stdout == long.stdout


@pytest.mark.slow
def test_a_stale_cache_is_not_believed(fdl, home):
    fdl("api-ref", "FlowModule", **home)
    path = cached(home)
    stored = json.loads(path.read_text())
    stored["state"], stored["texts"]["FlowModule"] = "old", "a lie"
    path.write_text(json.dumps(stored))
    assert "a lie" not in fdl("api-ref", "FlowModule", **home).stdout
    path.write_text("{ torn")
    assert fdl("api-ref", "FlowModule", **home).stdout.startswith("FlowModule")


@pytest.mark.slow
def test_a_cache_that_cannot_be_written_changes_nothing(fdl, tmp_path):
    (tmp_path / "blocked").write_text("a file, not a folder")
    done = fdl("api-ref", "FlowModule", FLODL_HOME=str(tmp_path / "blocked"))
    assert done.returncode == 0
    assert done.stdout.startswith("FlowModule")


@pytest.mark.parametrize(
    "arguments",
    [(), ("FlowBuilder",), ("--search", "merge"), ("--torch", "nn.Conv2d"), ("--llms",)],
    ids=" ".join,
)
@pytest.mark.slow
def test_json_fits_its_schema(fdl, home, arguments):
    schema = json.loads(fdl("api-ref", "--json-schema").stdout)
    done = fdl("api-ref", *arguments, "--json", **home)
    assert done.returncode == 0
    document = json.loads(done.stdout)
    jsonschema.validate(document, schema)
    assert document["data"]["text"]


@pytest.mark.slow
def test_failures_have_codes_and_hints(fdl, home):
    done = fdl("api-ref", "FlowBilder", **home)
    assert (done.returncode, done.stdout) == (4, "")
    assert "did you mean `fdl api-ref FlowBuilder`?" in done.stderr
    assert fdl("api-ref", "--torch", "nn.Conv9d", **home).returncode == 4
    assert fdl("api-ref", "--search", "zzzz", **home).returncode == 4
    assert fdl("api-ref", "Flow", "--search", "x", **home).returncode == 2
    bad = fdl("api-ref", "--diff", "none.json", **home)
    assert (bad.returncode, "none.json" in bad.stderr) == (3, True)


@pytest.mark.slow
def test_diff_with_an_older_version(fdl, home, tmp_path):
    document = json.loads(fdl("api-ref", "--json", **home).stdout)
    old = tmp_path / "old.json"
    old.write_text(json.dumps(document))
    same = fdl("api-ref", "--diff", "old.json", **home)
    assert (same.returncode, same.stdout) == (0, "nothing changed\n")
    document["data"]["entries"][0]["name"] = "flodl.Vanished"
    old.write_text(json.dumps(document))
    changed = fdl("api-ref", "--diff", "old.json", **home)
    assert changed.returncode == 1
    assert "removed: flodl.Vanished" in changed.stdout


@pytest.mark.slow
def test_budgets(fdl, home):
    assert len(fdl("api-ref", **home).stdout) <= 8001
    assert len(fdl("api-ref", "Flow", **home).stdout) <= 4001
    assert len(fdl("api-ref", "Flow", "--max-chars", "300", **home).stdout) <= 301
    full = fdl("api-ref", "--llms-full", **home).stdout
    assert "### `FlowBuilder`" in full
    assert "### nn.Module" in full
    assert fdl("api-ref", "Flow", "--markdown", **home).stdout.startswith("# flodl ")


def cpu_seconds(arguments, environ):
    best = 9.0
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, *arguments], env=environ, check=True, stdout=subprocess.DEVNULL
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        best = min(best, used)
    return best


@pytest.mark.slow
def test_a_look_up_is_quick(fdl, home):
    fdl("api-ref", "Flow", **home)
    environ = {**os.environ, **home}
    nothing = cpu_seconds(["-c", "pass"], environ)
    used = cpu_seconds(["-m", "fdl_cli", "api-ref", "FlowBuilder"], environ)
    # 60 ms where an empty interpreter takes 9 ms; a ratio, because machines differ.
    assert used <= max(0.060, 6.5 * nothing)


@pytest.mark.slow
def test_a_look_up_imports_next_to_nothing(home, fdl):
    fdl("api-ref", "Flow", **home)
    probe = (
        "import sys; from fdl_cli.app import main; main(('api-ref', 'Flow'));"
        "sys.stderr.write(' '.join(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe],
        env={**os.environ, **home},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(done.stderr.split())
    assert not loaded & {"typer", "rich", "torch", "flodl", "ast", "dataclasses", "inspect"}


@pytest.mark.slow
def test_a_wheel_holds_the_ready_index(tmp_path):
    root = Path(__file__).parent.parent.parent
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, root],
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    done = subprocess.run(
        [sys.executable, "-P", "-m", "fdl_cli", "api-ref", "FlowBuilder"],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(site), "HOME": str(tmp_path / "home")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("FlowBuilder(")
    assert not (tmp_path / "home").exists(), "the index of the wheel needs no cache"
