"""The programs in `docs/how-to/checkpoints.md` run, and its table of keys is the one that is written."""

import io
import re
from pathlib import Path

import pytest

from flodl.checkpoint.contents import open_contents
from tests.flodl.checkpoint.samples import net, saved

pytestmark = pytest.mark.torch

PAGE = (Path(__file__).parents[3] / "docs" / "how-to" / "checkpoints.md").read_text(
    encoding="utf-8"
)


def test_the_programs_run_in_order(tmp_path):
    programs = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(programs) >= 5
    names = {"folder": tmp_path}
    for program in programs:
        exec(program, names)


def test_every_key_is_documented():
    keys = open_contents(io.BytesIO(saved(net(), config="x"))).metadata
    documented = set(re.findall(r"`(fdl\.[a-z_]+|format)`", PAGE))
    assert set(keys) <= documented
