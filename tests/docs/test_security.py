"""SECURITY.md names tests and pages that exist."""

import re
from pathlib import Path

from tests.campaigns import campaigns

ROOT = Path(__file__).parents[2]


def test_security_page_names_files_that_exist():
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    folder = ""
    named = re.findall(r"`((?:[\w/]*/)?test_\w+\.py)`|\]\(([\w/]+\.md)\)", text)
    assert len(named) > 10
    for test, page in named:
        path = test or page
        if "/" in path:
            folder = path.rpartition("/")[0]
        else:
            path = f"{folder}/{path}"  # beside the one that was named before
        assert (ROOT / path).is_file(), path


def test_security_page_campaigns_of_mutations_are_five():
    names = {each.name for each in campaigns() if each.test.endswith("ten_thousand_mutations")}
    assert names == {"load", "resume", "monitor", "manifest", "index"}
