"""Loading a manifest: layers, children, and every problem with file, line and column."""

import pytest

from fdl_cli.errors import ConfigError, NotFoundError
from fdl_cli.manifest.describe import rows
from fdl_cli.manifest.project import require_root
from fdl_cli.manifest.reading.load import environments, load
from fdl_cli.manifest.resolve import find_task


def project(tmp_path, **files):
    for name, text in files.items():
        path = tmp_path / name.replace("__", "/").replace("_yml", ".yml").replace("_", ".")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return tmp_path


def tree(root, environment=None):
    return load(root, environment).tree


@pytest.mark.parametrize(
    ("text", "place", "words", "hint"),
    [
        ("discription: x\n", "1:1", "unknown key `discription`", "`description`"),
        ("commands:\n  t: {rum: x}\n", "2:7", "unknown key `rum`", "`run`"),
        ("commands:\n  t:\n    run: x\n    dockr: d\n", "4:5", "`dockr`", "`docker`"),
        ("commands: [a]\n", "1:1", "`commands` must be a mapping", "indent"),
        ("commands:\n  t: pytest\n", "2:3", "the task `t` must be a mapping", "run: ..."),
        ("commands:\n  t: {run: true}\n", "2:7", "must be text, not true", 'run: "true"'),
        ("commands:\n  t: {run: []}\n", "2:7", "empty list", "program"),
        ("commands:\n  t: {run: [a, true]}\n", "2:7", "no text", "quotes"),
        ("commands:\n  t: {run: {a: b}}\n", "2:7", "must be a list", "[...]"),
        ("commands:\n  t: {run: x, hidden: maybe}\n", "2:15", "true or false", "hidden: true"),
        ("commands:\n  t: {run: x, forward: auto-}\n", "2:15", "cannot be `auto-`", "`auto`"),
        ("commands:\n  t: {run: x, env: [A]}\n", "2:15", "`env` must be a mapping", "KEY"),
        ("commands:\n  t: {run: x, env: {A: [1]}}\n", "2:21", "`env.A` must be one", "text"),
        ("commands:\n  t: {run: x, env: {'A=B': 1}}\n", "2:21", "variable's name", "rename"),
        ("commands:\n  t: {description: x}\n", "2:3", "has nothing to run", "`run: ...`"),
        ("commands:\n  t: {run: x, entry: y}\n", "2:3", "`run` and `entry`", "one of them"),
        ("commands:\n  t: {entry: x, commands: {p: {schema: false}}}\n", "2:32",
         "belongs to `entry`", "remove"),
        ("commands:\n  t: {entry: x, append: y}\n", "2:17", "belongs to `run`", "remove"),
        ("commands:\n  t: {run: x, options: {a: 1}}\n", "2:15", "belongs to `entry`", "entry"),
        ("commands:\n  t: {run: x, training: {a: 1}}\n", "2:15", "`training`, which", "entry"),
        ("commands:\n  t: {run: x, output: {a: 1}}\n", "2:15", "`output`, which", "entry"),
        ("commands:\n  t: {entry: x, output: runs}\n", "2:17", "must be a mapping", "output"),
        ("commands:\n  t: {entry: x, training: {a: {b: 1}}}\n", "2:28", "one value", "text"),
        ("commands:\n  'a b': {run: x}\n", "2:3", "cannot be the name", "letters"),
        ("commands:\n  t: {path: sub}\n", "2:7", "no `sub/fdl.yml`", "create"),
        ("commands:\n  t:\n", "2:3", "the task `t` is empty", "{path: t}"),
        ("services:\n  d: {imag: x}\n", "2:7", "unknown key `imag`", "`image`"),
        ("services:\n  d: {build: {contxt: .}}\n", "2:15", "`contxt`", "`context`"),
        ("venv: true\n", "1:1", "must be text", "quotes"),
        ("torch: [a]\n", "1:1", "must be text", "one line"),
    ],
)  # fmt: skip
def test_a_problem_names_its_place(tmp_path, text, place, words, hint):
    root = project(tmp_path, fdl_yml=text)
    with pytest.raises(ConfigError) as caught:
        tree(root)
    assert words in caught.value.message
    assert hint in caught.value.hint
    assert caught.value.location == f"{tmp_path}/fdl.yml:{place}"


def test_all_problems_are_listed(tmp_path):
    text = "discription: x\ncommands:\n  t: {rum: x}\n  u: {run: x, hiden: true}\n"
    with pytest.raises(ConfigError) as caught:
        tree(project(tmp_path, fdl_yml=text, fdl_local_yml="vnev: x\n"))
    assert len(caught.value.causes) == 3
    assert "fdl.yml:3:7" in caught.value.causes[0]
    assert "fdl.local.yml:1:1" in caught.value.causes[2]


def test_layers_lie_in_order(tmp_path):
    root = project(
        tmp_path,
        fdl_yml="commands: {t: {run: base, env: {A: 1, B: 1, C: 1, D: 1}}}\n",
        fdl_ci_yml="inherit-from: slow\ncommands: {t: {env: {B: 3, C: 3}}}\n",
        fdl_slow_yml="commands: {t: {run: slow, env: {A: 2, B: 2, C: 2}}}\n",
        fdl_local_yml="commands: {t: {env: {C: 4, D: null}}}\n",
    )
    task = tree(root, "ci")["commands"]["t"]
    assert task == {"run": "slow", "env": {"A": "2", "B": "3", "C": "4"}}
    assert tree(root)["commands"]["t"]["env"] == {"A": "1", "B": "1", "C": "4"}
    assert environments(root) == ("ci", "slow")
    loaded = load(root, "ci")
    names = [path.name for path in loaded.files]
    assert names == ["fdl.yml", "fdl.slow.yml", "fdl.ci.yml", "fdl.local.yml"]
    assert loaded.digest != load(root, None).digest


def test_overlays_that_do_not_exist_or_run_in_circles(tmp_path):
    root = project(
        tmp_path, fdl_yml="", fdl_a_yml="inherit-from: b\n", fdl_b_yml="inherit-from: a"
    )
    with pytest.raises(NotFoundError, match=r"fdl\.zz\.yml"):
        tree(root, "zz")
    with pytest.raises(ConfigError, match="inherit from each other"):
        tree(root, "a")


def test_a_path_task_is_described_in_its_own_folder(tmp_path):
    root = project(
        tmp_path,
        fdl_yml="commands: {train: {path: train, env: {A: outer}}}\n",
        train__fdl_yml="entry: [python, main.py]\nenv: {A: inner, B: inner}\n"
        "options: {lr: 0.1}\ncommands: {quick: {options: {lr: 1}}}\n",
        train__fdl_ci_yml="options: {lr: 5}\n",
        fdl_ci_yml="{}",
    )
    task = tree(root)["commands"]["train"]
    assert task["path"] == f"{root}/train"
    assert task["env"] == {"A": "outer", "B": "inner"}
    assert task["options"] == {"lr": "0.1"}
    assert task["commands"] == {"quick": {"options": {"lr": "1"}}}
    assert tree(root, "ci")["commands"]["train"]["options"] == {"lr": "5"}


def test_a_folder_with_tasks_alone_is_a_group(tmp_path):
    root = project(
        tmp_path,
        fdl_yml="commands: {sub: {path: sub}}\n",
        sub__fdl_yml="env: {A: inner}\ncommands:\n  test: {run: make test}\n  lint: {run: [ruff]}\n",
    )
    stored = tree(root)
    assert [row.summary for row in rows(stored)] == ["test, lint"]
    found = find_task(stored, str(root), ("sub", "test"))
    assert found.folder == f"{root}/sub"
    assert found.task["run"] == "make test"


def test_a_group_wants_something_to_run_in_each_task(tmp_path):
    root = project(
        tmp_path,
        fdl_yml="commands: {sub: {path: sub}}\n",
        sub__fdl_yml="commands: {a: {options: {b: 1}}}\n",
    )
    with pytest.raises(ConfigError, match="the task `a` has nothing to run"):
        tree(root)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("fdl.yaml", "`mv fdl.yaml fdl.yml`: only `fdl.yml` is read"),
        ("fdl.json", "`mv fdl.json fdl.yml`: only `fdl.yml` is read"),
        ("fdl.yml.example", "`cp fdl.yml.example fdl.yml`: only `fdl.yml` is read"),
    ],
)
def test_a_manifest_of_another_name_is_named_with_the_command(tmp_path, name, hint):
    (tmp_path / name).write_text('{"commands": {"t": {"run": "true"}}}')
    with pytest.raises(NotFoundError, match=r"no `fdl\.yml`") as caught:
        require_root(tmp_path)
    assert caught.value.hint == hint
    below = tmp_path / "a b"
    below.mkdir()
    with pytest.raises(NotFoundError) as caught:
        require_root(below)
    assert f" {tmp_path}/{name} {tmp_path}/fdl.yml`" in caught.value.hint
    (tmp_path / name).rename(tmp_path / "fdl.yml")  # what was typed
    assert tree(require_root(below))["commands"] == {"t": {"run": "true"}}


def test_a_problem_in_a_child_names_the_child(tmp_path):
    root = project(
        tmp_path, fdl_yml="commands: {t: {path: sub}}\n", sub__fdl_yml="entry: x\nenrty: y\n"
    )
    with pytest.raises(ConfigError) as caught:
        tree(root)
    assert caught.value.location == f"{root}/sub/fdl.yml:2:1"


def test_folders_that_contain_each_other_end(tmp_path):
    root = project(tmp_path, fdl_yml="commands: {t: {path: s}}\n", s__fdl_yml="entry: x\n")
    (root / "s" / "fdl.yml").write_text("entry: x\ncommands: {u: {path: ../s}}\n")
    with pytest.raises(ConfigError, match="nests more than"):
        tree(root)


def test_a_file_that_cannot_be_read(tmp_path):
    (tmp_path / "fdl.yml").write_text("{}")
    (tmp_path / "fdl.local.yml").mkdir()
    with pytest.raises(ConfigError, match="cannot be read"):
        tree(tmp_path)
