"""`fdl init` and `fdl add`: plans, refusals, updates, what is printed where."""

import json
import subprocess
import sys

import jsonschema
import pytest

from fdl_cli.scaffold.record import RECORD
from tests.scaffold.conftest import snapshot


def test_a_project_with_git_and_next_steps(fdl, tmp_path):
    done = fdl("init", "my-proj")
    assert done.returncode == 0
    assert done.stdout.splitlines() == ["cd my-proj", "fdl train", "fdl check"]
    assert "create  src/my_proj/model.py" in done.stderr
    assert (tmp_path / "my-proj/.git").is_dir()
    assert [path.name for path in tmp_path.iterdir() if path.name != "home"] == ["my-proj"]


def test_no_second_repository_inside_one(fdl, tmp_path):
    (tmp_path / ".git").mkdir()
    fdl("init", "my-proj")
    assert not (tmp_path / "my-proj/.git").exists()


def test_without_git_there_is_a_project_and_a_warning(fdl, tmp_path):
    done = fdl("init", "my-proj", PATH="/nowhere")
    assert done.returncode == 0
    assert "warning[init-without-git]" in done.stderr
    assert (tmp_path / "my-proj/pyproject.toml").is_file()


def test_dry_run_writes_nothing(fdl, tmp_path):
    done = fdl("init", "my-proj", "--docker", "--dry-run", "--json")
    document = json.loads(done.stdout)
    jsonschema.validate(document, json.loads(fdl("init", "--json-schema").stdout))
    assert "Dockerfile" in [file["path"] for file in document["data"]["files"]]
    assert document["data"]["mode"] == "docker"
    assert not (tmp_path / "my-proj").exists()


@pytest.mark.slow
def test_existing_files_are_not_overwritten(fdl, tmp_path):
    root = tmp_path / "my-proj"
    root.mkdir()
    (root / "README.md").write_text("mine")
    done = fdl("init", "my-proj", "--yes")
    assert (done.returncode, "README.md" in done.stderr) == (6, True)
    assert snapshot(root) == {"README.md": b"mine"}
    assert fdl("init", "my-proj", "--skip-existing").returncode == 7
    assert snapshot(root) == {"README.md": b"mine"}
    assert fdl("init", "my-proj", "--skip-existing", "--yes").returncode == 0
    assert (root / "README.md").read_text() == "mine"
    assert (root / "src/my_proj/train.py").is_file()
    (root / "other.txt").write_text("stays")
    assert fdl("init", "my-proj", "--force", "--yes").returncode == 0
    assert (root / "README.md").read_text().startswith("# my-proj")
    assert (root / "other.txt").read_text() == "stays"


def test_init_in_place(fdl, tmp_path):
    root = tmp_path / "here"
    root.mkdir()
    done = fdl("init", ".", cwd=root)
    assert done.returncode == 0
    assert done.stdout.splitlines() == ["fdl train", "fdl check"]
    assert (root / "src/here/model.py").is_file()


@pytest.mark.parametrize(
    ("target", "name", "package"),
    [
        ("My Proj", "my-proj", "my_proj"), ("3D \u00dcnet!", "project-3d-unet", "project_3d_unet"),
        ("deep/er/_x_", "x", "x"), ("a/../Caf\u00e9 ", "cafe", "cafe"),
    ],
)  # fmt: skip
def test_init_name_that_is_no_package_is_changed_and_said(fdl, tmp_path, target, name, package):
    done = fdl("init", target, "--vcs", "none", "--json")
    document = json.loads(done.stdout)
    assert done.returncode == 0, done.stdout
    assert [document["data"][key] for key in ("name", "package")] == [name, package]
    root = (tmp_path / target).resolve().with_name(name)
    assert document["data"]["root"] == str(root)
    assert (root / "src" / package / "model.py").is_file()
    assert f'name = "{name}"' in (root / "pyproject.toml").read_text()
    (warning,) = [each for each in document["warnings"] if each["id"] == "init-renamed"]
    assert f"`{name}`" in warning["message"]
    assert f"`{package}`" in warning["message"]


def test_init_name_that_is_a_package_stays_without_a_word(fdl, tmp_path):
    done = fdl("init", "My_Proj.2", "--vcs", "none")
    assert (tmp_path / "My_Proj.2/src/my_proj_2/model.py").is_file()
    assert "init-renamed" not in done.stderr


def test_init_in_a_folder_with_a_blank_keeps_the_folder_and_changes_the_name(fdl, tmp_path):
    root = tmp_path / "My Proj"
    root.mkdir()
    assert fdl("init", "My Proj", "--vcs", "none").returncode == 0
    assert (root / "src/my_proj/model.py").is_file()
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "home") == ["My Proj"]
    again = fdl("init", ".", "--vcs", "none", "--yes", cwd=root)
    assert "warning[init-renamed]" in again.stderr


@pytest.mark.parametrize("word", ["class", "json"])
def test_init_name_of_an_existing_package_suggests_another(fdl, word):
    assert f"try `fdl init {word}-project`" in fdl("init", word).stderr


@pytest.mark.parametrize(
    "words",
    [
        (), ("torch",), ("\u65e5\u672c",), ("...x y" * 9,), ("Class",), ("class",), ("json",), ("x" * 41,),
        ("p", "--check"),
        ("p", "--update"), ("p", "--force", "--skip-existing"), ("p", "--from", "none.py"),
        ("p", "--from", "x.txt"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_mistakes_write_nothing(fdl, tmp_path, words):
    done = fdl("init", *words)
    assert done.returncode == 2
    assert "hint:" in done.stderr
    assert [path for path in tmp_path.iterdir() if path.name != "home"] == []


def test_a_folder_that_cannot_be_written(fdl, tmp_path):
    (tmp_path / "blocked").write_text("a file")
    done = fdl("init", "blocked/p")
    assert done.returncode == 1
    assert "error[project-write]" in done.stderr


def test_update_of_an_untouched_project_is_nothing(fdl, tmp_path):
    fdl("init", "p", "--vcs", "none")
    before = snapshot(tmp_path / "p")
    done = fdl("init", "--update", cwd=tmp_path / "p" / "src")
    assert (done.returncode, done.stdout) == (0, "")
    assert snapshot(tmp_path / "p") == before
    assert fdl("init", "--update", "--check", cwd=tmp_path / "p").returncode == 0


def older(root):
    """Change the record and the files as if the templates had changed since."""
    record = json.loads((root / RECORD).read_text())
    base = record["base"]
    base["fdl.ci.yml"] = "# old\n" + base["fdl.ci.yml"]
    base["src/p/train.py"] = base["src/p/train.py"].replace("The training step", "The old step")
    base["src/p/model.py"] = "# old model\n" + base["src/p/model.py"]
    base["configs/debug.toml"] = "# old\n" + base["configs/debug.toml"]
    for name in base:
        (root / name).write_text(base[name])
    (root / RECORD).write_text(json.dumps(record))


def test_update_replaces_merges_keeps_and_marks(fdl, tmp_path):
    fdl("init", "p", "--vcs", "none")
    root = tmp_path / "p"
    newest = snapshot(root)
    older(root)
    train = root / "src/p/train.py"
    train.write_text(train.read_text().replace("The old step", "My step") + "# mine\n")
    (root / ".gitignore").write_text("# all mine\n")
    (root / "tests/test_data.py").unlink()
    assert fdl("init", "--update", "--check", cwd=root).returncode == 6
    done = fdl("init", "--update", "--json", cwd=root)
    assert done.returncode == 6
    actions = {f["path"]: f["action"] for f in json.loads(done.stdout)["data"]["files"]}
    assert actions["fdl.ci.yml"] == "update"
    assert (root / "fdl.ci.yml").read_bytes() == newest["fdl.ci.yml"]
    assert actions["src/p/train.py"] == "conflict"
    assert "<<<<<<< yours" in train.read_text()
    assert train.read_text().endswith("# mine\n")
    assert actions["src/p/model.py"] == actions["configs/debug.toml"] == "skip"
    assert (root / "src/p/model.py").read_text().startswith("# old model")
    assert actions[".gitignore"] == "same"
    assert (root / ".gitignore").read_text() == "# all mine\n"
    assert actions["tests/test_data.py"] == "skip"
    assert not (root / "tests/test_data.py").exists()
    after = snapshot(root)
    again = fdl("init", "--update", cwd=root)
    assert again.returncode == 0, "the second run finds nothing to do"
    assert snapshot(root) == after


def test_update_of_a_lock_takes_the_template_or_leaves_it(fdl, tmp_path):
    fdl("init", "p", "--vcs", "none")
    root = tmp_path / "p"
    newest = (root / "constraints.txt").read_text()
    record = json.loads((root / RECORD).read_text())
    record["base"]["constraints.txt"] = older = newest.replace("ruff==", "ruff==0")
    (root / RECORD).write_text(json.dumps(record))
    (root / "constraints.txt").write_text(own := older.replace("rich==", "rich==0"))
    done = fdl("init", "--update", cwd=root)
    assert (root / "constraints.txt").read_text() == own
    assert "`fdl setup --lock` writes it" in done.stdout + done.stderr
    (root / RECORD).write_text(json.dumps(record))
    (root / "constraints.txt").write_text(older)
    assert fdl("init", "--update", cwd=root).returncode == 0
    assert (root / "constraints.txt").read_text() == newest


def test_uncommitted_changes_stop_an_update(fdl, tmp_path):
    fdl("init", "p")
    root = tmp_path / "p"
    older(root)
    git = ["git", "-C", root, "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-qm", "x"], check=True)
    (root / "README.md").write_text("dirty")
    done = fdl("init", "--update", cwd=root)
    assert (done.returncode, "error[project-dirty]" in done.stderr) == (6, True)
    assert fdl("init", "--update", "--allow-dirty", cwd=root).returncode == 0


def test_a_damaged_record_is_named(fdl, tmp_path):
    assert fdl("init", "--update").returncode == 4
    fdl("init", "p", "--vcs", "none")
    path = tmp_path / "p" / RECORD
    for text in ("{ torn", "{}", '{"format": 99}', "[]"):
        path.write_text(text)
        done = fdl("init", "--update", cwd=tmp_path / "p")
        assert (done.returncode, "scaffold.json" in done.stderr) == (3, True)


def test_add_docker_is_the_docker_project(fdl, tmp_path):
    fdl("init", "a/p", "--vcs", "none")
    fdl("init", "b/p", "--docker", "--vcs", "none")
    root = tmp_path / "a/p"
    readme = root / "README.md"
    place = "## Where to change what\n"
    readme.write_text(readme.read_text().replace(place, f"My own words.\n\n{place}"))
    assert fdl("add", "devcontainer", "--dry-run", cwd=root).returncode == 0
    assert not (root / "Dockerfile").exists()
    done = fdl("add", "devcontainer", cwd=root)
    assert done.returncode == 0, done.stderr
    assert "My own words." in readme.read_text()
    readme.write_text(readme.read_text().replace("My own words.\n\n", ""))
    assert snapshot(root) == snapshot(tmp_path / "b/p")


def test_add_flodl_hf_is_the_hf_part(fdl, tmp_path):
    fdl("init", "one", "--vcs", "none")
    done = fdl("add", "flodl-hf", "--json", cwd=tmp_path / "one")
    assert done.returncode == 0, done.stderr
    assert "hf" in json.loads(done.stdout)["data"]["parts"]
    assert (tmp_path / "one" / "src" / "one" / "encoder.py").is_file()


def test_add_pre_commit_is_the_project_with_it(fdl, tmp_path):
    fdl("init", "a/p", "--vcs", "none")
    fdl("init", "b/p", "--pre-commit", "--vcs", "none")
    assert fdl("add", "pre-commit", cwd=tmp_path / "a/p").returncode == 0
    assert (tmp_path / "a/p/.pre-commit-config.yaml").is_file()
    assert snapshot(tmp_path / "a/p") == snapshot(tmp_path / "b/p")


def test_add_outside_a_project(fdl):
    done = fdl("add", "docker")
    assert (done.returncode, "fdl init" in done.stderr) == (4, True)
    assert fdl("add", "balcony").returncode == 2


SCRIPT = """
import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        return torch.relu(self.fc(x))


if __name__ == "__main__":
    print(Net()(torch.ones(3, 4)).shape)
"""


@pytest.mark.slow
@pytest.mark.torch
def test_from_a_script(fdl, tmp_path):
    (tmp_path / "my net.py").write_text(SCRIPT)
    done = fdl("init", "p", "--from", "my net.py", "--vcs", "none")
    assert done.returncode == 0, done.stderr
    root = tmp_path / "p"
    assert "class Net(FlowModule)" in (root / "src/p/my_net.py").read_text()
    assert (root / "reference/my_net.py").read_text() == SCRIPT
    assert "src/p/my_net.py" in (root / "README.md").read_text()
    assert fdl("-n", "script", cwd=root).stdout == "python -m p.my_net\n"
    assert fdl("init", "q", "--vcs", "none").returncode == 0
    assert "script:" not in (tmp_path / "q" / "fdl.yml").read_text()
    for words in (("ruff", "check", "."), ("ruff", "format", "--check", "."), ("mypy",)):
        subprocess.run([sys.executable, "-m", *words], cwd=root, check=True, capture_output=True)


@pytest.mark.slow
def test_init_without_a_script_imports_no_framework(tmp_path):
    code = (
        "import sys; from fdl_cli.app import main;"
        "code = main(('init', 'p', '--vcs', 'none', '-q'));"
        "print(*sys.modules); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    modules = set(done.stdout.split())
    assert "jinja2" in modules
    assert not {"torch", "libcst", "httpx", "docker", "yaml", "rich"} & modules


SCRIPTS = {
    "one class": ("class Net: ...\n", ["Net"], "Net"),
    "a part and its whole": ("class A: ...\nclass B:\n    a = A()\n", ["A", "B"], "B"),
    "the whole stands first": (
        "class B:\n    def f(self): return A()\nclass A: ...\n",
        ["B", "A"],
        "B",
    ),
    "the script says which": ("class A: ...\nclass B: ...\nnet = A(3)\n", ["A", "B"], "A"),
    "made in a main": ("class A: ...\nclass B: ...\ndef main():\n    A()\n", ["A", "B"], "A"),
    "a name in a name": (
        "class Net: ...\nclass NetBlock: ...\nNet()\n",
        ["Net", "NetBlock"],
        "Net",
    ),
    "one that mentions itself": ("class A:\n    x: 'A'\n", ["A"], "A"),
    "none": ("x = 1\n", [], None),
}


@pytest.mark.parametrize(("source", "names", "expected"), SCRIPTS.values(), ids=SCRIPTS)
def test_the_class_that_looks_like_the_model(source, names, expected):
    from fdl_cli.commands.init_port import model_class

    assert model_class(source, names) == expected


def test_next_steps_are_the_start_of_the_readme(fdl, tmp_path):
    for words in (("plain",), ("image", "--docker")):
        done = fdl("init", *words, "--vcs", "none")
        readme = (tmp_path / words[0] / "README.md").read_text()
        start = readme.partition("```sh\n")[2].splitlines()[:2]
        shown = done.stdout.splitlines()[1:]
        assert [line.partition("#")[0].strip() for line in start] == shown
