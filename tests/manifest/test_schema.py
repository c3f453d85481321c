"""Options of entries: asked from argparse, typer and click programs, checked before they start."""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import fdl_cli.entry_schema as asker
from fdl_cli.entry_schema import answer_schema, describe
from fdl_cli.manifest.entry_arguments import entry_arguments
from fdl_cli.manifest.model import Trouble
from fdl_cli.manifest.reading.manifest_schema import manifest_schema
from fdl_cli.manifest.resolve import find_task
from fdl_cli.manifest.schema import read_schema
from fdl_cli.manifest.schema_check import check_words, require_complete
from fdl_cli.manifest.words import divide


def parser():
    made = argparse.ArgumentParser(description="Train a model.")
    made.add_argument("--lr", "-l", type=float, default=0.1, help="learning rate")
    made.add_argument("--epochs", "-e", type=int, default=1)
    made.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    made.add_argument("--batch-size", type=int)
    made.add_argument("--verbose", "-v", action="store_true")
    made.add_argument("--quiet", "-q", action="store_true")
    made.add_argument("--amp", action=argparse.BooleanOptionalAction, default=False)
    made.add_argument("--sizes", type=int, nargs="+")
    made.add_argument("--tag", action="append")
    made.add_argument("--seed", type=int, required=True)
    made.add_argument("data")
    made.add_argument("more", nargs="*")
    return made


def schema():
    return read_schema(describe(parser()))


# What argparse itself says about each line is the oracle.
LINES = [
    "--seed 1 d", "--seed 1", "d", "--seed=1 d", "--seed x d", "--seed 1 d --lr 0.5",
    "--seed 1 d --lr", "--seed 1 d --lr x", "--seed 1 d --lr -1", "--seed 1 d --lr=-1e-3",
    "--seed 1 d -l0.5", "--seed 1 d -l 0.5", "--seed 1 d --device cpu", "--seed 1 d --device tpu",
    "--seed 1 d --zzz", "--seed 1 d -vq", "--seed 1 d -vqe5", "--seed 1 d -vz", "--seed 1 d -ex",
    "--seed 1 d --amp", "--seed 1 d --no-amp", "--seed 1 d --amp=1", "--seed 1 d --verbose=1",
    "--seed 1 --sizes 1 2 3 --lr 1 d", "--seed 1 d --sizes", "--seed 1 d --sizes 1 x",
    "--seed 1 d --tag a --tag b", "--seed 1 d e f", "--seed 1 d --batch-size 8",
    "--seed 1 d --batch-size 8.5", "--seed 1 d --epochs 1_000", "--seed 1 d --tag",
    "--seed +1 d", "--seed 1 -5 --lr 1",
]  # fmt: skip


@pytest.mark.parametrize("line", LINES)
def test_the_check_agrees_with_argparse(line, capsys):
    words = tuple(line.split())
    try:
        parser().parse_args(words)
        accepted = True
    except SystemExit:
        accepted = False
    try:
        given = check_words(schema(), words, "fdl train")
        require_complete(schema(), given.names, given, "fdl train")
        ours = True
    except Trouble:
        ours = False
    assert ours is accepted, (line, capsys.readouterr().err)


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ("--epoch 3", "`fdl train` has no option `--epoch`", "did you mean `--epochs`?"),
        ("--device gpu", "`--device` of `fdl train` cannot be `gpu`", "cuda"),
        ("--lr fast", "takes a number, not `fast`", "--help"),
        ("--epochs", "needs a value", "--epochs VALUE"),
        ("--amp=1", "takes no value", "`--amp` alone"),
    ],
)
def test_what_is_wrong_is_said(line, message, hint):
    with pytest.raises(Trouble) as caught:
        check_words(schema(), tuple(line.split()), "fdl train")
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_a_typer_program():
    app = typer.Typer()

    @app.command()
    def main(name: str, lr: float = 0.1, *, fast: bool = False, tag: list[str] | None = None):
        """Greet."""

    found = read_schema(describe(app))
    assert found.description == "Greet."
    assert [item.name for item in found.arguments] == ["name"]
    by_name = {item.name: item for item in found.options}
    assert by_name["lr"].type == "number"
    assert by_name["fast"].type == "flag"
    assert by_name["fast"].negated == ("--no-fast",)
    assert by_name["tag"].repeats


def test_subcommands_are_not_judged():
    made = argparse.ArgumentParser()
    made.add_argument("--lr", type=float)
    made.add_subparsers().add_parser("x")
    found = read_schema(describe(made))
    assert not found.strict
    assert check_words(found, ("x", "--zzz", "1"), "c").names == frozenset()


def sub_commands():
    made = argparse.ArgumentParser(prog="digits", epilog="See %(prog)s.")
    made.add_argument("--lr", type=float)
    inner = made.add_subparsers()
    train = inner.add_parser("train", epilog="settings:\n  seed=0\n")
    train.add_argument("--epochs", type=int)
    train.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    train.add_argument("rest", nargs="*", metavar="[RUN] [MORE ...]")
    return made


def test_describe_words_with_a_sub_command_returns_its_options():
    found = read_schema(describe(sub_commands(), ["--verbose", "train"]))
    assert [item.name for item in found.options] == ["epochs"]
    assert [item.name for item in found.arguments] == ["KEY=VALUE", "rest"]
    assert found.epilog == "settings:\n  seed=0"
    assert found.strict
    whole = read_schema(describe(sub_commands(), ["nothing-of-it"]))
    assert [item.name for item in whole.options] == ["lr"]
    assert (whole.strict, whole.epilog) == (False, "See digits.")


def test_answer_schema_words_with_a_sub_command_prints_its_options(capsys):
    with pytest.raises(SystemExit, match="0"):
        answer_schema(sub_commands(), ["train", "--fdl-schema"])
    assert list(json.loads(capsys.readouterr().out)["options"]) == ["epochs"]


def test_a_program_answers_by_itself(capsys):
    answer_schema(parser(), ["--lr", "1"])
    assert capsys.readouterr().out == ""
    with pytest.raises(SystemExit) as ended:
        answer_schema(parser(), ["--fdl-schema"])
    assert ended.value.code == 0
    assert "lr" in json.loads(capsys.readouterr().out)["options"]


ASKED = {
    "argparse": "import argparse\np = argparse.ArgumentParser()\np.add_argument('--lr', type=float)\n"
    "a = p.parse_args()\nraise SystemExit('it ran')\n",
    "typer": "import typer\ndef main(lr: float = 0.1): raise SystemExit('it ran')\n"
    "if __name__ == '__main__':\n    typer.run(main)\n",
    "typer app": "import typer\napp = typer.Typer()\n@app.command()\n"
    "def main(lr: float = 0.1): raise SystemExit('it ran')\nif __name__ == '__main__':\n    app()\n",
    "helper module": "import options\noptions.parse()\nraise SystemExit('it ran')\n",
}


@pytest.mark.parametrize("kind", ASKED)
def test_an_unchanged_program_is_stopped_at_its_parser(kind, tmp_path):
    (tmp_path / "options.py").write_text(
        "import argparse\ndef parse():\n p = argparse.ArgumentParser()\n"
        " p.add_argument('--lr', type=float)\n return p.parse_args()\n"
    )
    script = tmp_path / "train.py"
    script.write_text(ASKED[kind])
    words = [sys.executable, str(Path(asker.__file__)), str(script)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["options"]["lr"]["type"] == "number"
    module = [*words[:2], "-m", "train"]
    done = subprocess.run(module, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert json.loads(done.stdout)["options"]["lr"]["type"] == "number", done.stderr


def entry(configured, words, environ=None, **document):
    tree = {"commands": {"t": {"entry": ["x"], "options": configured}}}
    found = find_task(tree, "/", ("t", *words))
    return entry_arguments(found, read_schema(document), divide(found.words), environ or {})


LR = {"lr": {"type": "number", "env": "LR", "short": "l"}}
AMP = {"amp": {"type": "flag", "negated": ["--no-amp"]}}


@pytest.mark.parametrize(
    ("configured", "words", "environ", "result"),
    [
        ({"lr": "1"}, [], {}, ["--lr=1"]),
        ({"lr": "1"}, ["--lr", "2"], {}, ["--lr", "2"]),
        ({"lr": "1"}, ["-l2"], {}, ["-l2"]),
        ({"lr": "1"}, [], {"LR": "3"}, []),
        ({"lr": "1"}, ["--lr=2"], {"LR": "3"}, ["--lr=2"]),
        ({"amp": False}, [], {}, ["--no-amp"]),
        ({"amp": True}, ["--no-amp"], {}, ["--no-amp"]),
        ({}, ["--", "--unknown"], {}, ["--unknown"]),
    ],
)
def test_precedence_of_option_values(configured, words, environ, result):
    assert list(entry(configured, words, environ, options={**LR, **AMP})) == result


@pytest.mark.parametrize(
    ("configured", "message"),
    [({"lrr": "1"}, "fdl.yml sets the option `lrr`"), ({"lr": "x"}, "takes a number")],
)
def test_options_of_the_manifest_are_checked_too(configured, message):
    with pytest.raises(Trouble, match=message):
        entry(configured, [], options=LR)


@pytest.mark.parametrize(
    "document",
    [{"options": []}, {"args": {}}, {"options": {"a": 1}}, {"options": {"a": {"type": "zzz"}}}],
)
def test_a_document_of_another_form_is_refused(document):
    with pytest.raises(ValueError, match=r"option|args"):
        read_schema(document)


def test_the_schema_of_the_manifest_agrees_with_the_loader(tmp_path):
    import jsonschema
    import yaml

    from fdl_cli.errors import ConfigError
    from fdl_cli.manifest.reading.load import load

    validator = jsonschema.Draft202012Validator(manifest_schema())
    for text, valid in (
        ("commands: {t: {run: x, docker: dev, env: {A: 1}}}", True),
        ("commands: {t: {run: [a, 1]}}\nvenv: false\n", True),
        ("services: {d: {build: {context: .}, init: true}}", True),
        ("commands: {t: {rum: x}}", False),
        ("commands: {t: {run: x, forward: maybe}}", False),
        ("commands: {t: {run: []}}", False),
        ("services: {d: {imag: x}}", False),
        ("discription: x", False),
    ):
        (tmp_path / "fdl.yml").write_text(text)
        assert validator.is_valid(yaml.safe_load(text)) is valid, text
        try:
            load(tmp_path, None)
            loaded = True
        except ConfigError:
            loaded = False
        assert loaded is valid, text


SECTIONS = {
    "commands": {
        "train": {
            "entry": ["x"],
            "training": {"epochs": "100", "batch_size": "64", "seed": "7"},
            "output": {"dir": "runs/full", "monitor": True},
            "options": {"lr": "0.1"},
            "commands": {
                "quick": {"training": {"epochs": "1"}, "output": {"dir": "runs/quick"}},
                "odd": {"options": {"batch-size": "8", "output-dir": "here"}},
            },
        }
    }
}
INTEGER, TEXT, FLAG = {"type": "integer"}, {"type": "text"}, {"type": "flag"}
KNOWN = {
    "epochs": INTEGER, "batch-size": INTEGER, "seed": INTEGER, "lr": {"type": "number"},
    "monitor": FLAG,
}  # fmt: skip


def arguments(words, options=None, tree=SECTIONS):
    found = find_task(tree, "/", words)
    schema = None if options is None else read_schema({"options": options})
    return entry_arguments(found, schema, divide(found.words), {})


@pytest.mark.parametrize("where", ["output-dir", "output_dir", "dir", "output"])
def test_sections_of_a_preset_become_the_options_of_the_program(where):
    known = {**KNOWN, where: TEXT}
    assert arguments(("train",), known) == (
        "--epochs=100", "--batch-size=64", "--seed=7", f"--{where}=runs/full", "--monitor", "--lr=0.1",
    )  # fmt: skip
    assert arguments(("train", "quick", "--seed", "8"), known) == (
        "--epochs=1", "--batch-size=64", f"--{where}=runs/quick", "--monitor", "--lr=0.1", "--seed", "8",
    )  # fmt: skip


def test_preset_replaces_an_option_whichever_section_and_spelling_it_is_in():
    found = arguments(("train", "odd"), {**KNOWN, "output-dir": TEXT})
    assert [word for word in found if "batch" in word or "dir" in word] == [
        "--batch-size=8",
        "--output-dir=here",
    ]
    without = arguments(("train", "odd"))
    assert "--batch-size=8" in without
    assert "--batch-size=64" not in without


def test_sections_without_a_schema_are_options_of_the_same_name():
    assert arguments(("train",))[:4] == (
        "--epochs=100", "--batch-size=64", "--seed=7", "--dir=runs/full",
    )  # fmt: skip


def test_options_win_over_sections_of_the_same_task():
    tree = {"commands": {"t": {"entry": ["x"], "options": {"lr": "3"}, "training": {"lr": "1"}}}}
    assert arguments(("t",), KNOWN, tree) == ("--lr=3",)


def test_key_of_a_section_that_the_program_lacks_is_named():
    with pytest.raises(Trouble, match="sets the option `dir`, which `fdl train` does not have"):
        arguments(("train",), KNOWN)
