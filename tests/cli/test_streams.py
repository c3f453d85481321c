"""Data goes to stdout, everything else to stderr; pipes, colour and width behave."""

import os
import pty
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

FDL = [sys.executable, "-P", "-m", "fdl_cli"]
SHELL_FDL = shlex.join(FDL)
ESCAPE = "\x1b["


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",), ("help",), ("-q", "--help")])
def test_help_is_data_on_stdout(fdl, arguments):
    done = fdl(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage: fdl ")
    assert "  port " in done.stdout


@pytest.mark.parametrize("arguments", [("--version",), ("-V",), ("-v", "--version")])
def test_version_is_one_line(fdl, arguments):
    from fdl_cli import __version__

    done = fdl(*arguments)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"fdl {__version__}\n", "")


def test_the_fast_path_says_what_the_long_way_says(fdl):
    fast, slow = fdl("--help"), fdl("-v", "--help")
    assert fast.stdout == slow.stdout


def test_an_error_leaves_stdout_empty(fdl):
    done = fdl("nonsense")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error[command-unknown]: ")


def test_quiet_does_not_silence_errors(fdl):
    done = fdl("-q", "nonsense")
    assert done.returncode == 2
    assert "error[command-unknown]" in done.stderr


@pytest.mark.parametrize("columns", ["40", "60", "80", "200"])
def test_the_overview_fits_the_width(fdl, columns):
    done = fdl("--help", COLUMNS=columns)
    width = int(columns)
    too_long = [line for line in done.stdout.splitlines() if len(line) > max(width, 60)]
    assert too_long == []
    assert "port" in done.stdout


@pytest.mark.parametrize("columns", ["0", "-3", "wide", ""])
def test_a_width_that_makes_no_sense_is_ignored(fdl, columns):
    assert fdl("--help", COLUMNS=columns).stdout == fdl("--help", COLUMNS="100").stdout


def test_a_pipe_gets_no_colour(fdl):
    assert ESCAPE not in fdl("nonsense").stderr


@pytest.mark.parametrize(
    ("flags", "environ", "colored"),
    [
        ((), {"FORCE_COLOR": "1"}, True),
        ((), {"CLICOLOR_FORCE": "1"}, True),
        ((), {"FORCE_COLOR": "0"}, False),
        ((), {"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
        ((), {"NO_COLOR": "", "FORCE_COLOR": "1"}, True),
        (("--color", "never"), {"FORCE_COLOR": "1"}, False),
        (("--color=always",), {"NO_COLOR": "1"}, True),
        (("--ansi",), {}, True),
        (("--no-ansi",), {"FORCE_COLOR": "1"}, False),
        (("--ansi",), {"TERM": "dumb"}, True),
    ],
)
def test_color_rules(fdl, flags, environ, colored):
    done = fdl(*flags, "nonsense", **environ)
    assert (ESCAPE in done.stderr) is colored


@pytest.mark.parametrize(("term", "colored"), [("xterm-256color", True), ("dumb", False)])
def test_color_on_a_terminal(term, colored, tmp_path):
    master, slave = pty.openpty()
    environ = {**os.environ, "TERM": term}
    process = subprocess.Popen([*FDL, "nonsense"], stderr=slave, env=environ, cwd=tmp_path)
    os.close(slave)
    written = b""
    while True:
        try:
            chunk = os.read(master, 4096)
        except OSError:
            break
        if not chunk:
            break
        written += chunk
    os.close(master)
    assert process.wait(30) == 2
    assert (b"\x1b[" in written) is colored
    assert b"error[command-unknown]:" in written


@pytest.mark.parametrize("arguments", ["--help", "help exit-codes", "help --json"])
def test_a_reader_that_leaves_is_no_traceback(arguments):
    command = f"{SHELL_FDL} {arguments}; echo code $? >&2"
    done = subprocess.run(
        ["bash", "-c", f"({command}) | true"], capture_output=True, text=True, check=False
    )
    # Whoever is faster: all was written before the reader left (0), or not (141).
    assert done.stderr in ("code 141\n", "code 0\n")


def test_a_reader_that_was_never_there_is_141():
    read_end, write_end = os.pipe()
    os.close(read_end)
    process = subprocess.Popen([*FDL, "help"], stdout=write_end, stderr=subprocess.PIPE)
    os.close(write_end)
    _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (141, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("arguments", ["--help", "--version", "help --json", "help exit-codes"])
def test_a_full_disk_is_an_error(arguments):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*FDL, *arguments.split()], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 1
    assert done.stderr.startswith("error[output-failed]: cannot write the output")


@pytest.mark.parametrize(
    ("closing", "code"), [(">&-", 0), ("2>&-", 0), ("<&-", 0), (">&- 2>&- <&-", 0)]
)
def test_closed_streams(closing, code):
    command = f"{SHELL_FDL} help --json {closing}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (code, "")


def test_an_encoding_that_lacks_a_letter_costs_that_letter_only(fdl):
    done = fdl("help", "überraschung", PYTHONIOENCODING="ascii:strict")
    assert done.returncode == 4
    assert "there is no help about `?berraschung`" in done.stderr


def test_no_home_no_problem(fdl, tmp_path):
    done = fdl("help", "--json", HOME=None, XDG_CACHE_HOME=None)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_removed_folder_is_an_error(tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    command = f"cd '{gone}' && rmdir '{gone}' && {SHELL_FDL} help exit-codes"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 5
    assert done.stderr.startswith("error[folder-removed]: ")


@pytest.mark.parametrize("words", [("port",), ("skill", "list"), ("libtorch",)], ids=" ".join)
@pytest.mark.parametrize("columns", ["50", "100"])
def test_a_remembered_help_page_is_the_same_page(fdl, tmp_path, words, columns):
    home = {"HOME": str(tmp_path / "home"), "COLUMNS": columns}
    first = fdl(*words, "--help", **home)
    assert len(list((tmp_path / "home/.cache/flodl/help").iterdir())) == 1
    again = fdl(*words, "-h", **home)
    assert (first.returncode, first.stderr) == (0, "")
    assert again.stdout == first.stdout


def test_a_remembered_page_is_not_believed_when_the_source_changed(fdl, tmp_path):
    import json

    home = {"HOME": str(tmp_path / "home")}
    page = fdl("runs", "--help", **home).stdout
    (stored,) = (tmp_path / "home/.cache/flodl/help").iterdir()
    for content in (
        json.dumps({"state": "another", "text": "old"}), "{}", "[]", "not json",
        json.dumps({"state": 1, "text": None}),
    ):  # fmt: skip
        stored.write_text(content)
        assert fdl("runs", "--help", **home).stdout == page
    stored.unlink()
    stored.mkdir()
    assert fdl("runs", "--help", **home).stdout == page
