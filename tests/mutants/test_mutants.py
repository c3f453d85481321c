"""Planted faults: each patch beside this file changes one line of the product, and a test must fail.

A patch opens with the tests that have to notice it:

    # tests: tests/flodl/test_world.py -k property
    diff --git a/flodl/tracing/reads/sources.py b/flodl/tracing/reads/sources.py

The folders are the classes of faults that made ports wrong without a message.
"""

import compileall
import os
import py_compile
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.fork_server import ForkServer

ROOT = Path(__file__).parents[2]
PATCHES = sorted(Path(__file__).parent.rglob("*.patch"))
CLASSES = {
    "bound-method-captured", "exception-path", "guard-dropped", "hook-order", "memory-format",
    "nested-constructor", "operands-swapped", "plan-key-shortened", "property-cached", "side-exit",
}  # fmt: skip
COPIED = ("flodl", "fdl_cli", "flodl_verify")
FAILED = 1  # pytest's exit code for failed tests; 2 to 5 say that none ran


def selection_of(patch):
    first = patch.read_text(encoding="utf-8").partition("\n")[0]
    assert first.startswith("# tests: "), f"{patch.name} names no tests"
    return shlex.split(first.removeprefix("# tests: "))


def test_mutants_are_four_in_each_class():
    found = {}
    for patch in PATCHES:
        found[patch.parent.name] = found.get(patch.parent.name, 0) + 1
    assert found == dict.fromkeys(CLASSES, 4)


@pytest.mark.parametrize("patch", PATCHES, ids=lambda each: f"{each.parent.name}/{each.stem}")
def test_mutant_applies_to_the_sources(patch):
    patched(ROOT, patch, "--check")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """Return a checkout whose sources are copies and whose other files are links.

    The bytecode beside the copies is valid by the hash of a source, not by its time and size, which a patch
    may leave as they are.
    """
    folder = tmp_path_factory.mktemp("mutants")
    for path in ROOT.iterdir():
        if path.name in COPIED:
            shutil.copytree(path, folder / path.name, ignore=shutil.ignore_patterns("__pycache__"))
            mode = py_compile.PycInvalidationMode.CHECKED_HASH
            compileall.compile_dir(folder / path.name, quiet=1, invalidation_mode=mode)
        elif path.name not in {".git", ".hypothesis", ".mypy_cache", ".ruff_cache"}:
            (folder / path.name).symlink_to(path)
    return folder


@pytest.fixture(scope="module")
def server():
    """Return a process that has imported torch, and forks for each run of pytest."""
    made = ForkServer(dict(os.environ), "pytest")
    yield made
    made.close()


def require_failure(server, checkout, selection):
    """Require that some of the selected tests run in a checkout, and fail."""
    words = ["-q", "-x", "-p", "no:cacheprovider", *selection]
    environ = {**os.environ, "PYTHONPATH": str(checkout)}
    done = server.run(words, checkout, environ, timeout=230)
    shown = done.stdout[-2000:] + done.stderr[-2000:]
    assert done.returncode == FAILED, shown
    assert " failed" in done.stdout.splitlines()[-1], shown


def patched(folder, patch, *options):
    command = ["git", "apply", *options, str(patch)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{patch.name} does not apply: {done.stdout}{done.stderr}"


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize("patch", PATCHES, ids=lambda each: f"{each.parent.name}/{each.stem}")
def test_mutant_makes_its_tests_fail(patch, checkout, server):
    patched(checkout, patch)
    try:
        require_failure(server, checkout, selection_of(patch))
    finally:
        patched(checkout, patch, "-R")
