"""The pages for the first minutes: their commands print what the pages show."""

import itertools
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

PAGES = Path(__file__).parents[2] / "docs" / "get-started"
IMAGES = PAGES.parent / "images"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(name):
    return FENCE.findall((PAGES / name).read_text(encoding="utf-8"))


def printed(folder, line):
    words = [sys.executable, "-m", "fdl_cli", *line.split()[1:]]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.replace(f"{folder}/", "")


@pytest.mark.slow
@pytest.mark.torch
def test_first_port_commands_print_and_write_what_the_page_shows(tmp_path):
    found = blocks("first-port.md")
    script, port = (body for language, body in found if language == "python")
    (tmp_path / "net.py").write_text(script, encoding="utf-8")
    compared = 0
    for (language, body), (following, output) in itertools.pairwise(found):
        if (language, following) == ("sh", "text"):
            assert printed(tmp_path, body.strip()) == output
            compared += 1
    assert compared == 2
    written = (tmp_path / "net_flodl.py").read_text(encoding="utf-8")
    assert port in written
    assert written.endswith(script[script.index("if __name__") :])


@pytest.mark.torch
def test_first_graph_picture_is_what_the_page_draws(tmp_path, golden):
    names = {"__name__": "__main__", "folder": tmp_path}
    torch.manual_seed(0)
    code = "\n".join(body for language, body in blocks("first-graph.md") if language == "python")
    exec(compile(code, "first-graph.md", "exec"), names)
    golden(IMAGES / "tiny.svg", (tmp_path / "tiny.svg").read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", sorted(PAGES.glob("*.md")), ids=lambda path: path.stem)
def test_page_ends_with_where_next(path):
    assert path.read_text(encoding="utf-8").split("\n## ")[-1].startswith("Where next\n")
