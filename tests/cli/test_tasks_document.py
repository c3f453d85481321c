"""docs/reference/tasks.md is true: its files make a project, its commands print what it shows."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from fdl_cli.manifest.reading.load import load
from fdl_cli.manifest.reading.rules import PROJECT_KEYS, SERVICE_KEYS, TASK_KEYS
from fdl_cli.manifest.schema import read_schema

TEXT = (Path(__file__).parent.parent.parent / "docs" / "reference" / "tasks.md").read_text(
    encoding="utf-8"
)


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


@pytest.fixture
def project(tmp_path):
    base, overlay, *_ = blocks("yaml")
    (tmp_path / "fdl.yml").write_text(base)
    (tmp_path / "fdl.ci.yml").write_text(overlay)
    (tmp_path / "train.py").write_text(blocks("py")[0])
    return tmp_path


def sessions():
    (console,) = blocks("console")
    for part in re.split(r"^\$ ", console, flags=re.MULTILINE)[1:]:
        command, _, printed = part.partition("\n")
        yield command, printed


@pytest.mark.slow
def test_the_commands_print_what_is_shown(project, tmp_path):
    tools = tmp_path / "tools"
    tools.mkdir()
    program = tools / "fdl"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m fdl_cli "$@"\n')
    program.chmod(0o755)
    environ = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "FDL_IN_CONTAINER": "0"}
    found = list(sessions())
    assert len(found) > 6
    for command, printed in found:
        done = subprocess.run(
            command, shell=True, cwd=project, env=environ, capture_output=True, text=True,
            check=False, timeout=60,
        )  # fmt: skip
        # `would run in FOLDER:` is a message; everything else is shown.
        said = re.sub(r"^would run.*\n", "", done.stderr, flags=re.MULTILINE)
        assert (said + done.stdout).replace(f"{project}/", "") == printed, command


def test_every_manifest_shown_is_valid(tmp_path):
    for text in blocks("yaml"):
        (tmp_path / "fdl.yml").write_text(text)
        load(tmp_path, None)
        assert yaml.safe_load(text)


def test_the_schema_shown_is_read():
    (text,) = blocks("json")
    assert len(read_schema(json.loads(text)).options) == 5


def test_every_key_is_explained():
    for keys in (PROJECT_KEYS, TASK_KEYS, SERVICE_KEYS):
        assert [name for name in keys if not re.search(rf"\b{re.escape(name)}\b", TEXT)] == []
