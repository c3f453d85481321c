"""Every kind of project passes its own checks, trains, resumes exactly and catches planted bugs."""

import ast
import itertools
import json
import os
import re
import shutil
import signal
import tomllib
import urllib.request

import pytest
import yaml

from docs._build.running import torchvision_starts
from fdl_cli.errors import ConfigError
from fdl_cli.scaffold.answers import make_answers
from fdl_cli.scaffold.record import read_record
from fdl_cli.scaffold.rendering import render
from tests.hugging_face import transformers
from tests.scaffold.conftest import make, run_in, snapshot

pytestmark = pytest.mark.slow

WISHES = [
    {"docker": docker, "with_hf": hf, "bare": bare}
    for docker, hf, bare in itertools.product((False, True), repeat=3)
]
NAMES = ("a", "my-proj", f"project-{'n' * 32}")

BASE = {
    ".gitignore", "README.md", "configs/debug.toml", "configs/default.toml",
    "configs/experiment/overfit.toml", "constraints.txt", "fdl.ci.yml", "fdl.yml", "pyproject.toml",
    "src/p/__init__.py", "src/p/__main__.py", "src/p/config.py", "src/p/data.py", "src/p/evaluate.py",
    "src/p/model.py", "src/p/py.typed", "src/p/train.py", "tests/conftest.py", "tests/test_cli.py",
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


def test_pre_commit_part_is_one_file_whose_hooks_are_tasks_of_the_project():
    plain = {file.path: file.text for file in render(make_answers("p"))}
    hooked = {file.path: file.text for file in render(make_answers("p", pre_commit=True))}
    config = yaml.safe_load(hooked.pop(".pre-commit-config.yaml"))
    assert hooked == plain
    tasks = yaml.safe_load(plain["fdl.yml"])["commands"]
    hooks = [hook for repo in config["repos"] for hook in repo["hooks"]]
    assert [hook["entry"] for hook in hooks] == ["fdl lint", "fdl types"]
    assert {hook["entry"].split()[1] for hook in hooks} <= tasks.keys()


@pytest.mark.parametrize("wishes", WISHES, ids=str)
def test_nothing_is_left_of_the_templates(wishes):
    for file in render(make_answers("some-name", **wishes)):
        text = re.sub(r"\$\{\{ matrix\.\w+ \}\}", "X", file.text)
        assert not re.search(r"\{\{|\}\}|\{%|%\}|__package__", text.replace("{}}", "")), file.path
        assert "__package__" not in file.path
        assert not text or text.endswith("\n"), file.path
        assert "\n\n\n\n" not in text, file.path
        assert not re.search(r"[ \t]+$", text, re.MULTILINE), file.path


@pytest.mark.parametrize("hf", [False, True])
def test_a_project_is_small_enough_to_read(hf):
    files = render(make_answers("p", docker=True, with_hf=hf))
    files = [file for file in files if file.path.startswith("src/")]
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
    hide_torchvision(root / "src")
    done = run_in(root, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert re.search(r"\b[3-9]\d passed", done.stdout), done.stdout


def hide_torchvision(folder):
    """Have each Python of the project do without one that does not start: transformers would load it."""
    if not torchvision_starts():
        (folder / "sitecustomize.py").write_text("import sys\nsys.modules['torchvision'] = None\n")


@pytest.mark.slow
@pytest.mark.torch
def test_it_trains_and_resumes_bit_for_bit_in_new_processes(tmp_path):
    import torch

    root = make(tmp_path / "my-proj")
    small = ["train.epochs=2", "data.samples=128", "train.device=cpu", "keep_checkpoints=5"]
    run_in(root, "-m", "my_proj", "train", "--output", "runs/whole", *small)
    shutil.copytree(root / "runs/whole", root / "runs/cut")
    for path in (root / "runs/cut/checkpoints").glob("step-000000004.*"):
        path.unlink()
    run_in(root, "-m", "my_proj", "resume", "cut")
    whole, cut = (weights(root / f"runs/{name}") for name in ("whole", "cut"))
    assert whole.keys() == cut.keys()
    assert all(torch.equal(whole[name], cut[name]) for name in whole)
    first, second = (
        json.loads(run_in(root, "-m", "my_proj", "eval", name).stdout) for name in ("whole", "cut")
    )
    assert first.pop("checkpoint") == "runs/whole/checkpoints/step-000000004.fdl"
    assert second.pop("checkpoint") == "runs/cut/checkpoints/step-000000004.fdl"
    assert first == second


@pytest.mark.slow
@pytest.mark.torch
def test_project_with_hf_trains_a_transformer_offline_and_learns(tmp_path):
    transformers()
    root = make(tmp_path / "my-proj", with_hf=True)
    hide_torchvision(root / "src")
    words = ["--output", "runs/one", "train.device=cpu", "train.epochs=3"]
    run_in(root, "-m", "my_proj", "train", *words)
    found = json.loads(run_in(root, "-m", "my_proj", "eval", "one").stdout)
    assert found["accuracy"] > 0.6  # by chance a quarter


def weights(run):
    """Return the tensors of the checkpoint after step 4 of a run."""
    from flodl.checkpoint.contents import open_contents

    contents = open_contents(run / "checkpoints/step-000000004.fdl")
    return {entry.name: contents.tensor(entry.name).clone() for entry in contents.entries()}


@pytest.mark.slow
@pytest.mark.torch
def test_run_of_a_new_project_appears_in_the_monitor(tmp_path):
    root = make(tmp_path / "my-proj")
    run_in(
        root, "-m", "my_proj", "train", "train.epochs=2", "data.samples=128", "train.device=cpu"
    )
    (run,) = (root / "runs").iterdir()
    shown = json.loads(run_in(root, "-m", "fdl_cli", "monitor", "runs", "--json").stdout)["data"]
    try:
        assert shown["runs"] == [run.name]
        address = f"http://127.0.0.1:{shown['port']}/api/history?run={run.name}"
        with urllib.request.urlopen(address, timeout=30) as answer:
            history = json.load(answer)
    finally:
        os.kill(shown["pid"], signal.SIGTERM)
    assert [each["epoch"] for each in history] == [1, 2]
    assert set(history[0]["metrics"]) == {"loss", "val_loss", "val_accuracy"}


@pytest.mark.slow
@pytest.mark.torch
def test_edited_default_file_decides_the_run_and_breaks_no_test(tmp_path):
    root = make(tmp_path / "my-proj")
    path = root / "configs/default.toml"
    text = path.read_text()
    for old, new in (
        ('name = "default"', 'name = "mine"'),
        ('output = "runs"', 'output = "elsewhere"'),
        ("samples = 2048", "samples = 96"),
        ("epochs = 5", "epochs = 3"),
        ('device = "auto"', 'device = "cpu"'),
        ("dropout = 0.1", "dropout = 0.4"),
    ):
        assert text.count(old) == 1
        text = text.replace(old, new)
    path.write_text(text)
    said = run_in(root, "-m", "my_proj", "train").stdout
    (run,) = (root / "elsewhere").iterdir()
    assert run.name.endswith("-mine")
    assert "epoch 3/3" in said
    assert json.loads(run_in(root, "-m", "my_proj", "eval").stdout)["loss"] > 0
    run_in(root, "-m", "pytest", "-q", "-p", "no:cacheprovider")


@pytest.mark.parametrize("part", ["monitor", "guide"])
def test_part_that_the_project_has_changes_nothing(tmp_path, part):
    root = make(tmp_path / "my-proj")
    before = snapshot(root)
    done = run_in(root, "-m", "fdl_cli", "add", part)
    assert "every file is as the templates have it" in done.stderr
    assert snapshot(root) == before


def test_record_of_an_earlier_project_with_the_monitor_part_is_read(tmp_path):
    root = make(tmp_path / "my-proj")
    path = root / ".fdl/scaffold.json"
    record = json.loads(path.read_text())
    record["answers"]["parts"].append("monitor")
    path.write_text(json.dumps(record))
    assert "base" in read_record(root).answers.parts
    record["answers"]["parts"].append("unheard-of")
    path.write_text(json.dumps(record))
    with pytest.raises(ConfigError, match="unheard-of"):
        read_record(root)


# What people break in training code: (file, the line, what it becomes, the tests that must fail).
BUGS = {
    "weights come from no seed": ("train.py", ".seed(config.seed)", "", "test_train.py"),
    "training begins again in place of a resume": (
        "train.py",
        'trainer.resume("auto")',
        'trainer.run_dir(folder / "again")',
        "test_train.py",
    ),
    "dropout stays on in evaluation": ("evaluate.py", "model.eval()", "pass", "test_train.py"),
    "every epoch has one order": ("data.py", 'shuffle=split == "train"', "shuffle=False", "test_data.py"),
    "the learning rate does not move": (
        "train.py",
        ".scheduler(lambda optimizer: LambdaLR(optimizer, partial(learning_rate_factor, config)))",
        "",
        "test_train.py",
    ),
    "gradients are not clipped": (
        "train.py", ".max_grad_norm(settings.clip_norm)", "", "test_train.py"
    ),
    "a fresh model is measured": (
        "evaluate.py", "load_checkpoint(path, model)", "str(load_checkpoint)", "test_train.py"
    ),
    "the default file is not read": (
        "config.py", "([DEFAULT] if DEFAULT.is_file() else []) + files", "files", "test_config.py"
    ),
    "the run that is named is not taken": (
        "__main__.py",
        "return run_resume(place or newest_run(), overrides)",
        "return run_resume(newest_run(), overrides)",
        "test_cli.py",
    ),
}  # fmt: skip


def test_every_combination_is_trained_and_tested_by_the_same_files():
    """What is shown of a combination below holds for all: only these files are different."""
    texts: dict[str, set[str]] = {}
    for wishes in WISHES:
        for file in render(make_answers("p", **wishes)):
            texts.setdefault(file.path, set()).add(file.text)
    different = {path for path, found in texts.items() if len(found) > 1}
    # Projects with another model and other data are tested for themselves.
    of_the_model = {
        "src/p/model.py",
        "src/p/data.py",
        "src/p/config.py",  # a setting of that model
        "configs/default.toml",
        "tests/test_model.py",
    }
    lists = {"README.md", "constraints.txt", "fdl.yml", "pyproject.toml"}
    assert different == lists | of_the_model
    assert all(len(texts[path]) == 2 for path in of_the_model)
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
    done = run_in(
        root, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"tests/{tests}", check=False
    )
    assert done.returncode == 1, f"nothing failed:\n{done.stdout}"
    # Only the test of the planted bug fails: the project itself is sound.
    assert re.search(r"\b[1-3] failed", done.stdout), done.stdout
