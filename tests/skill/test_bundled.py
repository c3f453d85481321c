"""The bundled skills keep the rules of the format, and say only what is so."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fdl_cli import __version__
from fdl_cli.commands.execution import load
from fdl_cli.commands.parsing import parameters
from fdl_cli.commands.registry import find
from fdl_cli.errors import ConfigError
from fdl_cli.porter.knowledge.reasons import REASONS
from fdl_cli.skill.bundled import bundled_skills, find_skill, read_skill

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / "skills" / "flodl-port"
TEXTS = sorted(FOLDER.rglob("*.md"))
SHARED = {"--json", "--version", "--help"}


def test_the_skill_keeps_the_rules():
    (skill,) = bundled_skills()
    assert skill.name == "flodl-port"
    assert skill.description.startswith("Port ")
    assert "Use when" in skill.description
    assert len(skill.body) / 4 < 5000, "the body is meant to be read whole"
    for path in TEXTS:
        depth = len(path.relative_to(FOLDER).parts)
        assert depth <= 2, "references are one level deep"


def test_the_skill_is_of_this_version():
    assert find_skill("flodl-port").version == __version__


def test_links_lead_somewhere():
    for path in TEXTS:
        for target in re.findall(r"\]\(([^)#]+)\)", path.read_text()):
            assert (path.parent / target).is_file(), f"{path.name}: {target}"
    assert (FOLDER / "scripts/check.py").is_file()


def test_every_command_and_option_exists():
    seen = set()
    for path in TEXTS:
        for line in re.findall(r"(?:^|`)(fdl [^`\n]+)", path.read_text(), re.MULTILINE):
            words = line.split()[1:]
            if words[0].startswith("--"):
                continue
            entry = find(words[0])
            assert entry is not None, line
            loaded = load(entry)
            command = loaded if hasattr(loaded, "parse") else loaded.commands[words[1]]
            known = {w for item in parameters(command.parse) for w in item.split()} | SHARED
            assert {w for w in words if w.startswith("--")} <= known, line
            seen.add(words[0])
    assert seen == {"port", "api-ref", "skill"}


def test_every_reason_of_the_porter_is_explained():
    text = (FOLDER / "references/leftovers.md").read_text()
    assert set(re.findall(r"^\| (FDL\d+) ", text, re.MULTILINE)) == set(REASONS)


def test_fields_of_the_report_exist():
    from fdl_cli.json_schema import envelope_schema

    command = load(find("port"))
    schema = json.dumps(envelope_schema(command.schema, command.data))
    for field in ("files", "classes", "status", "reasons", "line", "code", "verify", "detail"):
        assert f'"{field}"' in schema
    for word in ("graph", "partial", "kept", "equal", "close", "different", "not-run"):
        assert f'"{word}"' in schema
        assert f"`{word}`" in (FOLDER / "SKILL.md").read_text()


@pytest.mark.torch
def test_the_example_runs_and_prints_what_it_says(capsys):
    text = (FOLDER / "references/flow-words.md").read_text()
    ((code, printed),) = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", text, re.DOTALL)
    exec(compile(code, "flow-words.md", "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out == printed


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("---\nname", "name"),
        ("name: flodl-port", "name: other"),
        ("description: Port", f"description: {'x' * 1100} Port"),
        ('version: "0', 'virsion: "0'),
        ("# Port PyTorch code", "\n" * 500 + "# Port PyTorch code"),
    ],
)
def test_a_broken_skill_is_refused(tmp_path, old, new):
    folder = tmp_path / "flodl-port"
    folder.mkdir()
    text = (FOLDER / "SKILL.md").read_text()
    assert old in text
    (folder / "SKILL.md").write_text(text)
    read_skill(folder)
    (folder / "SKILL.md").write_text(text.replace(old, new, 1))
    with pytest.raises(ConfigError):
        read_skill(folder)


ORIGINAL = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, size=4):
        super().__init__()
        self.fc = nn.Linear(size, 2)

    def forward(self, x):
        return torch.relu(self.fc(x))
"""
PORTED = """
import torch
from flodl import Flow, FlowModule
from torch import nn


class Net(FlowModule):
    def __init__(self, size=4):
        super().__init__()
        self.fc = nn.Linear(size, 2)

    def flow(self, x: Flow) -> Flow:
        return x.through(self.fc).through(torch.relu)
"""


@pytest.mark.slow
@pytest.mark.torch
def test_the_check_script_tells_right_from_wrong(tmp_path):
    import os

    environ = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    (tmp_path / "old.py").write_text(ORIGINAL)
    (tmp_path / "new.py").write_text(PORTED)
    (tmp_path / "bad.py").write_text(PORTED.replace("relu", "tanh"))

    def check(*words):
        done = subprocess.run(
            [sys.executable, FOLDER / "scripts/check.py", *words],
            cwd=tmp_path, env=environ, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.returncode, json.loads(done.stdout)

    example = ("--example", "Net(4): torch.randn(2, 4)")
    code, verdict = check("old.py", "new.py", *example)
    assert (code, verdict["proved"], verdict["stale"]) == (0, True, False)
    assert [(c["name"], c["proof"]) for c in verdict["classes"]] == [("Net", "equal")]
    code, verdict = check("old.py", "bad.py", *example)
    assert (code, verdict["proved"], verdict["classes"][0]["proof"]) == (1, False, "different")
    code, verdict = check("old.py", "none.py")
    assert code == 2
    assert "none.py" in verdict["error"]
