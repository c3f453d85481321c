"""What the documents say is so: code runs, output is real, links and options exist."""

import json
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml

from fdl_cli.commands.command import CommandGroup
from fdl_cli.commands.execution import load
from fdl_cli.commands.parsing import parameters
from fdl_cli.commands.registry import COMMANDS, find, modes_of, take_mode
from fdl_cli.json_schema import envelope_schema
from fdl_cli.scaffold.answers import make_answers
from fdl_cli.scaffold.rendering import render

ROOT = Path(__file__).parent.parent.parent
DOCUMENTS = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
# Its examples are fragments, written by the code that they explain; its own tests compare them.
GENERATED = {ROOT / "docs" / "explanation" / "porter.md"}
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHARED = {
    "--json", "--json-schema", "-v", "-vv", "-vvv", "-q", "--quiet", "--color", "--ansi",
    "--no-ansi", "--no-input", "--help", "-h", "--version",
}  # fmt: skip


def name(path):
    return str(path.relative_to(ROOT))


def blocks(path):
    """Return (language, text, line) of every code block."""
    text = path.read_text(encoding="utf-8")
    return [
        (found.group(1), found.group(2), text[: found.start()].count("\n") + 1)
        for found in FENCE.finditer(text)
    ]


def commands_in(path):
    """Return every command line of fdl in a document, from blocks and from inline code."""
    text = path.read_text(encoding="utf-8")
    found = [line for kind, body, _ in blocks(path) if kind == "sh" for line in body.splitlines()]
    found += re.findall(r"`((?:\./)?fdl [^`\n]+)`", FENCE.sub("", text))
    return [line.partition("  #")[0].strip() for line in found if re.match(r"(\./)?fdl ", line)]


def test_every_fence_has_a_language():
    for path in set(DOCUMENTS) - GENERATED:
        fences = re.findall(r"^```(.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
        assert all(fences[0::2]), name(path)
        assert not any(fences[1::2]), name(path)


@pytest.mark.torch
@pytest.mark.parametrize(
    "path",
    [p for p in DOCUMENTS if p not in GENERATED and any(b[0] == "python" for b in blocks(p))],
    ids=name,
)
def test_python_blocks_run_and_print_what_follows(path, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__main__", "folder": tmp_path}  # documents may write to `folder`
    found = blocks(path)
    for index, (language, body, line) in enumerate(found):
        if language != "python":
            continue
        # Padding puts the document's own line numbers into a traceback.
        exec(compile("\n" * line + body, name(path), "exec"), namespace)
        printed = capsys.readouterr().out
        after = found[index + 1] if index + 1 < len(found) else ("", "", 0)
        if printed and after[0] == "text":
            assert printed.strip() == after[1].strip()


def tasks_of_a_new_project():
    (manifest,) = (file.text for file in render(make_answers("p")) if file.path == "fdl.yml")
    return set(yaml.safe_load(manifest)["commands"])


def tasks_of_this_checkout():
    manifest = (ROOT / "fdl.yml").read_text(encoding="utf-8")
    return set(yaml.safe_load(manifest)["commands"])


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_commands_and_options_exist(path):
    wrong = []
    tasks = tasks_of_a_new_project() | tasks_of_this_checkout() | {"foo"}
    for line in commands_in(path):
        # After a lone -- come words of a program of the user.
        words = line.replace("./fdl", "fdl").partition(" -- ")[0].split()[1:]
        if not words or words[0] in tasks or words[0].isupper() or words[0][0] == "-":
            continue
        entry = find(words[0])
        if entry is None:
            wrong.append(line)
            continue
        mode, rest = take_mode(entry.name, words[1:])
        command = load(mode or entry)
        if isinstance(command, CommandGroup) and mode and len(command.commands) == 1:
            (command,) = command.commands.values()
        words = [words[0], *rest]
        known = set(SHARED)
        if isinstance(command, CommandGroup):
            if len(words) > 1 and re.fullmatch(r"[a-z-]+", words[1]):
                if words[1] not in command.commands:
                    wrong.append(line)
                    continue
                known |= set(" ".join(parameters(command.commands[words[1]].parse)).split())
        else:
            known |= set(" ".join(parameters(command.parse)).split())
            if mode is None:
                known |= {item.today.split()[-1] for item in modes_of(words[0])}
        wrong += [
            f"{line}: {word}"
            for word in words
            if word.startswith("-") and word != "-" and word.partition("=")[0] not in known
        ]
    assert wrong == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_links_lead_somewhere(path):
    text = re.sub(
        r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    text = re.sub(r"`[^`\n]*`", "", text)  # `[a, b][k](x)` is no link
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", text)
    local = [target for target in targets if "://" not in target]
    assert [target for target in local if not (path.parent / target).exists()] == []


def schema_of(document):
    for entry in COMMANDS:
        command = load(entry)
        group = command.commands.values() if isinstance(command, CommandGroup) else [command]
        for item in group:
            if item.schema == document["schema"]:
                return envelope_schema(item.schema, item.data)
    return envelope_schema(document["schema"], dict)


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_json_blocks_fit_their_schema(path):
    for language, body, line in blocks(path):
        if language != "json":
            continue
        document = json.loads(body)
        if "schema" in document:
            jsonschema.validate(document, schema_of(document))
        else:
            assert isinstance(document, dict | list), f"{name(path)}:{line}"


def test_the_error_shown_is_the_error_printed(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "fdl_cli", "prot"],
        cwd=tmp_path,  # in a project, it might be a task
        capture_output=True,
        text=True,
        check=False,
    )
    manual = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    assert f"```text\n{done.stderr}```" in manual


def test_the_map_of_rooms_is_complete():
    text = (ROOT / "docs" / "project" / "architecture.md").read_text(encoding="utf-8")
    rooms = text[text.index("## Who may import whom") : text.index("| Rule | Why |")]
    drawn = set(re.findall(r"\w+", rooms))
    missing = [
        name(path)
        for package in ("fdl_cli", "flodl", "flodl_verify")
        for path in sorted((ROOT / package).iterdir())
        if (path / "__init__.py").exists() or path.suffix == ".py"
        if not path.stem.startswith("__") and path.stem not in drawn
    ]
    assert missing == []


def test_runtime_page_names_files_that_exist():
    text = (ROOT / "docs" / "explanation" / "runtime.md").read_text(encoding="utf-8")
    named = re.findall(r"`(\w+(?:/\w+)+\.py)`", text)
    assert len(named) > 15
    assert [path for path in named if not (ROOT / "flodl" / path).is_file()] == []


@pytest.mark.slow
@pytest.mark.torch
def test_the_first_command_of_the_readme(tmp_path):
    lines = [line for kind, body, _ in blocks(ROOT / "README.md") for line in body.splitlines()]
    first = next(line for line in lines if line.startswith("./fdl "))
    assert first == "./fdl port examples/pytorch/resnet_cifar.py"
    script = tmp_path / "examples" / "pytorch" / "resnet_cifar.py"
    script.parent.mkdir(parents=True)
    script.write_bytes((ROOT / "examples" / "pytorch" / "resnet_cifar.py").read_bytes())
    done = subprocess.run(
        [sys.executable, "-m", "fdl_cli", *first.split()[1:], "--json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (file,) = json.loads(done.stdout)["data"]["files"]
    statuses = {(item["status"], item["verify"]["status"]) for item in file["classes"]}
    assert statuses == {("graph", "equal")}
    assert script.with_name("resnet_cifar_flodl.py").is_file()
