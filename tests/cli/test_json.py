"""Every command's `--json` is one document, and its schema describes it."""

import json

import jsonschema
import pytest

from fdl_cli.commands.command import Command, CommandGroup
from fdl_cli.commands.execution import load
from fdl_cli.commands.registry import COMMANDS, LISTED
from fdl_cli.json_schema import envelope_schema


def every_command():
    for entry in COMMANDS:
        if entry.name == "torch":  # the same module as libtorch
            continue
        loaded = load(entry)
        if isinstance(loaded, CommandGroup):
            for word, command in loaded.commands.items():
                yield (entry.name, word), command
        else:
            yield (entry.name,), loaded


NAMES = [words for words, _ in every_command()]


@pytest.mark.parametrize("words", NAMES, ids=" ".join)
def test_the_schema_is_printed_and_valid(fdl, words):
    done = fdl(*words, "--json-schema")
    assert (done.returncode, done.stderr) == (0, "")
    schema = json.loads(done.stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["title"].startswith("fdl.")


@pytest.mark.parametrize("words", NAMES, ids=" ".join)
@pytest.mark.slow
def test_a_wrong_command_line_fits_the_schema_too(fdl, words):
    schema = json.loads(fdl(*words, "--json-schema").stdout)
    done = fdl(*words, "--json", "--no-such-option")
    assert done.returncode == 2
    jsonschema.validate(json.loads(done.stdout), schema)


def test_schema_names_are_unique_and_versioned():
    names = [command.schema for _, command in every_command()]
    assert len(set(names)) == len(names)
    for words, command in every_command():
        assert command.schema == f"fdl.{'.'.join(words)}/1"


@pytest.mark.parametrize("topic", [(), ("exit-codes",), ("port",)])
@pytest.mark.parametrize("before", [True, False])
def test_help_as_json(fdl, topic, before):
    arguments = ("--json", "help", *topic) if before else ("help", *topic, "--json")
    done = fdl(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    schema = json.loads(fdl("help", "--json-schema").stdout)
    jsonschema.validate(document, schema)
    assert document["ok"] is True
    assert [row["name"] for row in document["data"]["commands"]] == [e.name for e in LISTED]


def test_version_as_json(fdl):
    document = json.loads(fdl("--version", "--json").stdout)
    assert document["schema"] == "fdl.version/1"
    assert sorted(document["data"]) == ["python", "version"]


def test_a_schema_refuses_what_is_not_so():
    (help_command,) = [command for words, command in every_command() if words == ("help",)]
    assert isinstance(help_command, Command)
    schema = envelope_schema(help_command.schema, help_command.data)
    for document in (
        {},
        {"schema": "fdl.help/1", "fdl": "0", "ok": True, "warnings": []},
        {"schema": "fdl.help/1", "fdl": "0", "ok": True, "warnings": [], "data": {}},
        {"schema": "fdl.help/2", "fdl": "0", "ok": True, "warnings": [], "data": {}},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(document, schema)
