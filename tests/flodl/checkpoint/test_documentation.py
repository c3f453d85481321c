"""The table of keys in `docs/reference/checkpoint-format.md` is the one that is written."""

import io
import re
from pathlib import Path

import pytest

from flodl.checkpoint.contents import open_contents
from tests.flodl.checkpoint.samples import net, saved

pytestmark = pytest.mark.torch

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "checkpoint-format.md").read_text(
    encoding="utf-8"
)


def test_every_key_is_documented():
    keys = open_contents(io.BytesIO(saved(net(), config="x"))).metadata
    documented = set(re.findall(r"`(fdl\.[a-z_]+|format)`", PAGE))
    assert set(keys) <= documented
