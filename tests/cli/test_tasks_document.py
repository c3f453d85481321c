"""The pages about tasks are true: their files make a project, their commands print what they show."""

import json
import re

import pytest

from fdl_cli.manifest.reading.rules import PROJECT_KEYS, SERVICE_KEYS, TASK_KEYS
from fdl_cli.manifest.schema import read_schema
from tests.docs.checks import PAGE_CHECKS
from tests.docs.reading import ROOT

PAGE = ROOT / "docs" / "reference" / "tasks.md"
TEXT = PAGE.read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize("page", ["reference/tasks.md", "how-to/machines.md"])
def test_the_commands_print_what_is_shown(page):
    assert PAGE_CHECKS["transcript"](ROOT, ROOT / "docs" / page) == []


def test_the_schema_shown_is_read():
    (text,) = blocks("json")
    assert len(read_schema(json.loads(text)).options) == 5


def test_every_key_is_explained():
    for keys in (PROJECT_KEYS, TASK_KEYS, SERVICE_KEYS):
        assert [name for name in keys if not re.search(rf"\b{re.escape(name)}\b", TEXT)] == []
