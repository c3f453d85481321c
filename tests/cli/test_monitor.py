"""`fdl monitor` as a process: it serves runs of other processes, and says where."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from fdl_cli.commands.monitor import CANNOT_WRITE, NO_RUNS, PORT_TAKEN
from flodl.monitor.monitor import Monitor
from tests.process_ends import is_gone

pytestmark = [pytest.mark.torch, pytest.mark.slow]


@pytest.fixture
def runs(tmp_path):
    for name in ("first", "second"):
        with Monitor(2, run=tmp_path / "runs" / name, quiet=True, resources=False) as monitor:
            monitor.log(0, 1.0, {"loss": 1.0})
    return tmp_path


def test_json_tells_where_the_page_is(fdl, runs):
    done = fdl("monitor", "runs", "--port", "0", "--json", cwd=runs)
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)["data"]
    try:
        assert data["runs"] == ["first", "second"]
        assert data["url"].startswith(f"http://127.0.0.1:{data['port']}/?token=")
        page = urllib.request.urlopen(data["url"], timeout=10).read()
        assert b"flodl monitor" in page
        address = f"http://127.0.0.1:{data['port']}/api/history?run=second"
        history = json.load(urllib.request.urlopen(address, timeout=10))
        assert [each["metrics"] for each in history] == [{"loss": 1.0}]
    finally:
        os.kill(data["pid"], signal.SIGTERM)
    assert is_gone(data["pid"])


def test_the_foreground_prints_the_address_and_ends_with_ctrl_c(runs):
    child = subprocess.Popen(
        [sys.executable, "-m", "fdl_cli", "monitor", "runs", "--port", "0"],
        cwd=runs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    assert child.stdout.readline().startswith("http://127.0.0.1:")
    assert child.stdout.readline() == "showing 2 runs; Ctrl-C ends it\n"
    os.killpg(child.pid, signal.SIGINT)
    out, err = child.communicate(timeout=20)
    assert (child.returncode, out, err) == (0, "", "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_server_ends_with_its_command(runs, number):
    child = subprocess.Popen(
        [sys.executable, "-m", "fdl_cli", "monitor", "runs", "--port", "0"],
        cwd=runs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    url = child.stdout.readline().strip()
    assert child.stdout.readline() == "showing 2 runs; Ctrl-C ends it\n"
    child.send_signal(number)
    child.communicate(timeout=20)  # returns when the server has closed its output, too
    assert child.returncode == (143 if number == signal.SIGTERM else -9)
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(url, timeout=10)


def children_of(pid):
    return Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()


def test_monitor_killed_while_its_server_starts_leaves_none(runs):
    child = subprocess.Popen(
        [sys.executable, "-m", "fdl_cli", "monitor", "runs", "--port", "0", "--python", sys.executable],
        cwd=runs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    limit = time.monotonic() + 60
    server = ""
    while time.monotonic() < limit and not server:
        for pid in children_of(child.pid):
            words = Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace")
            server = pid if "flodl.monitor" in words else server
        time.sleep(0.01)
    child.kill()
    child.communicate(timeout=60)  # returns when the server has closed its output, too
    assert is_gone(int(server))


def test_monitor_malformed_run_is_listed_beside_the_others(fdl, runs):
    folder = runs / "runs" / "third" / "metrics"
    folder.mkdir(parents=True)
    (folder / "segment-000001.fdm").write_bytes(b"FDM nothing" * 50)
    done = fdl("monitor", "runs", "--port", "0", "--json", cwd=runs)
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)["data"]
    os.kill(data["pid"], signal.SIGTERM)
    assert sorted(data["runs"]) == ["first", "second", "third"]
    assert is_gone(data["pid"])


def test_export_writes_one_page_with_everything(fdl, runs):
    done = fdl("monitor", "runs", "--export", "page.html", cwd=runs)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{runs}/page.html\n"
    page = (runs / "page.html").read_text(encoding="utf-8")
    assert '"first"' in page
    assert '"second"' in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    done = fdl("monitor", "runs/second", "--export", "one.html", "--json", cwd=runs)
    data = json.loads(done.stdout)["data"]
    assert (data["runs"], data["file"], data["url"]) == (["second"], f"{runs}/one.html", None)
    assert '"first"' not in (runs / "one.html").read_text(encoding="utf-8")


def test_export_that_cannot_be_written(fdl, runs):
    (runs / "file").write_text("")
    done = fdl("monitor", "runs", "--export", "file/page.html", cwd=runs)
    assert done.returncode == 1, done.stderr
    assert "error[export-failed]" in done.stderr


def test_records_are_lines_of_json(fdl, runs):
    done = fdl("monitor", "runs", "--records", cwd=runs)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    epochs = [each for each in found if each["kind"] == "epoch"]
    assert [(each["run"], each["data"]["metrics"]) for each in epochs] == [
        ("first", {"loss": 1.0}),
        ("second", {"loss": 1.0}),
    ]


def test_reader_that_has_seen_enough_of_the_records_is_no_error(runs):
    command = (
        f"{sys.executable} -m fdl_cli monitor runs --records | head -n 1; exit ${{PIPESTATUS[0]}}"
    )
    done = subprocess.run(
        ["bash", "-c", command], cwd=runs, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["kind"] == "start"


@pytest.mark.parametrize("option", [("--records",), ("--export", "page.html")])
def test_folder_without_runs_is_named(fdl, tmp_path, option):
    (tmp_path / "empty").mkdir()
    done = fdl("monitor", "empty", *option, cwd=tmp_path)
    assert done.returncode == 4
    assert "there is no run in `empty`" in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--records", "--json"), "cannot go with `--json`"),
        (("--records", "--export", "x"), "cannot go with `--export`"),
        (("--records", "--port", "0"), "there is no port"),
        (("--export", "x", "--detach"), "there is no port"),
    ],
)
def test_options_that_do_not_fit_together(fdl, runs, options, message):
    done = fdl("monitor", "runs", *options, cwd=runs)
    assert done.returncode == 2
    assert message in done.stderr + done.stdout


def test_a_place_that_is_not_there(fdl, tmp_path):
    done = fdl("monitor", "nowhere", cwd=tmp_path)
    assert done.returncode == 4
    assert "error[run-not-found]" in done.stderr


@pytest.mark.parametrize("how", [(), ("--detach",)])
def test_a_port_that_is_taken(fdl, runs, how):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = fdl("monitor", "runs", "--port", port, *how, cwd=runs)
    assert done.returncode == 6, done.stderr
    assert "error[port-taken]" in done.stderr


def test_both_sides_know_the_same_codes():
    from flodl.monitor import __main__ as child

    assert (PORT_TAKEN, NO_RUNS, CANNOT_WRITE) == (
        child.PORT_TAKEN,
        child.NO_RUNS,
        child.CANNOT_WRITE,
    )
