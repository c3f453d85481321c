"""`fdl launch` as a process: ranks of a script, their output, and how all of it ends."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from fdl_cli.commands import launch
from fdl_cli.errors import EnvironmentLackingError, OperationFailedError
from fdl_cli.system.user_python import UserPython
from tests.flodl.train.sync import shared_jobs as jobs
from tests.process_ends import is_gone

pytestmark = pytest.mark.torch
ROOT = Path(__file__).parents[2]
TRAINING = ROOT / "tests" / "flodl" / "train" / "sync" / "started_script.py"
PATHS = {
    "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
    "OMP_NUM_THREADS": "1",
}
WAITING = """
import os, sys, time
print("told", *sys.argv[1:], flush=True)
open("pid-" + os.environ["RANK"], "w").write(str(os.getpid()))
time.sleep(60)
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "waiting.py").write_text(WAITING)
    return tmp_path


@pytest.fixture(scope="module")
def wanted():
    return jobs.digest(jobs.builder(1, epochs=4).run().join())


def digests(folder):
    return {path.name: path.read_text() for path in sorted(folder.glob("digest-*"))}


@pytest.mark.parametrize(
    ("words", "code", "error_id", "said"),
    [
        (("--nproc", "0"), 2, "launch-usage", "--nproc is 0"),
        (("--nproc", "1", "--restart", "-1"), 2, "launch-usage", "--restart is -1"),
        (("--nproc", "1", "--nnodes", "0"), 2, "launch-usage", "--nnodes is 0"),
        (("--nproc", "1", "--nnodes", "2"), 2, "launch-usage", "2 hosts need a place to meet"),
        (("--nproc", "1", "--node-rank", "1"), 2, "launch-usage", "--node-rank is 1 with 1 hosts"),
        (("--nproc", "1", "--rdzv", "a:b"), 2, "launch-usage", "`--rdzv a:b` is no address"),
        ((), 2, "usage", "missing option '--nproc'"),
    ],
)
def test_launch_with_numbers_that_do_not_fit_says_it(fdl, folder, words, code, error_id, said):
    done = fdl("launch", "waiting.py", *words)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith(f"error[{error_id}]: {said}")


def test_launch_of_a_script_that_is_missing_says_it(fdl, folder):
    done = fdl("launch", "absent.py", "--nproc", "2", "--json")
    assert done.returncode == 4
    assert json.loads(done.stdout)["error"]["id"] == "file-not-found"


@pytest.mark.slow
def test_launch_trains_on_without_a_rank_that_died_with_the_same_bits(fdl, wanted, tmp_path):
    done = fdl(
        "launch", str(TRAINING), str(tmp_path), "kill", "--nproc", "2", "--json", **PATHS
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["data"]["status"] == 0
    assert [each["signal"] for each in document["data"]["ranks"]] == [None, "SIGKILL"]
    assert digests(tmp_path) == {"digest-0": f"{wanted} 2"}
    assert "fdl launch: rank 1 died of SIGKILL; rank 0 goes on" in done.stderr
    assert "[0] rank 0 is through" in done.stderr


def start(folder):
    words = ("waiting.py", "--nproc", "2", "--log-dir", "logs", "--", "--two")
    process = subprocess.Popen(
        [sys.executable, "-m", "fdl_cli", "launch", *words],
        cwd=folder, env={**os.environ, **PATHS}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    limit = time.monotonic() + 60
    paths = [folder / f"pid-{rank}" for rank in range(2)]
    while not all(path.exists() and path.read_text() for path in paths):
        assert time.monotonic() < limit
        time.sleep(0.05)
    return process, [int(path.read_text()) for path in paths]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 128 + signal.SIGTERM), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_launch_that_gets_a_signal_leaves_no_process(folder, number, code):
    process, pids = start(folder)
    try:
        process.send_signal(number)
        out, _ = process.communicate(timeout=30)  # returns when all have closed their output
        assert process.returncode == code
        assert all(map(is_gone, pids))
    finally:
        process.kill()
    assert sorted(out.splitlines()) == ["[0] told --two", "[1] told --two"]
    assert (folder / "logs" / "rank-1.log").read_text() == "told --two\n"


@pytest.mark.slow
def test_launch_with_torchrun_trains_with_the_same_bits(fdl, wanted, tmp_path):
    done = fdl(
        "launch", str(TRAINING), str(tmp_path), "--nproc", "2", "--torchrun", "--json",
        **{**PATHS, "PYTHONWARNINGS": None},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["data"] == {
        "script": str(TRAINING), "status": 0, "attempts": None, "ranks": [],
    }  # fmt: skip
    assert digests(tmp_path) == {"digest-0": f"{wanted} 2", "digest-1": f"{wanted} 2"}
    epochs = (tmp_path / "epochs").read_text().splitlines()
    assert epochs == [f"{epoch} of rank 0" for epoch in range(4)]


def test_script_for_a_python_without_flodl_starts_as_python_starts_it(tmp_path):
    (tmp_path / "beside.py").write_text("name = 'beside'\n")
    script = tmp_path / "script.py"
    script.write_text("import sys, beside\nprint(__name__, __file__, sys.argv, beside.name)\n")
    python = UserPython(interpreter=Path(sys.executable), why="a test")
    done = subprocess.run(
        python.runtime_command(str(script), "--lr"), capture_output=True, text=True, check=False
    )
    assert done.stdout == f"__main__ {script} ['{script}', '--lr'] beside\n", done.stderr


def options(**fields):
    chosen = {
        "script": "train.py", "words": ("a",), "nproc": 4, "nnodes": 1, "node_rank": 0, "rdzv": "",
        "restart": 0, "log_dir": None, "timeout_s": 1.0, "torchrun": True, "python": None,
    }  # fmt: skip
    return launch.LaunchOptions(**{**chosen, **fields})


def test_torchrun_words_of_several_hosts_name_the_first_one():
    made = options(nnodes=2, node_rank=1, restart=3)
    context = SimpleNamespace(json=False, cwd=Path("/here"))
    words = launch._torchrun_words(context, made, Path("python"), ("node0", 29400))
    assert " ".join(words) == (
        "python -m torch.distributed.run --nproc-per-node 4 --max-restarts 3 --nnodes 2 --node-rank 1 "
        "--master-addr node0 --master-port 29400 train.py a"
    )


def test_data_of_a_store_that_does_not_answer_is_an_error(tmp_path):
    answer = tmp_path / "result.json"
    answer.write_text(json.dumps({"status": 5, "error": "no store answers at a:1 after 1 s: why"}))
    with pytest.raises(EnvironmentLackingError, match="no store answers at a:1") as found:
        launch._data(options(), 5, answer)
    assert found.value.error_id == "store-unreachable"


def test_data_of_a_start_that_left_no_result_is_an_error(tmp_path):
    with pytest.raises(OperationFailedError, match="ended with code 137"):
        launch._data(options(), 137, tmp_path / "result.json")
