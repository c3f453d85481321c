"""Whole scripts: the same losses and weights under one seed, or the step at which they part."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from fdl_cli.app import main
from fdl_cli.porter.ir.evidence import ScriptOutcome, ScriptRequest
from fdl_cli.porter.verify import prove_script

pytestmark = [pytest.mark.torch, pytest.mark.slow]

SCRIPT = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 8)
        self.drop = nn.Dropout(0.3)
        self.b = nn.Linear(8, 2)

    def forward(self, x):
        return self.b(self.drop(torch.relu(self.a(x))))

net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(STEPS):
    optimizer.zero_grad()
    loss = net(torch.randn(5, 4)).square().mean()
    loss.backward()
    optimizer.step()
"""


def prove(tmp_path: Path, original: str, port: str) -> ScriptOutcome:
    first, second = tmp_path / "train.py", tmp_path / "train_flodl.py"
    first.write_text(original, encoding="utf-8")
    second.write_text(port, encoding="utf-8")
    workdir = tmp_path / "work"
    workdir.mkdir()
    return prove_script(
        ScriptRequest(
            original=first, ported=second, python=sys.executable, timeout_s=120.0,
            workdir=workdir, search_path=(tmp_path,),
        )
    )  # fmt: skip


def test_a_change_in_training_only_is_found_with_its_step(tmp_path: Path) -> None:
    text = SCRIPT.replace("STEPS", "20")
    changed = text.replace("    optimizer.step()", "    if step < 3: optimizer.step()")
    found = prove(tmp_path, text, changed)
    assert found.status == "different"
    assert "loss 5 is" in found.detail
    assert found.steps == 12


def test_other_random_numbers_are_found(tmp_path: Path) -> None:
    text = SCRIPT.replace("STEPS", "2")
    found = prove(tmp_path, text, text.replace("net = Net()", "net = Net(); torch.rand(1)"))
    assert found.status == "different"
    assert "loss 1 is" in found.detail


@pytest.mark.parametrize(
    ("text", "detail", "runs"),
    [
        ("import torch\nprint(torch.ones(1) + unknown)\n", "NameError", False),
        ("import torch\nimport nowhere_to_be_found\n", "nowhere_to_be_found", False),
        ("import torch\ntorch.ones(1)\n", "takes no optimizer step", True),
        ("import sys\nimport torch\nsys.exit(2)\n", "SystemExit: 2", False),
    ],
    ids=["raises", "imports", "never-trains", "wants-arguments"],
)
def test_a_script_that_shows_nothing_says_why(
    tmp_path: Path, text: str, detail: str, runs: bool
) -> None:
    found = prove(tmp_path, text, text)
    assert found.status == "not-run"
    assert detail in found.detail
    assert found.source_runs is runs


def test_random_numbers_of_the_system_are_no_difference(tmp_path: Path) -> None:
    text = SCRIPT.replace("STEPS", "3").replace(
        "(5, 4)", "(5, 4) * random.SystemRandom().random()"
    )
    found = prove(tmp_path, f"import random\n{text}", f"import random\n{text}")
    assert found.status == "not-run"
    assert "does not repeat itself" in found.detail


def test_the_report_of_a_port_has_the_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = "from tqdm import tqdm\nimport wandb\n" + SCRIPT.replace(
        "range(STEPS)", "tqdm(range(3))"
    )
    text += "wandb.log({'loss': loss.item()})\ntorch.save(net.state_dict(), 'net.pt')\n"
    (tmp_path / "train.py").write_text(text, encoding="utf-8")
    assert main(["port", "train.py", "--json"]) == 0
    (file,) = json.loads(capsys.readouterr().out)["data"]["files"]
    assert file["classes"][0]["verify"]["status"] == "equal"
    assert file["script"]["status"] == "equal"
    assert file["script"]["steps"] == 3
    assert len(file["script"]["losses"]) == 3
    assert "wandb" in file["script"]["detail"]
    assert not (tmp_path / "net.pt").exists()
