"""The limits that README and the skill name: `fdl port` keeps such classes and ports the others."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from flodl import FlowError, FlowModule

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
SKILL = ROOT / "skills" / "flodl-port" / "SKILL.md"
WORDS = ROOT / "skills" / "flodl-port" / "references" / "flow-words.md"

HEAD = "import torch\nfrom torch import nn\n\nCOUNT = 0\n"
CLASS = """

class {name}(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)

    def forward(self, x):
"""
# The word in the documents, the code of the report, and a forward that has it.
KEPT = {
    "`try`": ("FDL304", "try:\n    return self.body(x)\nexcept RuntimeError:\n    return x"),
    "`yield`": ("FDL305", "yield self.body(x)"),
    "`global`": ("FDL311", "global COUNT\nCOUNT = 1\nreturn self.body(x)"),
    "buffer": ("FDL309", "self.register_buffer('seen', x.detach())\nreturn self.body(x)"),
}
PORTED = {
    "loop": "while x.abs().sum() > 1:\n    x = self.body(x) * 0.1\nreturn x",
    "branch": "if x.sum() > 0:\n    return self.body(x)\nreturn -x",
    "number": "return self.body(x) * int(x.max().abs()) + x.sum().item()",
}


def ported(tmp_path, *options):
    source, forwards = HEAD, [body for _, body in KEPT.values()] + list(PORTED.values())
    for number, body in enumerate(forwards):
        lines = "".join(f"        {line}\n" for line in body.splitlines())
        source += CLASS.format(name=f"Net{number}") + lines
    path = tmp_path / "nets.py"
    path.write_text(source, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "fdl_cli", "port", str(path), "--json", *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    (file,) = json.loads(done.stdout)["data"]["files"]
    found = file["classes"]
    assert [item["name"] for item in found] == [f"Net{n}" for n in range(len(forwards))]
    return found[: len(KEPT)], found[len(KEPT) :]


def test_port_keeps_the_limits_that_the_documents_name(tmp_path):
    kept, others = ported(tmp_path, "--no-verify")
    assert [item["status"] for item in kept] == ["kept"] * len(KEPT)
    assert [{r["code"] for r in item["reasons"]} for item in kept] == [
        {code} for code, _ in KEPT.values()
    ]
    assert [item["status"] for item in others] == ["graph"] * len(PORTED)


@pytest.mark.slow
@pytest.mark.torch
def test_port_proves_loops_and_branches_on_tensor_values(tmp_path):
    _, others = ported(tmp_path, "--timeout", "400")
    assert [item["verify"]["status"] for item in others] == ["equal"] * len(PORTED)


@pytest.mark.parametrize("path", [README, SKILL], ids=lambda path: path.name)
def test_readme_and_skill_name_each_limit_in_one_sentence(path):
    text = re.sub(r"\s+", " ", path.read_text(encoding="utf-8"))
    (sentence,) = re.findall(r"[^.]*`try` block[^.]*\.", text)
    assert [word for word in KEPT if word not in sentence] == []


def rows():
    text = WORDS.read_text(encoding="utf-8")
    table = text[text.index("The value of a tensor needs a word") :]
    return re.findall(r"^\| `(.+)` \| `(.+)` \|$", table, re.MULTILINE)


def computed(statement, value):
    """Run one row's statement on `value`; return the value that it makes, or the branch taken."""
    if statement.startswith("while"):
        names = {"x": value, "torch": torch, "turns": 0}
        exec(f"{statement}\n    x, turns = x * 0.5, turns + 1", names)
        return names["x"]
    if statement.startswith("if"):
        names = {"x": value, "torch": torch}
        exec(f"y = x\n{statement}\n    y = x * 3", names)
        return names["y"]
    names = {"x": value, "torch": torch}
    exec(statement, names)
    (made,) = [target.id for target in ast.parse(statement).body[0].targets]
    return value * (sum(names[made]) if isinstance(names[made], list) else names[made])


@pytest.mark.torch
def test_every_row_on_tensor_values_computes_the_same_in_a_flow():
    found = rows()
    assert len(found) == 5

    class Written(FlowModule):
        def __init__(self, statement):
            super().__init__()
            self.statement = statement

        def flow(self, x):
            return computed(self.statement, x)

    for plain, worded in found:
        for example in (torch.tensor([1.5, 2.0]), torch.tensor([-1.0, 0.25])):
            expected = computed(plain, example)
            assert torch.equal(Written(worded)(example), expected), worded
        with pytest.raises(FlowError):
            Written(plain)(torch.tensor([1.5, 2.0]))
