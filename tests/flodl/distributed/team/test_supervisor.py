"""Ranks that run a plain script under a supervisor, here in the process of the test."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from flodl.distributed.team import TeamError, supervisor
from flodl.distributed.team.supervisor import LaunchOrder, Supervisor, main
from tests.process_ends import is_gone

pytestmark = pytest.mark.torch
KILL = "os.kill(os.getpid(), signal.SIGKILL)"
WAIT = "time.sleep(60)"


def order(program, nproc=2, **fields):
    """Return the order to run a program; it may use `rank` and `again`."""
    whole = (
        "import os, signal, sys, time\n"
        "rank, again = os.environ['RANK'], os.environ['TORCHELASTIC_RESTART_COUNT']\n" + program
    )
    return LaunchOrder(command=(sys.executable, "-S", "-c", whole), nproc=nproc, **fields)


def rows(result):
    return [(each["rank"], each["status"], each["signal"]) for each in result["ranks"]]


def test_ranks_have_the_environment_of_torchrun_and_their_output_a_prefix(capfd, tmp_path):
    program = (
        "names = 'LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR TORCHELASTIC_USE_AGENT_STORE'\n"
        "print(*[os.environ[name] for name in names.split()])\n"
        "print('to stderr', rank, end='', file=sys.stderr)"
    )
    result = Supervisor(order(program, log_dir=str(tmp_path))).run()
    out, err = capfd.readouterr()
    assert (result["status"], rows(result)) == (0, [(0, 0, None), (1, 0, None)])
    assert sorted(out.splitlines()) == [f"[{rank}] {rank} 2 2 127.0.0.1 True" for rank in (0, 1)]
    assert sorted(err.splitlines()) == ["[0] to stderr 0", "[1] to stderr 1"]
    log = (tmp_path / "rank-1.log").read_text()
    assert sorted(log.splitlines()) == ["1 2 2 127.0.0.1 True", "to stderr 1"]


def test_output_of_ranks_goes_to_stderr_if_that_is_wanted(capfd):
    Supervisor(order("print('told')", 1, is_only_stderr=True)).run()
    assert capfd.readouterr() == ("", "[0] told\n")


def test_rank_that_died_of_a_signal_leaves_the_others_alone(capfd):
    result = Supervisor(order(f"if rank == '1': {KILL}\ntime.sleep(0.3)")).run()
    assert (result["status"], rows(result)) == (0, [(0, 0, None), (1, None, "SIGKILL")])
    assert capfd.readouterr().err == "fdl launch: rank 1 died of SIGKILL; rank 0 goes on\n"


def test_death_of_all_ranks_gives_the_status_of_the_first(capfd):
    result = Supervisor(order(KILL)).run()
    assert result["status"] == 128 + signal.SIGKILL
    assert capfd.readouterr().err.endswith("fdl launch: no rank is left\n")


def test_error_of_a_rank_ends_the_others_and_names_its_log(capfd, tmp_path):
    program = f"if rank == '1': sys.exit(3)\n{WAIT}"
    result = Supervisor(order(program, log_dir=str(tmp_path))).run()
    assert (result["status"], rows(result)) == (3, [(0, None, "SIGTERM"), (1, 3, None)])
    log = tmp_path / "rank-1.log"
    assert capfd.readouterr().err == (
        f"fdl launch: rank 1 ended with 3; the others end too; its output is in {log}\n"
    )


def test_restart_after_an_error_starts_all_ranks_again(capfd, tmp_path):
    program = f"print(again)\nif again == '1': sys.exit()\nif rank == '1': sys.exit(3)\n{WAIT}"
    result = Supervisor(order(program, restarts=2, log_dir=str(tmp_path))).run()
    assert (result["status"], result["attempts"]) == (0, 2)
    assert "fdl launch: all ranks start again (1 of 2)\n" in capfd.readouterr().err
    assert (tmp_path / "rank-1.log").read_text() == "0\n1\n"


@pytest.mark.slow
def test_rank_that_the_others_left_out_is_killed_when_they_are_through(capfd, tmp_path):
    program = (
        "from torch.distributed import PrefixStore, TCPStore\n"
        "port = int(os.environ['MASTER_PORT'])\n"
        "store = TCPStore('127.0.0.1', port, is_master=False, wait_for_workers=False)\n"
        "PrefixStore('flodl/launch/try0', store).set('lost/1', '')\n"
    )
    script = tmp_path / "script.py"
    script.write_text(f"import os, time\nif os.environ['RANK'] == '1': {WAIT}\n{program}")
    result = Supervisor(LaunchOrder(command=(sys.executable, str(script)), nproc=2)).run()
    assert (result["status"], rows(result)) == (0, [(0, 0, None), (1, None, "SIGKILL")])
    assert "rank 1 hung, so the others went on without it" in capfd.readouterr().err


def test_what_a_rank_left_behind_is_ended_with_it(tmp_path):
    program = (
        "import subprocess\n"
        "child = subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(child.pid))"
    )
    assert Supervisor(order(program, 1)).run()["status"] == 0
    assert is_gone(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize(
    ("program", "times", "status"),
    [
        ("", 1, 128 + signal.SIGTERM),
        ("signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))", 1, 7),
        ("signal.signal(signal.SIGTERM, signal.SIG_IGN)", 3, 128 + signal.SIGKILL),
    ],
)
def test_signal_is_passed_on_and_the_third_one_kills(tmp_path, program, times, status):
    ready = f"open(os.path.join({str(tmp_path)!r}, rank), 'w').close()"

    def signal_when_ready():
        while len(list(tmp_path.iterdir())) < 2:
            time.sleep(0.01)
        for _ in range(times):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.2)

    thread = threading.Thread(target=signal_when_ready)
    thread.start()
    result = Supervisor(order(f"{program}\n{ready}\n{WAIT}", restarts=1)).run()
    thread.join()
    assert (result["status"], result["attempts"]) == (status, 1)


def test_command_of_a_rank_where_flodl_comes_from_the_tool_is_the_one_beside(monkeypatch):
    made = LaunchOrder(command=("python", "a.py"), nproc=1, command_beside=("python", "start.py"))
    assert supervisor._command_of(made) == made.command
    monkeypatch.setattr(sys, "path", ["/elsewhere"])
    assert supervisor._command_of(made) == made.command_beside


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def write(folder, host, made):
    path = folder / f"host-{host}" / "order.json"
    path.parent.mkdir()
    fields = {name: getattr(made, name) for name in made.__slots__}
    path.write_text(json.dumps(fields))
    return path


@pytest.mark.slow
def test_error_on_one_host_ends_and_restarts_all(tmp_path):
    program = (
        f"if again == '1': print('rank', rank); sys.exit()\nif rank == '3': sys.exit(3)\n{WAIT}"
    )
    hosts = {"nnodes": 2, "host": "127.0.0.1", "port": free_port(), "restarts": 1}
    paths = [write(tmp_path, host, order(program, node_rank=host, **hosts)) for host in range(2)]
    command = [sys.executable, "-m", "flodl.distributed.team.supervisor"]
    other = subprocess.Popen([*command, paths[1]], stdout=subprocess.PIPE, text=True)
    try:
        assert main(paths[0]) == 0
        out, _ = other.communicate(timeout=60)
    finally:
        other.kill()
    assert other.returncode == 0
    assert sorted(out.splitlines()) == ["[2] rank 2", "[3] rank 3"]
    results = [json.loads(path.with_name("result.json").read_text()) for path in paths]
    assert [each["attempts"] for each in results] == [2, 2]
    assert rows(results[1]) == [(2, 0, None), (3, 0, None)]


def test_host_that_finds_no_store_says_where_it_looked(tmp_path):
    port = free_port()
    made = order("", nnodes=2, node_rank=1, host="127.0.0.1", port=port, timeout_s=0.2)
    path = write(tmp_path, 1, made)
    assert main(path) == supervisor.NO_STORE
    told = json.loads(path.with_name("result.json").read_text())["error"]
    assert told == f"no store answers at 127.0.0.1:{port} after 0.2 s: Connection refused"


def test_first_host_that_cannot_listen_says_it():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(TeamError, match=f"cannot have the store at 127.0.0.1:{port}: Address"):
            Supervisor(order("", nnodes=2, host="127.0.0.1", port=port))
