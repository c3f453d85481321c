"""Tables, questions, progress and folders, without a terminal and with a played one."""

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdl_cli.console import Console, Terminal
from fdl_cli.context import directories, find_project_root
from fdl_cli.errors import NeedsTerminalError, Notice


def played(answers="", **settings):
    verbosity = settings.pop("verbosity", 0)
    out, err = io.StringIO(), io.StringIO()
    terminal = Terminal(out=out, err=err, stdin=io.StringIO(answers), **settings)
    return Console(terminal, verbosity), out, err


@given(
    st.lists(
        st.tuples(
            *[st.text(st.characters(codec="ascii", categories=["L", "N", "P"]), min_size=1)] * 2
        ),
        max_size=5,
    ),
    st.integers(20, 60),
)
@pytest.mark.slow
def test_a_table_keeps_every_character(rows, width):
    console, out, _ = played(width=width)
    console.table(("name", "value"), rows)
    text = out.getvalue()
    assert all(len(line) <= width for line in text.splitlines())
    expected = sorted("".join(cell for row in rows for cell in row) + "namevalue")
    assert sorted(c for c in text if not c.isspace()) == expected


def test_a_table_does_not_read_markup():
    console, out, _ = played()
    console.table(("a",), [("[red]x[/red] [bold",)])
    assert "[red]x[/red] [bold" in out.getvalue()


def test_messages_and_verbosity():
    for verbosity, shown in ((-1, []), (0, ["note"]), (1, ["note", "more"])):
        console, out, err = played(verbosity=verbosity)
        console.note("note")
        console.detail("more")
        assert (out.getvalue(), err.getvalue().splitlines()) == ("", shown)


def test_a_warning_has_id_and_hint():
    console, _, err = played()
    console.warning(Notice(id="torch-old", message="torch is old", hint="update it"))
    assert err.getvalue() == "warning[torch-old]: torch is old\n  hint: update it\n"


@pytest.mark.parametrize(
    ("typed", "default", "expected"),
    [
        ("y\n", False, True), ("YES\n", False, True), ("n\n", True, False), ("\n", True, True),
        ("\n", False, False), ("", True, False), ("what\ny\n", False, True),
    ],
)  # fmt: skip
def test_confirm(typed, default, expected):
    console, out, err = played(typed, interactive=True)
    assert console.confirm("go on?", flag="--yes", default=default) is expected
    assert out.getvalue() == ""
    assert "go on?" in err.getvalue()


def test_confirm_without_a_terminal_names_the_flag():
    console, _, _ = played("y\n")
    with pytest.raises(NeedsTerminalError) as caught:
        console.confirm("go on?", flag="--yes")
    assert "`--yes`" in caught.value.hint


@pytest.mark.slow
def test_progress_is_silent_in_a_pipe_and_drawn_on_a_terminal():
    for progress, drawn in ((False, False), (True, True)):
        console, out, err = played(progress=progress)
        with console.progress("torch", total=10) as bar:
            bar.advance(4)
            bar.set_total(20)
        assert out.getvalue() == ""
        assert ("torch" in err.getvalue()) is drawn


def test_a_diff_is_coloured_by_line_and_otherwise_untouched():
    text = "--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n z"
    plain, out, _ = played()
    plain.diff(text)
    assert out.getvalue() == text
    colored, out, _ = played(color_out=True)
    colored.diff(text)
    assert "\x1b[32m+y" in out.getvalue()


def test_folders_of_the_user():
    assert directories({"HOME": "/h"}, "linux").state == Path("/h/.local/state/flodl")
    assert directories({"HOME": "/h", "XDG_CACHE_HOME": "/c"}, "linux").cache == Path("/c/flodl")
    # The specification: a relative path in these variables is invalid and ignored.
    found = directories({"HOME": "/h", "XDG_CACHE_HOME": "c"}, "linux")
    assert found.cache == Path("/h/.cache/flodl")
    assert directories({"HOME": "/h"}, "darwin").cache == Path("/h/Library/Caches/flodl")
    own = directories({"HOME": "/h", "XDG_CACHE_HOME": "/c", "FLODL_HOME": "/f"}, "linux")
    assert (own.cache, own.data) == (Path("/f/cache"), Path("/f/data"))
    assert directories({}, "linux").config.is_absolute()


def test_the_project_root_is_the_nearest_manifest(tmp_path):
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    assert find_project_root(inner) is None
    (tmp_path / "fdl.yml").write_text("")
    assert find_project_root(inner) == tmp_path
    (tmp_path / "a" / "fdl.yml").write_text("")
    assert find_project_root(inner) == tmp_path / "a"
