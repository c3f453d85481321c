"""Every kind of project passes its own checks, trains, resumes exactly and catches planted bugs."""

import ast
import itertools
import json
import re
import shutil
import tomllib

import pytest

from fdl_cli.scaffold.answers import make_answers
from fdl_cli.scaffold.rendering import render
from tests.scaffold.conftest import make, run_in, snapshot

pytestmark = pytest.mark.slow

WISHES = [
    {"docker": docker, "with_hf": hf, "bare": bare}
    for docker, hf, bare in itertools.product((False, True), repeat=3)
]
NAMES = ("a", "my-proj", f"project-{'n' * 32}")

BASE = {
    ".gitignore", "README.md", "configs/debug.toml", "configs/default.toml",
    "configs/experiment/overfit.toml", "fdl.ci.yml", "fdl.yml", "pyproject.toml",
    "src/p/__init__.py", "src/p/__main__.py", "src/p/checkpoint.py", "src/p/config.py",
    "src/p/data.py", "src/p/evaluate.py", "src/p/model.py", "src/p/py.typed", "src/p/seeding.py",
    "src/p/train.py", "tests/conftest.py", "tests/test_checkpoint.py", "tests/test_cli.py",
    "tests/test_config.py", "tests/test_data.py", "tests/test_model.py", "tests/test_train.py",
}  # fmt: skip
GUIDE = {"AGENTS.md", "CLAUDE.md", ".editorconfig", ".gitattributes", ".github/workflows/ci.yml"}
DOCKER = {
    "Dockerfile", "compose.yml", "compose.gpu.yml", ".dockerignore", ".hadolint.yaml",
    ".github/workflows/docker.yml",
}  # fmt: skip
HF = {"src/p/encoder.py", "tests/test_encoder.py"}


@pytest.mark.parametrize("wishes", WISHES, ids=str)
def test_the_exact_set_of_files(wishes):
    expected = set(BASE)
    expected |= set() if wishes["bare"] else GUIDE
    expected |= DOCKER if wishes["docker"] else set()
    expected |= HF if wishes["with_hf"] else set()
    if wishes["docker"] and not wishes["bare"]:
        expected.add(".devcontainer/devcontainer.json")
    assert {file.path for file in render(make_answers("p", **wishes))} == expected


@pytest.mark.parametrize("wishes", WISHES, ids=str)
def test_nothing_is_left_of_the_templates(wishes):
    for file in render(make_answers("some-name", **wishes)):
        text = re.sub(r"\$\{\{ matrix\.\w+ \}\}", "X", file.text)
        assert not re.search(r"\{\{|\}\}|\{%|%\}|__package__", text.replace("{}}", "")), file.path
        assert "__package__" not in file.path
        assert not text or text.endswith("\n"), file.path
        assert "\n\n\n\n" not in text, file.path
        assert not re.search(r"[ \t]+$", text, re.MULTILINE), file.path


def test_a_project_is_small_enough_to_read():
    files = [f for f in render(make_answers("p", docker=True)) if f.path.startswith("src/")]
    assert sum(file.text.count("\n") for file in files) <= 600
    for file in files:
        if file.path.endswith(".py"):
            assert ast.get_docstring(ast.parse(file.text)), file.path


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("wishes", [WISHES[0], WISHES[-2], WISHES[-1]], ids=str)
def test_style_is_clean_whatever_the_name(tmp_path, wishes, name):
    root = make(tmp_path / name, **wishes)
    run_in(root, "-m", "ruff", "check", "--no-cache", ".")
    run_in(root, "-m", "ruff", "format", "--no-cache", "--check", ".")


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize("wishes", [{"docker": True, "with_hf": True}, {"bare": True}], ids=str)
def test_types_and_tests_pass(tmp_path, wishes):
    root = make(tmp_path / "my-proj", **wishes)
    run_in(root, "-m", "mypy", "--cache-dir", str(tmp_path / "mypy"))
    done = run_in(root, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert re.search(r"\b[3-9]\d passed", done.stdout), done.stdout


@pytest.mark.slow
@pytest.mark.torch
def test_it_trains_and_resumes_bit_for_bit_in_new_processes(tmp_path):
    root = make(tmp_path / "my-proj")
    small = ["train.epochs=2", "data.samples=128", "train.device=cpu", "keep_checkpoints=5"]
    run_in(root, "-m", "my_proj", "train", "--output", "runs/whole", *small)
    shutil.copytree(root / "runs/whole", root / "runs/cut")
    (root / "runs/cut/epoch-0002.pt").unlink()
    lines = (root / "runs/cut/metrics.jsonl").read_text().splitlines()
    (root / "runs/cut/metrics.jsonl").write_text(lines[0] + "\n")
    run_in(root, "-m", "my_proj", "resume", "runs/cut")
    whole, cut = (root / f"runs/{name}/metrics.jsonl" for name in ("whole", "cut"))
    assert cut.read_text() == whole.read_text()
    import torch

    first, second = (
        torch.load(root / f"runs/{name}/epoch-0002.pt", weights_only=True)
        for name in ("whole", "cut")
    )
    assert first["model"].keys() == second["model"].keys()
    assert all(torch.equal(first["model"][k], second["model"][k]) for k in first["model"])
    found = json.loads(run_in(root, "-m", "my_proj", "eval").stdout)
    assert found["epoch"] == 2
    assert set(snapshot(root)) - set(snapshot(make(tmp_path / "twin" / "my-proj"))) > {
        "runs/whole/epoch-0002.pt"
    }


# What people break in training code: (file, the line, what it becomes, the tests that must fail).
BUGS = {
    "random state is not restored": (
        "train.py", 'load_rng_state(state["rng"])', "pass", "test_train.py"
    ),
    "gradients are not cleared": (
        "train.py",
        "training.scaler.update()\n    training.optimizer.zero_grad(set_to_none=True)",
        "training.scaler.update()",
        "test_train.py",
    ),
    "dropout stays on in evaluation": ("evaluate.py", "model.eval()", "pass", "test_train.py"),
    "every epoch has one order": (
        "data.py", "seed * 1_000_003 + epoch", "seed * 1_000_003", "test_data.py"
    ),
    "a checkpoint is written in place": (
        "checkpoint.py",
        "temporary = Path(name)",
        "temporary = path",
        "test_checkpoint.py",
    ),
    "the learning rate does not move": (
        "train.py", "training.schedule.step()", "pass", "test_train.py"
    ),
}  # fmt: skip


def test_every_combination_is_trained_and_tested_by_the_same_files():
    """What is shown of one combination below holds for all: only these files are different."""
    texts: dict[str, set[str]] = {}
    for wishes in WISHES:
        for file in render(make_answers("p", **wishes)):
            texts.setdefault(file.path, set()).add(file.text)
    different = {path for path, found in texts.items() if len(found) > 1}
    assert different == {"README.md", "fdl.yml", "pyproject.toml"}
    tables = [
        {name: tomllib.loads(text)["tool"][name] for name in ("pytest", "ruff")}
        for text in texts["pyproject.toml"]
    ]
    assert all(table == tables[0] for table in tables)


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize("bug", BUGS)
def test_the_tests_of_a_project_catch(tmp_path, bug):
    file, line, broken, tests = BUGS[bug]
    root = make(tmp_path / "my-proj")
    path = root / "src/my_proj" / file
    text = path.read_text()
    assert text.count(line) == 1
    path.write_text(text.replace(line, broken))
    if bug == "a checkpoint is written in place":
        path.write_text(path.read_text().replace("os.fdopen(descriptor,", "open(path,"))
    done = run_in(
        root, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"tests/{tests}", check=False
    )
    assert done.returncode == 1, f"nothing failed:\n{done.stdout}"
    # Only the test of the planted bug fails: the project itself is sound.
    assert re.search(r"\b[1-3] failed", done.stdout), done.stdout
