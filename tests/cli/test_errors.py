"""What people see when something is wrong: the id, the place, the reason, the next step."""

import json
import re

import pytest

from fdl_cli import errors

SHAPE = re.compile(
    r"error\[(?P<id>[a-z0-9-]+)\]: \S.*[^.\n]\n(  cause: .*\n)*  hint: \S.*\n"
    r"  page: https://flodl\.github\.io/flodl/reference/errors/(?P=id)\.html\n"
)


@pytest.mark.parametrize(
    ("arguments", "code", "error_id", "says"),
    [
        (("prot",), 2, "command-unknown", "did you mean `fdl port`?"),
        (("zzzzzz",), 2, "command-unknown", "see `fdl --help`"),
        (("por",), 2, "command-unknown", "did you mean `fdl port`?"),
        (("--jsn", "help"), 2, "option-unknown", "did you mean `--json`?"),
        (("--zzz",), 2, "option-unknown", "see `fdl --help`"),
        (("--color", "blue", "help"), 2, "option-value", "not `blue`"),
        (("--color",), 2, "option-value", "--color never"),
        (("port",), 2, "missing-argument", "try `fdl port model.py`"),
        (("port", "--dif", "x.py"), 2, "option-unknown", "did you mean `--diff`?"),
        (("port", "x.py", "-o"), 2, "usage", "see `fdl port --help`"),
        (("port", "x.py", "--training", "maybe"), 2, "usage", "maybe"),
        (("help", "exit-code"), 4, "topic-unknown", "did you mean `fdl help exit-codes`?"),
        (("help", "a", "b"), 2, "usage", "see `fdl help --help`"),
    ],
)
def test_error_text(fdl, arguments, code, error_id, says):
    done = fdl(*arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert SHAPE.fullmatch(done.stderr), done.stderr
    assert done.stderr.startswith(f"error[{error_id}]: ")
    assert says in done.stderr
    assert "Usage:" not in done.stderr, "the help must not push the error off the screen"


@pytest.mark.parametrize(
    ("arguments", "code", "schema"),
    [
        (("zzz", "--json"), 2, "fdl/1"),
        (("--json", "zzz"), 2, "fdl/1"),
        (("--json", "--zzz"), 2, "fdl/1"),
        (("help", "nothing", "--json"), 4, "fdl.help/1"),
        (("--json", "help", "nothing"), 4, "fdl.help/1"),
        (("port", "--json"), 2, "fdl.port/1"),
        (("port", "--json", "--nope", "x.py"), 2, "fdl.port/1"),
    ],
)
def test_json_error(fdl, arguments, code, schema):
    done = fdl(*arguments)
    assert (done.returncode, done.stderr) == (code, "")
    document = json.loads(done.stdout)
    assert list(document) == ["schema", "fdl", "ok", "error", "warnings"]
    assert (document["schema"], document["ok"]) == (schema, False)
    assert sorted(document["error"]) == ["causes", "file", "hint", "id", "line", "message"]
    assert document["error"]["hint"]


def test_a_word_after_two_dashes_is_not_an_option(fdl):
    done = fdl("help", "--", "--json")
    assert done.returncode == 4
    assert "there is no help about `--json`" in done.stderr


def test_debug_adds_the_traceback(fdl):
    plain, debug, verbose = fdl("zzz"), fdl("zzz", FDL_DEBUG="1"), fdl("-vvv", "zzz")
    assert "Traceback" not in plain.stderr
    assert "Traceback" in debug.stderr
    assert "Traceback" in verbose.stderr


def test_causes_are_in_the_json_too(fdl, tmp_path):
    (tmp_path / "fdl.yml").write_text("comands: {}\ncommands: {a: {rn: x}}\n")
    error = json.loads(fdl("tasks", "--json").stdout)["error"]
    text = fdl("tasks").stderr
    assert error["causes"]
    assert all(cause in text for cause in error["causes"])


def test_place_and_causes_are_shown(capsys):
    import sys

    from fdl_cli.console import Console, Terminal

    error = errors.ConfigError(
        error_id="key-unknown",
        message="unknown key `discription`",
        hint="did you mean `description`?",
        file="fdl.yml",
        line=7,
        causes=("it stands under `commands.test`",),
    )
    Console(Terminal(out=sys.stdout, err=sys.stderr, stdin=sys.stdin)).error(error)
    assert capsys.readouterr().err == (
        "error[key-unknown]: fdl.yml:7: unknown key `discription`\n"
        "  cause: it stands under `commands.test`\n"
        "  hint: did you mean `description`?\n"
        "  page: https://flodl.github.io/flodl/reference/errors/key-unknown.html\n"
    )


BUG = """
import sys
from fdl_cli import app
from fdl_cli.commands import overview
def broken(width):
    secret = "s3cret"
    raise ValueError("boom")
overview.overview = broken
sys.exit(app.main(("help",)))
"""


def test_a_bug_writes_a_report(tmp_path, monkeypatch):
    import subprocess
    import sys

    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    source = BUG.replace(
        "from fdl_cli.commands import overview", "from fdl_cli.commands import overview, help"
    ).replace("overview.overview = broken", "help.overview = broken")
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == errors.EXIT_INTERNAL
    assert done.stderr.startswith("error[internal]: fdl has a bug here: ValueError: boom\n")
    assert "Traceback" not in done.stderr
    (report,) = (home / ".local/state/flodl").glob("bug-*.txt")
    text = report.read_text()
    assert str(report) in done.stderr
    assert "ValueError: boom" in text
    assert "arguments ['help']" in text
    assert str(home) not in text


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (("--token", "hunter2000"), "['--token', '<masked>']"),
        (("--token=hunter2000",), "['--token=<masked>']"),
        (("API_KEY=hunter2000",), "['API_KEY=<masked>']"),
        (("-o", "--db-password", "hunter2000"), "['-o', '--db-password', '<masked>']"),
        (("https://ann:hunter2000@host/x",), "['https://<masked>@host/x']"),
        (("train", "--author", "ann"), "['train', '--author', 'ann']"),
        (("--token", "--verbose", "x"), "['--token', '--verbose', 'x']"),
    ],
)
def test_report_masks_secrets_of_the_command_line(arguments, shown):
    from fdl_cli.crash import report_text

    text = report_text(ValueError("cannot use hunter2000 at u:hunter2000"), arguments, "")
    assert f"arguments {shown}" in text
    if arguments[0] in ("--token", "--token=hunter2000", "API_KEY=hunter2000", "-o"):
        assert "hunter2000" not in text.replace("<masked>", "") or arguments[1:2] == ("--verbose",)


def test_report_is_a_new_file_for_its_owner_alone(tmp_path, monkeypatch):
    import os
    import stat

    from fdl_cli import crash

    monkeypatch.setattr(crash.secrets, "token_hex", lambda _: "abc")
    monkeypatch.setattr(crash.time, "strftime", lambda _: "now")
    before = os.umask(0)
    try:
        path = crash.write_report("text", tmp_path / "state")
    finally:
        os.umask(before)
    assert path is not None
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    victim = tmp_path / "victim"
    victim.write_text("mine")
    planted = tmp_path / "tmp" / path.name
    planted.parent.mkdir()
    planted.symlink_to(victim)
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(planted.parent))
    (tmp_path / "file").write_text("")
    assert crash.write_report("text", tmp_path / "file") is None
    assert victim.read_text() == "mine"


def test_a_bug_without_any_place_to_write_is_printed(tmp_path):
    from fdl_cli.crash import write_report

    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    import tempfile

    old = tempfile.tempdir
    tempfile.tempdir = str(blocked)
    try:
        assert write_report("text", blocked / "state") is None
    finally:
        tempfile.tempdir = old
