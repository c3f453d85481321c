"""The script for PowerShell, as far as it can be known without one: no registry here has it.

What PowerShell would refuse before it runs anything is looked for by a reader of its quotes and
brackets; what it sends is written down by hand from its documentation.
"""

import re

import pytest

from fdl_cli.completion.protocol import Question, read_question
from fdl_cli.completion.scripts import SCRIPTS

SCRIPT = SCRIPTS["powershell"]
# In the order in which PowerShell's own tokenizer would try them.
TOKENS = re.compile(
    r"""(?P<comment>\#[^\n]*)|(?P<single>'(?:[^']|'')*')|(?P<double>"(?:[^"`]|`.)*")"""
    r"""|(?P<open>[{(\[])|(?P<close>[])}])|(?P<rest>[^\#'"{}()\[\]]+)"""
)
PAIRS = {"{": "}", "(": ")", "[": "]"}


def read(script):
    """Return the script without strings and comments; its brackets must fit."""
    kept, expected, position = "", [], 0
    while position < len(script):
        found = TOKENS.match(script, position)
        assert found, f"not closed: {script[position : position + 40]!r}"
        position = found.end()
        if found["open"]:
            expected.append(PAIRS[found["open"]])
        elif found["close"]:
            assert expected, "closed without being opened"
            assert expected.pop() == found["close"]
        if not (found["comment"] or found["single"] or found["double"]):
            kept += found.group()
    assert expected == []
    return kept


def test_quotes_and_brackets_fit():
    code = read(SCRIPT)
    assert "Register-ArgumentCompleter -Native -CommandName fdl -ScriptBlock {" in code
    assert "param($wordToComplete, $commandAst, $cursorPosition)" in code


@pytest.mark.parametrize("broken", [SCRIPT[:-3], SCRIPT.replace("' }", " }", 1), SCRIPT + "}"])
def test_the_reader_notices_what_does_not_fit(broken):
    with pytest.raises(AssertionError):
        read(broken)


def test_every_variable_is_set_before_it_is_read():
    code = read(SCRIPT)
    known = {"_", "null", "wordToComplete", "commandAst", "cursorPosition", "words", "current"}
    set_here = set(re.findall(r"\$(\w+)\s*(?:,\s*\$\w+\s*)*=", code))
    set_here |= set(re.findall(r",\s*\$(\w+)\s*=", code))
    set_here |= set(re.findall(r"foreach \(\$(\w+) in", code))
    used = set(re.findall(r"[$@](\w+)", SCRIPT))
    assert used <= known | set_here


def test_operators_are_powershells():
    assert set(re.findall(r" (-[a-z]+)\b", read(SCRIPT))) <= {
        "-eq", "-lt", "-split", "-is", "-not",
    }  # fmt: skip
    assert re.findall(r"\bif \([^)]*(?:==|&&|\|\|)", SCRIPT) == []


def test_nothing_runs_when_the_shell_starts():
    outside = re.sub(r"(?s)-ScriptBlock \{.*\}", "", SCRIPT)
    assert "fdl __complete" not in outside


@pytest.mark.parametrize(
    ("sent", "question"),
    [
        (['""'], Question((), "")),
        ([""], Question((), "")),
        (["port", '""'], Question(("port",), "")),
        (["port", "mod"], Question(("port",), "mod")),
        (["run", "a b", "--x"], Question(("run", "a b"), "--x")),
    ],
)
def test_what_it_sends(sent, question):
    assert read_question("powershell", sent) == question
    if sent[-1] == '""':
        assert read_question("bash", sent).current == '""'
