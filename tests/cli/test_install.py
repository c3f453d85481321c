"""`fdl install`: a launcher that starts this fdl, checked, replaced and removed; nothing else."""

import functools
import http.server
import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from fdl_cli.system.launcher import Launcher, launcher_place, launcher_text, read_launcher

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture
def home(tmp_path):
    folder = tmp_path / "my home"
    folder.mkdir()
    return folder


@pytest.fixture
def place(home):
    return home / ".local" / "bin" / "fdl"


def data(done):
    return json.loads(done.stdout)["data"]


def test_the_launcher_starts_this_fdl_from_anywhere(fdl, home, place, tmp_path):
    first = data(fdl("install", "--json", HOME=str(home)))
    assert (first["action"], Path(first["path"])) == ("create", place)
    assert str(place.parent) in first["todo"]
    assert stat.S_IMODE(place.stat().st_mode) & 0o111
    environ = {"PATH": f"{place.parent}:/usr/bin:/bin", "HOME": str(home), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["fdl", "--version"], env=environ, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("fdl ")
    again = data(fdl("install", "--json", HOME=str(home)))
    assert again["action"] == "same"


def test_check_changes_nothing_and_says_what_is_to_do(fdl, home, place):
    done = fdl("install", "--check", "--json", HOME=str(home))
    assert (done.returncode, data(done)["action"]) == (1, "create")
    assert not place.exists()
    fdl("install", HOME=str(home))
    path = f"{place.parent}{os.pathsep}{os.environ['PATH']}"
    done = fdl("install", "--check", "--json", HOME=str(home), PATH=path)
    assert (done.returncode, data(done)["action"], data(done)["todo"]) == (0, "same", "")
    assert data(done)["found_on_path"] == str(place)
    assert data(done)["newest"] is None
    place.write_text(place.read_text().replace(sys.executable, "/gone/python"))
    done = fdl("install", "--check", "--json", HOME=str(home), PATH=path)
    assert (done.returncode, data(done)["action"]) == (1, "update")
    assert "/gone/python" in data(done)["target"]


def test_dev_goes_through_the_bootstrap_of_the_checkout(fdl, home, place):
    found = data(fdl("install", "--dev", "--json", HOME=str(home)))
    assert found["target"] == str(ROOT / "fdl")
    assert f'exec {ROOT / "fdl"} "$@"' in place.read_text()
    assert data(fdl("install", "--json", HOME=str(home)))["action"] == "update"


def test_a_program_that_is_not_ours_stays(fdl, home, place):
    place.parent.mkdir(parents=True)
    place.write_text("#!/bin/sh\necho mine\n")
    for words in (("install",), ("install", "--remove"), ("install", "--dev")):
        done = fdl(*words, HOME=str(home))
        assert done.returncode == 6
        assert "error[install-foreign]" in done.stderr
    assert place.read_text() == "#!/bin/sh\necho mine\n"
    assert fdl("install", "--force", HOME=str(home)).returncode == 0
    assert read_launcher(place) is not None


def test_a_link_is_replaced_and_not_written_through(fdl, home, place, tmp_path):
    program = tmp_path / "program"
    program.write_text("precious")
    place.parent.mkdir(parents=True)
    place.symlink_to(program)
    assert fdl("install", "--force", HOME=str(home)).returncode == 0
    assert program.read_text() == "precious"
    assert not place.is_symlink()


def test_remove_and_dry_run(fdl, home, place):
    assert data(fdl("install", "--remove", "--json", HOME=str(home)))["action"] == "absent"
    assert data(fdl("install", "--dry-run", "--json", HOME=str(home)))["action"] == "create"
    assert not place.exists()
    fdl("install", HOME=str(home))
    done = data(fdl("install", "--remove", "--dry-run", "--json", HOME=str(home)))
    assert done["action"] == "remove"
    assert place.exists()
    fdl("install", "--remove", HOME=str(home))
    assert not place.exists()


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (("--check", "--remove"), 2, "install-usage"),
        (("--check", "--force"), 2, "install-usage"),
        (("--online",), 2, "install-usage"),
        (("--dev", "--remove"), 2, "install-usage"),
    ],
)
def test_options_that_contradict_each_other(fdl, home, words, code, error):
    done = fdl("install", *words, HOME=str(home))
    assert done.returncode == code
    assert f"error[{error}]" in done.stderr
    assert list(home.iterdir()) == []


def test_without_a_home_a_folder_must_be_named(fdl, tmp_path):
    done = fdl("install", HOME=None, USERPROFILE=None)
    assert done.returncode == 2
    assert "--to DIR" in done.stderr
    assert fdl("install", "--to", "bin", HOME=None, USERPROFILE=None).returncode == 0
    assert read_launcher(tmp_path / "bin" / "fdl") is not None


def test_a_folder_that_cannot_be_written(fdl, tmp_path):
    (tmp_path / "file").write_text("")
    done = fdl("install", "--to", "file/bin")
    assert done.returncode == 1
    assert "error[install-write]" in done.stderr


def test_without_network_the_check_says_so(fdl, home):
    done = fdl(
        "install", "--check", "--online", "--json", HOME=str(home),
        PIP_INDEX_URL="http://127.0.0.1:9/simple", PIP_CONFIG_FILE=os.devnull, PIP_RETRIES="0",
        PIP_EXTRA_INDEX_URL=None, PYTHONWARNINGS=None,
    )  # fmt: skip
    assert done.returncode == 5
    assert "DeprecationWarning" not in done.stdout, "pip itself must have looked"
    assert json.loads(done.stdout)["error"]["id"] == "configured-index-empty"


@pytest.mark.parametrize(("offered", "code"), [("99.0", 1), ("0.0.1", 0)])
def test_the_check_finds_a_newer_version_on_the_indexes(fdl, home, tmp_path, offered, code):
    page = tmp_path / "www" / "simple" / "flodl" / "index.html"
    page.parent.mkdir(parents=True)
    wheel = f"flodl-{offered}-py3-none-any.whl"
    page.write_text(f'<!doctype html><html><body><a href="{wheel}">{wheel}</a></body></html>')
    serve = functools.partial(http.server.SimpleHTTPRequestHandler, directory=tmp_path / "www")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            assert fdl("install", HOME=str(home), PATH=f"{home}/.local/bin").returncode == 0
            done = fdl(
                "install", "--check", "--online", "--json", HOME=str(home),
                PATH=f"{home}/.local/bin", PIP_CONFIG_FILE=os.devnull, PIP_EXTRA_INDEX_URL=None,
                PYTHONWARNINGS=None,  # those of pip itself are none of ours
                PIP_INDEX_URL=f"http://127.0.0.1:{server.server_port}/simple",
            )  # fmt: skip
        finally:
            server.shutdown()
            thread.join()
    data = json.loads(done.stdout)["data"]
    assert data["newest"] == offered, done.stderr
    assert done.returncode == code
    assert ("upgrade" in data["todo"]) == bool(code)


@pytest.mark.parametrize("windows", [False, True])
@pytest.mark.parametrize(
    "target", ["/a/bin/python", "C:\\Program Files\\py 3\\python.exe", "/it's"]
)
def test_what_a_launcher_starts_can_be_read_back(tmp_path, windows, target):
    launcher = Launcher(mode="environment", version="1.2", target=target)
    path = tmp_path / "fdl"
    path.write_bytes(launcher_text(launcher, windows=windows).encode())
    assert read_launcher(path) == launcher


def test_the_place_follows_the_variable_of_the_desktop():
    assert launcher_place({"XDG_BIN_HOME": "/x"}, Path("/h"), windows=False) == Path("/x/fdl")
    assert launcher_place({"XDG_BIN_HOME": "x"}, Path("/h"), windows=True).name == "fdl.cmd"
