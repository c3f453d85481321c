"""The way from `fdl TASK` to the task imports next to nothing, and does what the long way does."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # every test starts several processes

FDL = [sys.executable, "-P", "-m", "fdl_cli"]
ALLOWED = {
    "fdl_cli", "fdl_cli.app", "fdl_cli.commands", "fdl_cli.commands.registry", "fdl_cli.folders",
    "fdl_cli.manifest", "fdl_cli.manifest.discover", "fdl_cli.manifest.entry_arguments",
    "fdl_cli.manifest.entry_files", "fdl_cli.manifest.execute", "fdl_cli.manifest.fast",
    "fdl_cli.manifest.model", "fdl_cli.manifest.records", "fdl_cli.manifest.resolve",
    "fdl_cli.manifest.schema", "fdl_cli.manifest.schema_check", "fdl_cli.manifest.store",
    "fdl_cli.manifest.supervise", "fdl_cli.manifest.variables", "fdl_cli.manifest.words",
}  # fmt: skip
NEVER = {
    "typer", "rich", "yaml", "dataclasses", "inspect", "subprocess", "pathlib", "docker", "torch",
    "importlib.metadata", "shlex", "asyncio", "email", "hashlib",
}  # fmt: skip
PROBE = """
import json, os, sys
before = set(sys.modules)
def stop(file, argv, environ):
    print(json.dumps([[os.fsdecode(each) for each in argv], sorted(set(sys.modules) - before)]))
    sys.stdout.flush()
    os._exit(0)
os.execvpe = stop
from fdl_cli.app import main
main(tuple(sys.argv[1:]))
"""
MANIFEST = """
commands:
  line: {run: echo line}
  list: {run: [echo, list], append: [tail]}
  train: {entry: [./train.sh], options: {lr: 1}}
"""
SCRIPT = """#!/bin/sh
# answers --fdl-schema
echo '{"options": {"lr": {"type": "number"}}}'
"""
WORDS = [["line"], ["line", "--", "a b"], ["list"], ["list", "--", "x"], ["train", "--lr", "2"]]


@pytest.fixture
def project(tmp_path):
    (tmp_path / "fdl.yml").write_text(MANIFEST)
    (tmp_path / "train.sh").write_text(SCRIPT)
    (tmp_path / "train.sh").chmod(0o755)
    for words in (["line"], ["train"]):
        subprocess.run([*FDL, *words], cwd=tmp_path, check=True, capture_output=True)
    return tmp_path


def probe(project, words, environ=None):
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROBE, *words], cwd=project, capture_output=True, text=True,
        check=True, env={**os.environ, **(environ or {})},
    )  # fmt: skip
    argv, modules = json.loads(done.stdout)
    return argv, set(modules)


@pytest.mark.parametrize("words", WORDS)
def test_a_remembered_manifest_needs_no_more_than_this(project, words):
    _, modules = probe(project, words)
    assert {name for name in modules if name.startswith("fdl_cli")} <= ALLOWED
    assert not NEVER & modules


@pytest.mark.parametrize("words", WORDS)
def test_both_ways_run_the_same(project, words, tmp_path_factory):
    short, _ = probe(project, words)
    long, modules = probe(project, ["-q", *words])
    assert "fdl_cli.manifest.request" in modules
    assert short == long
    cold, modules = probe(project, words, {"XDG_CACHE_HOME": str(tmp_path_factory.mktemp("c"))})
    assert "yaml" in modules
    assert cold == short


@pytest.mark.parametrize("damage", [b"", b"\x00", b"not marshal", b"{"])
def test_a_damaged_memory_is_read_anew(project, damage, tmp_path):
    for path in (Path.home() / ".cache" / "flodl" / "manifests").iterdir():
        path.write_bytes(damage)
    argv, modules = probe(project, ["line"])
    assert argv == ["sh", "-c", "echo line", "fdl-line"]
    assert "yaml" in modules
    _, modules = probe(project, ["line"])
    assert "yaml" not in modules
