"""Pages of the reference that are made from the sources: errors, JSON of commands, and reason codes."""

import ast
import io
import json
import re

import pytest

from docs._build.api_pages import write_llms_texts
from docs._build.error_pages import (
    error_page,
    raised_errors,
    text_of,
    write_error_pages,
)
from docs._build.option_pages import commands, write_option_page
from docs._build.reason_pages import examples, lines_around, write_reason_pages
from docs._build.running import ROOT
from docs._build.schema_pages import write_schema_pages
from fdl_cli.commands.parsing import help_text
from fdl_cli.commands.registry import COMMANDS
from fdl_cli.console import Console, Terminal, page_address
from fdl_cli.errors import OperationFailedError
from fdl_cli.manifest.project import TROUBLES
from fdl_cli.porter.knowledge.reasons import REASONS

# Places that pass an id on, or make it from parts; the pages show the ids where they come from.
PASSED_ON = 6
OPTION = re.compile(r"(?<![\w-])--?[a-z][\w-]*")


def test_error_pages_have_each_constant_id_of_the_sources(tmp_path):
    write_error_pages(tmp_path)
    written = re.compile(r'error_id="([a-z]+(?:-[a-z]+)*)"')
    ids = {
        name
        for path in (ROOT / "fdl_cli").rglob("*.py")
        for name in written.findall(path.read_text("utf-8"))
    }
    pages = {path.stem for path in (tmp_path / "errors").iterdir()}
    assert len(ids) > 160
    assert sorted(ids - pages) == []
    assert {name for _, name in TROUBLES.values()} <= pages
    listed = (tmp_path / "errors.md").read_text("utf-8")
    assert [name for name in pages if f"](errors/{name}.md)" not in listed] == []


def test_error_ids_that_are_no_constants_are_few_and_known():
    passed = [
        f"{path.name}:{node.lineno}"
        for path in (ROOT / "fdl_cli").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.keyword)
        and node.arg == "error_id"
        and not isinstance(node.value, ast.Constant)
    ]
    assert len(passed) <= PASSED_ON + 1, passed


def test_error_page_shows_message_hint_and_exit_code():
    raised = [each for each in raised_errors() if each.id == "disk-full"]
    page = error_page("disk-full", raised)
    assert "error[disk-full]: cannot write WHERE: REASON\n  hint: free some space" in page
    assert "Exit code 5: the machine lacks docker" in page


def test_page_address_is_below_that_of_the_site():
    site = re.search(r"^site_url: (\S+)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    assert page_address("codes/FDL305") == f"{site[1]}reference/codes/FDL305.html"


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ('"plain"', "plain"),
        ('f"no `{self.names[0]}` in {len(found)} files"', "no `NAMES` in ... files"),
        ('"one" if x else "two"', "one; or: two"),
        ('f"a" + tail', "aTAIL"),
    ],
)
def test_text_of_an_expression_has_words_for_what_a_run_fills_in(code, text):
    assert text_of(ast.parse(code, mode="eval").body) == text


def test_reason_pages_have_each_code_and_most_of_the_flow_an_example(tmp_path):
    write_reason_pages(tmp_path)
    assert {path.stem for path in (tmp_path / "codes").iterdir()} == set(REASONS)
    shown = examples()
    flow = [code for code in REASONS if code < "FDL4"]
    assert len([code for code in flow if code in shown]) >= len(flow) - 4
    assert "    try:\n" in (tmp_path / "codes" / "FDL304.md").read_text("utf-8")


def test_schema_pages_show_each_command_its_fields_and_their_records(tmp_path):
    write_schema_pages(tmp_path)
    listed = (tmp_path / "schemas.md").read_text("utf-8")
    commands = [entry.name for entry in COMMANDS if not entry.today]
    assert [name for name in commands if f"| `fdl {name}" not in listed] == []
    for path in (tmp_path / "schemas").glob("*.json"):
        schema, page = (
            json.loads(path.read_text("utf-8")),
            path.with_suffix(".md").read_text("utf-8"),
        )
        assert f"](schemas/{path.stem}.md)" in listed
        records = [each for name, each in schema["$defs"].items() if name != "Notice"]
        fields = {name for each in records for name in each["properties"]}
        assert [name for name in fields if f"| `{name}` |" not in page] == []
        links = set(re.findall(r"\]\(#(\w+)\)", page))
        assert links <= {name.lower() for name in re.findall(r"^## (\w+)$", page, re.MULTILINE)}
    page = (tmp_path / "schemas" / "fdl.setup.1.md").read_text("utf-8")
    assert "| `lock` | [LockData](#lockdata) or null |" in page
    assert "| `files` | list of [FileData](#filedata) |" in page
    assert "## LockData\n\nThe lock file that `--lock` wrote" in page


def test_option_page_lists_each_command_with_every_option_of_its_help(tmp_path):
    write_option_page(tmp_path)
    page = (tmp_path / "options.md").read_text("utf-8")
    parts = dict(part.split("\n", 1) for part in page.split("\n## ")[1:])
    shared = set(OPTION.findall(parts.pop("All commands")))
    assert shared >= {"--json", "--quiet", "--no-input"}
    named = [f"fdl {entry.today or entry.name}" for entry in COMMANDS if entry.name != "torch"]
    assert [
        each for each in named if not any(words.startswith(f"`{each}") for words in parts)
    ] == []
    for words, command in commands():
        lines = re.findall(r"^  (-.*?)(?:  |$)", help_text("fdl", command.parse), re.MULTILINE)
        told = {each for line in lines for each in OPTION.findall(line)} - {"--help", "-h"}
        assert told <= set(OPTION.findall(parts[f"`{words}`"])) | shared, words
    assert "One of `none`, `small`, `all`." in parts["`fdl graph`"]
    assert "| `--host VALUE` | Where to listen" in parts["`fdl monitor`"]


def test_llms_texts_are_what_the_command_prints(tmp_path):
    write_llms_texts(tmp_path)
    short = (tmp_path / "llms.txt").read_text("utf-8")
    assert short.startswith("# flodl\n\n> Flow graphs for PyTorch.")
    assert "\n## Guides\n" in short
    assert len((tmp_path / "llms-full.txt").read_text("utf-8")) > 5 * len(short)


def test_lines_around_a_line_are_those_of_the_innermost_function():
    source = "class A:\n    @staticmethod\n    def f(x):\n        return x\n\nprint(A)\n"
    assert lines_around(source, 4) == "@staticmethod\ndef f(x):\n    return x"
    assert lines_around(source, 6) == "print(A)"


def shown_of(error, *, color):
    streams = {"out": io.StringIO(), "err": io.StringIO(), "stdin": io.StringIO()}
    Console(Terminal(**streams, color_err=color)).error(error)
    return streams["err"].getvalue()


def test_error_ends_with_the_address_of_its_page_with_and_without_colour(tmp_path):
    write_error_pages(tmp_path)
    error = OperationFailedError(error_id="disk-full", message="no space", hint="free some")
    plain = shown_of(error, color=False)
    address = page_address("errors/disk-full")
    assert plain == f"error[disk-full]: no space\n  hint: free some\n  page: {address}\n"
    assert (tmp_path / "errors" / "disk-full.md").is_file()
    assert re.sub("\x1b\\[[0-9;]*m", "", shown_of(error, color=True)) == plain


def test_page_of_environment_variables_lists_all_that_the_sources_name():
    files = [ROOT / "fdl", *(ROOT / "templates").rglob("*.yml")]
    for package in ("fdl_cli", "flodl", "flodl_verify"):
        files += (ROOT / package).rglob("*.py")
    name = re.compile(r"\b(?:FDL|FLODL)_[A-Z_]*[A-Z]\b")
    used = {each for file in files for each in name.findall(file.read_text("utf-8"))}
    listed = name.findall((ROOT / "docs" / "reference" / "environment.md").read_text("utf-8"))
    assert sorted(listed) == sorted(used)
