"""Golden cases: what was understood, decided, written and told, for one small file each."""

import ast
import re
from pathlib import Path

import pytest

from fdl_cli.porter.knowledge.reasons import REASONS
from fdl_cli.porter.parse.reader import decode
from fdl_cli.porter.pipeline import draft, understand
from fdl_cli.porter.port_file import port_file
from fdl_cli.porter.report.markdown import markdown

CASES = Path(__file__).parent / "cases"
PORTED = sorted(path.parent for path in CASES.glob("*/*/input.py") if path.parts[-3] != "refused")
REFUSED = sorted(path.parent for path in CASES.glob("refused/*/input.py"))

# Reasons that no file alone can show: a verification must run, or the porter must be at fault.
NOT_BY_TEXT = {"FDL209", "FDL321", "FDL322", "FDL401"}


def name(folder):
    return f"{folder.parent.name}-{folder.name}"


def port(folder):
    data = (folder / "input.py").read_bytes()
    return data, *port_file(data, Path("input.py"), None)


@pytest.mark.parametrize("folder", PORTED, ids=name)
def test_ported(folder, golden):
    data, outcome, made = port(folder)
    golden(folder / "ir.txt", outcome.ir)
    golden(folder / "plan.txt", outcome.plan + "\n")
    golden(folder / "expected.py", decode(made))
    golden(folder / "report.md", markdown(outcome))
    assert made != data
    ast.parse(made)
    again, _ = port_file(made, Path("input.py"), None)[1], None
    assert again == made


@pytest.mark.parametrize("folder", REFUSED, ids=name)
def test_refused(folder, golden):
    data, outcome, made = port(folder)
    golden(folder / "report.md", markdown(outcome))
    assert made == data
    assert all(item.status == "kept" for item in outcome.classes)
    for item in outcome.classes:
        for reason in item.reasons:
            assert reason.code in REASONS
            assert 1 <= reason.line <= data.count(b"\n") + 1


@pytest.mark.slow
def test_every_reason_has_a_case():
    shown = set()
    for folder in (*REFUSED, *PORTED):
        _, outcome, _ = port(folder)
        shown |= {reason.code for item in outcome.classes for reason in item.reasons}
    # Those of training code, FDL4xx, are about loops, and are expected by name where loops are tested.
    here = Path(__file__).parent
    files = [here / "test_training.py", here / "test_built_loops.py"]
    files += sorted((here.parent / "data" / "training").glob("*.py"))
    for file in files:
        shown |= set(re.findall(r"FDL4\d\d", file.read_text(encoding="utf-8")))
    assert shown | NOT_BY_TEXT == set(REASONS)


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize("folder", PORTED, ids=name)
def test_numbers(folder, tmp_path):
    """Every case runs on the runtime and computes the very same bits, with the same draws."""
    import torch

    results = []
    for number, data in enumerate(((folder / "input.py").read_bytes(), port(folder)[2])):
        space = {"__name__": f"case_{number}"}
        path = tmp_path / f"case_{number}.py"
        path.write_bytes(data)
        torch.manual_seed(0)
        exec(compile(data, str(path), "exec"), space)  # the cases are our own
        outputs = [space["check"]() for _ in range(2)]
        results.append((outputs, torch.rand(1)))
    assert repr(results[0]) == repr(results[1])


@pytest.mark.slow
def test_drafts_do_not_depend_on_each_other():
    data = [(folder / "input.py").read_bytes() for folder in PORTED]
    forward = [draft(*understand(item), {}).data for item in data]
    backward = [draft(*understand(item), {}).data for item in reversed(data)]
    assert forward == backward[::-1]


def test_no_stray_files():
    wanted = {"input.py", "ir.txt", "plan.txt", "expected.py", "report.md"}
    found = {
        path.name
        for path in CASES.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert found <= wanted | {"__init__.py"}
