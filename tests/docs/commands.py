"""Checks of shell lines in documents: commands, options, programs and extras exist."""

import ast
import itertools
import json
import re
import tomllib

import jsonschema
import yaml

from fdl_cli.commands.command import CommandGroup
from fdl_cli.commands.execution import load
from fdl_cli.commands.parsing import parameters
from fdl_cli.commands.registry import COMMANDS, find, modes_of, take_mode
from fdl_cli.errors import FdlError
from fdl_cli.json_schema import envelope_schema
from fdl_cli.manifest.reading.load import load as load_manifest
from fdl_cli.scaffold.answers import make_answers
from fdl_cli.scaffold.rendering import render
from tests.docs.reading import ROOT, blocks, documents, name_of, read, spans, written

SHARED = {
    "--json", "--json-schema", "-v", "-vv", "-vvv", "-q", "--quiet", "--color", "--ansi",
    "--no-ansi", "--no-input", "--help", "-h", "--version",
}  # fmt: skip
# The languages of blocks; a test reads or runs the blocks of each.
LANGUAGES = {
    "python", "py", "sh", "text", "json", "yaml", "console", "diff",
    "python torch", "python flodl", "python setup", "python setup flodl",
}  # fmt: skip


# Pages that show a project; their commands run in it.
WITH_PROJECTS = ("tasks.md", "machines.md")


def lines_of(path):
    """Return every shell line of a document, from blocks and from inline code."""
    bodies = [block.body for block in blocks(path) if block.kind in ("sh", "console")]
    found = [line.removeprefix("$ ") for body in bodies for line in body.splitlines()]
    found += [span for _, span in spans(path)]
    return [line.partition("  #")[0].strip() for line in found]


def commands_in(path):
    """Return every command line of fdl in a document."""
    return [line for line in lines_of(path) if re.match(r"(\./)?fdl [^\n]", line)]


def tasks_known():
    """Return the tasks of a new project and of this checkout."""
    (manifest,) = (file.text for file in render(make_answers("p")) if file.path == "fdl.yml")
    texts = (manifest, read(ROOT / "fdl.yml"))
    return {name for text in texts for name in yaml.safe_load(text)["commands"]} | {"foo"}


def tasks_shown(path):
    """Return the tasks and overlays of the manifests that a page shows."""
    documents = [yaml.safe_load(block.body) for block in blocks(path) if block.kind == "yaml"]
    named = {name for each in documents for name in each.get("commands", {})}
    return named | set(re.findall(r"`fdl\.(\w+)\.yml`", read(path)))


def wrong_commands(root):
    """Find command lines of fdl with a word or an option that does not exist."""
    common = tasks_known()
    found = []
    for path in documents(root):
        tasks = common | (tasks_shown(path) if path.name in WITH_PROJECTS else set())
        for line in commands_in(path):
            # After a lone -- come words of a program of the user.
            words = line.replace("./fdl", "fdl").partition(" -- ")[0].split()[1:]
            if not words or words[0] in tasks or words[0].isupper() or words[0][0] == "-":
                continue
            found += [f"{name_of(root, path)}: {line}: {each}" for each in unknown_words(words)]
    return found


def unknown_words(words):
    """Return the words of a command line that fdl does not know."""
    entry = find(words[0])
    if entry is None:
        return [words[0]]
    mode, rest = take_mode(entry.name, words[1:])
    command = load(mode or entry)
    if isinstance(command, CommandGroup) and mode and len(command.commands) == 1:
        (command,) = command.commands.values()
    known = set(SHARED)
    if isinstance(command, CommandGroup):
        if rest and re.fullmatch(r"[a-z-]+", rest[0]):
            if rest[0] not in command.commands:
                return [rest[0]]
            known |= set(" ".join(parameters(command.commands[rest[0]].parse)).split())
    else:
        known |= set(" ".join(parameters(command.parse)).split())
        if mode is None:
            known |= {item.today.split()[-1] for item in modes_of(words[0])}
    return [
        word
        for word in rest
        if word.startswith("-") and word != "-" and word.partition("=")[0] not in known
    ]


def wrong_programs(root):
    """Find shell lines with a program of this checkout, or an option of one, that does not exist."""
    found = []
    for path in documents(root):
        for line in lines_of(path):
            run = re.match(r"python ((?:benchmarks|examples)/[\w/]+\.py)(.*)", line)
            if run is None:
                continue
            program = root / run[1]
            options = re.findall(r"(?<=\s)--[a-z][\w-]*", run[2])
            if not program.is_file() or any(
                f'"{option}"' not in read(program) for option in options
            ):
                found.append(f"{name_of(root, path)}: {line}")
    return found


def wrong_arguments(root):
    """Find files of this checkout that shell lines name and that do not exist, and unknown extras."""
    extras = tomllib.loads(read(ROOT / "pyproject.toml"))["project"]["optional-dependencies"]
    found = []
    for path in documents(root):
        for line in lines_of(path):
            if not re.match(r"(\./|\.venv/bin/)?(fdl|python|pip|torchrun)\b", line):
                continue
            named = re.findall(r"(?<=\s)(?:benchmarks|examples|tests|docs|\.ci)/[\w/.-]+", line)
            # `fdl run` and an example's port write such files.
            missing = [each for each in named if not (root / each).exists()]
            missing = [each for each in missing if not each.endswith("_flodl.py")]
            missing = [each for each in missing if "test_foo" not in each and each != "tests/..."]
            missing += [
                each
                for each in re.findall(r"flodl\[(\w+)\]|'\.\[(\w+)\]'", line)
                if not {*each} & {*extras}
            ]
            found += [f"{name_of(root, path)}: {line}: {each}" for each in missing]
    return found


def wrong_languages(root):
    """Find blocks without a known language, so that no test reads them, and code that is called output."""
    found = []
    for path in written(root):
        fences = re.findall(r"^```(.*)$", read(path), re.MULTILINE)
        strange = [each for each in fences[0::2] if each not in LANGUAGES] + [
            *filter(None, fences[1::2])
        ]
        found += [f"{name_of(root, path)}: block `{each}`" for each in strange]
        text, kinds = read(path), {block.kind for block in blocks(path)}
        for before, block in itertools.pairwise([None, *blocks(path)]):
            is_output = (
                before and before.kind == "python" and not text[before.end : block.start].strip()
            )
            if block.kind == "text" and not is_output and is_program(block.body):
                found.append(f"{name_of(root, path)}:{block.line}: a program in a block of text")
            elif block.kind == "py" and "python" in kinds:
                found.append(f"{name_of(root, path)}:{block.line}: `py` among blocks of `python`")
    return found


def is_program(text):
    """Return True if a text is a Python program: it has a statement that no output looks like."""
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return (
        re.search(r"^(?:import |from \w|def |class |\w+ = |print\()", text, re.MULTILINE)
        is not None
    )


def schema_of(document):
    for entry in COMMANDS:
        command = load(entry)
        group = command.commands.values() if isinstance(command, CommandGroup) else [command]
        for item in group:
            if item.schema == document["schema"]:
                return envelope_schema(item.schema, item.data)
    return envelope_schema(document["schema"], dict)


def wrong_json(root):
    """Find blocks of JSON that do not fit the schema that they name."""
    found = []
    for path in documents(root):
        for block in blocks(path):
            if block.kind != "json":
                continue
            try:
                document = json.loads(block.body)
                if "schema" in document:
                    jsonschema.validate(document, schema_of(document))
            except (ValueError, jsonschema.ValidationError) as error:
                found.append(f"{name_of(root, path)}:{block.line}: {str(error).splitlines()[0]}")
    return found


def wrong_manifests(root, folder):
    """Find blocks of YAML that are no manifest; they are written into a folder to be read."""
    found = []
    for path in written(root):
        for block in blocks(path):
            if block.kind != "yaml":
                continue
            (folder / "fdl.yml").write_text(block.body, encoding="utf-8")
            try:
                load_manifest(folder, None)
            except FdlError as error:
                found.append(f"{name_of(root, path)}:{block.line}: {error.message}")
    return found
