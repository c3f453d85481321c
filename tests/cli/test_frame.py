"""The frame around commands: parsing, groups, help, global options before and after the name."""

import io
from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from fdl_cli.commands.command import Command, CommandGroup
from fdl_cli.commands.execution import group_help
from fdl_cli.commands.global_options import GlobalOptions, read_leading
from fdl_cli.commands.parsing import SchemaRequest, help_text, parameters, parse
from fdl_cli.errors import UsageError
from fdl_cli.json_schema import envelope_schema, type_schema
from fdl_cli.result import CommandResult, envelope, to_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    name: str
    times: int


def wish(
    name: Annotated[str, typer.Argument(help="Whom to greet.")],
    *,
    times: Annotated[int, typer.Option("--times", "-n", help="How often.")] = 1,
) -> Wish:
    """Greet somebody."""
    return Wish(name=name, times=times)


def test_own_and_shared_options_are_told_apart():
    parsed = parse("fdl wish", wish, ["-vv", "you", "--times", "3", "--json", "--no-ansi"])
    assert parsed.options == Wish(name="you", times=3)
    assert parsed.common == GlobalOptions(json=True, verbose=2, color="never")


def test_arguments_after_two_dashes_are_taken_as_they_are():
    assert parse("fdl wish", wish, ["--", "--json"]).options == Wish(name="--json", times=1)


@pytest.mark.parametrize(
    ("arguments", "error_id", "says"),
    [
        ([], "usage", "missing argument"),
        (["you", "--times", "x"], "usage", "--times"),
        (["you", "--tims", "2"], "option-unknown", "did you mean `--times`?"),
        (["you", "me"], "usage", "me"),
    ],
)
def test_wrong_arguments(arguments, error_id, says):
    with pytest.raises(UsageError) as caught:
        parse("fdl wish", wish, arguments)
    assert caught.value.error_id == error_id
    assert says in f"{caught.value.message} {caught.value.hint}"


def test_the_schema_can_be_had_without_the_arguments():
    with pytest.raises(SchemaRequest):
        parse("fdl wish", wish, ["--json-schema"])


def test_help_shows_own_and_shared_options():
    text = help_text("fdl wish", wish)
    for part in ("Usage: fdl wish", "Greet somebody.", "Whom to greet.", "--times", "--json"):
        assert part in text
    assert parameters(wish) == ("NAME", "--times -n")


def test_help_of_a_group_lists_its_commands():
    command = Command(
        schema="fdl.greet.wish/1",
        data=Wish,
        parse=wish,
        run=lambda context, options: CommandResult(schema="fdl.greet.wish/1", data=options),
        show=lambda result, console: console.line(result.data.name),
    )
    group = CommandGroup(
        summary="Greet.", summaries={"wish": "wish well"}, commands={"wish": command}
    )
    assert "  wish  wish well" in group_help("greet", group)


FLAGS = st.lists(
    st.sampled_from(["-v", "-vv", "-q", "--json", "--ansi", "--no-ansi", "--no-input"]), max_size=6
)


@given(FLAGS, FLAGS)
def test_options_mean_the_same_before_and_after_the_name(before, after):
    first = read_leading((*before, "wish")).options
    both = first.merged(read_leading((*after, "wish")).options)
    assert both.json == ("--json" in before + after)
    assert both.quiet == ("-q" in before + after)
    colors = [word for word in before + after if "ansi" in word]
    expected = {"--ansi": "always", "--no-ansi": "never"}[colors[-1]] if colors else "auto"
    assert both.color == expected


@given(FLAGS, st.lists(st.text(max_size=8), max_size=4))
def test_what_follows_the_name_is_never_touched(before, rest):
    assert read_leading((*before, "name", *rest)).rest == ("name", *rest)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner).map(tuple) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(JSON_VALUES)
def test_every_plain_value_survives_the_envelope(value):
    import json

    document = json.loads(envelope(CommandResult(schema="fdl.x/1", data=value)))
    assert document["data"] == json.loads(json.dumps(value))


def test_a_value_without_json_form_is_refused():
    with pytest.raises(TypeError, match="has no JSON form"):
        to_json(io.StringIO())
    with pytest.raises(TypeError, match="has no JSON Schema"):
        type_schema(io.StringIO, {})


def test_a_schema_names_every_field():
    schema = envelope_schema("fdl.greet/1", Wish)
    assert schema["$defs"]["Wish"]["required"] == ["name", "times"]
