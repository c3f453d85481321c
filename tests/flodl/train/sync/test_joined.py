"""Trainings in processes that torchrun or SLURM started; the reference is one device."""

import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch.distributed import DistError

from flodl import DeviceError, EpochMetrics, RunDirectory, RunError, TrainedState
from flodl.distributed.team import LeftOutError, TeamError, joining
from flodl.distributed.team.exact_runner import ExactRunner
from flodl.distributed.team.place import place_of
from flodl.train.rank_order import RankOrder
from flodl.train.sync import joined
from flodl.train.sync.joined import device_of, require_fit
from tests.flodl.train.sync import shared_jobs as jobs

pytestmark = pytest.mark.torch
ROOT = Path(__file__).parents[4]
SCRIPT = Path(__file__).with_name("started_script.py")
EPOCHS = 4


def environment(**changes):
    clean = {
        name: text
        for name, text in os.environ.items()
        if not name.startswith(("SLURM_", "TORCHELASTIC_", "FLODL_"))
    }
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**clean, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", **changes}


def torchrun(*words, policy="", **options):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    changes = {"TEST_POLICY": policy} if policy else {}
    return subprocess.run(
        [*command, *map(str, words)], env=environment(**changes), cwd=ROOT, capture_output=True, text=True,
        timeout=120, check=False, **options,
    )  # fmt: skip


def place(**changes):
    return place_of(
        {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "a", "MASTER_PORT": "1"} | changes
    )


@pytest.fixture(scope="module")
def alone():
    return jobs.digest(jobs.builder(1, epochs=EPOCHS).run().join())


def digests(folder):
    return {path.name: path.read_text() for path in sorted(folder.glob("digest-*"))}


@pytest.mark.slow
def test_restart_of_torchrun_after_a_kill_continues_with_the_same_bits(alone, tmp_path):
    words = ("--nproc-per-node", 2, "--max-restarts", 2, SCRIPT, tmp_path, "kill")
    done = torchrun(*words)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "fault").exists()
    assert digests(tmp_path) == {"digest-0": f"{alone} 2", "digest-1": f"{alone} 2"}
    # The checkpoint of the first epoch was there: it was not trained again.
    epochs = [line[0] for line in (tmp_path / "epochs").read_text().splitlines()]
    assert epochs.count("0") == 1


@pytest.mark.slow
def test_restart_of_torchrun_by_cadence_ends_equal_on_all_ranks(tmp_path):
    words = ("--nproc-per-node", 2, "--max-restarts", 2, SCRIPT, tmp_path, "raise")
    done = torchrun(*words, policy="cadence")
    assert done.returncode == 0, done.stderr
    first, second = digests(tmp_path).values()
    assert first == second
    assert first.endswith(" 2")
    epochs = [line[0] for line in (tmp_path / "epochs").read_text().splitlines()]
    assert sorted(set(epochs)) == ["0", "1", "2", "3"]


@pytest.mark.slow
def test_tasks_of_slurm_go_on_without_one_that_died(alone, tmp_path):
    """The survivor is rank 0, which has the store; no parent tells it of the death."""
    port = free_port()
    tasks = [
        subprocess.Popen(
            [sys.executable, SCRIPT, tmp_path, "kill"], cwd=ROOT, stdout=subprocess.DEVNULL,
            env=environment(
                SLURM_PROCID=str(rank), SLURM_NTASKS="2", SLURM_LOCALID=str(rank), SLURM_NNODES="1",
                FLODL_STORE=f"127.0.0.1:{port}", TEST_PATIENCE="2",
            ),
        )
        for rank in range(2)
    ]  # fmt: skip
    try:
        assert [each.wait(60) for each in tasks] == [0, -signal.SIGKILL]
    finally:
        for each in tasks:
            each.kill()
            each.wait()
    assert digests(tmp_path) == {"digest-0": f"{alone} 2"}


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.mark.parametrize("asked", [3, 1, ["cpu"] * 3, "cpu"])
def test_require_fit_with_another_number_of_processes_says_it(asked):
    with pytest.raises(DeviceError, match="the launcher started 2 processes, and"):
        require_fit(place(), asked)


@pytest.mark.parametrize("asked", ["all", 2, ["cpu", "cpu"]])
def test_require_fit_with_the_number_of_processes_is_silent(asked):
    require_fit(place(), asked)


def test_device_of_a_rank_without_gpus_is_the_cpu():
    assert device_of(place(), "all", None) == torch.device("cpu")
    assert device_of(place(), ["meta", "cpu"], None) == torch.device("cpu")


@pytest.mark.parametrize(("gpus", "local", "device"), [(4, "2", "cuda:2"), (1, "2", "cuda:0")])
def test_device_of_a_rank_with_gpus_has_its_number_on_the_host(monkeypatch, gpus, local, device):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    assert device_of(place(LOCAL_RANK=local), "all", None) == torch.device(device)
    assert device_of(place(LOCAL_RANK=local), "all", "cpu") == torch.device("cpu")


def test_device_of_a_rank_beyond_the_gpus_says_it(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(DeviceError, match="there are 2 GPUs"):
        device_of(place(LOCAL_RANK="2"), "all", None)


def test_run_directory_that_is_held_refuses_all_ranks(tmp_path, monkeypatch):
    order = RankOrder(jobs.builder("all").run_dir(tmp_path / "run"), "bits")
    meeting = replace(place(), address=("127.0.0.1", free_port()), is_local=True)
    monkeypatch.setattr(joining, "_numbers", iter([0, 0]))
    monkeypatch.setattr(joining, "_served", {})

    def agree(rank):
        team = joining.join(replace(meeting, rank=rank, serves=rank == 0), "cpu", patience=20.0)
        try:
            with ExitStack() as held, pytest.raises(RunError) as found:
                joined._agree(ExactRunner(team), order, torch.device("cpu"), held)
            return str(found.value)
        finally:
            team.close()

    with RunDirectory.at(tmp_path / "run").held(), ThreadPoolExecutor(2) as pool:
        said = set(pool.map(agree, range(2)))
    assert said == {f"{tmp_path / 'run'}: another process is training in this directory"}


def test_teller_tells_monitor_and_callbacks_on_the_first_rank_only():
    told = []
    monitor = SimpleNamespace(
        log=lambda epoch, seconds, scalars: told.append(epoch),
        finish=lambda: told.append("finish"),
        flush=lambda: told.append("flush"),
    )
    order = SimpleNamespace(parts={"monitor": monitor}, metrics_fns=[told.append])
    metrics = EpochMetrics(epoch=3, avg_loss=1.0)
    for is_first in (True, False):
        teller = joined.FirstRankTeller(order, is_first.__bool__)
        teller(None, metrics)
        for reason in ("finished", "SIGTERM"):
            teller.end(TrainedState(parameters={}, buffers={}, stopped_by=reason))
        assert told == [3, metrics, "finish", "flush"]


@pytest.mark.slow
def test_requests_of_a_page_reach_all_ranks_under_torchrun(tmp_path):
    done = torchrun("--nproc-per-node", 2, SCRIPT, tmp_path, "page", 4000)
    assert done.returncode == 0, done.stderr
    (event,) = (tmp_path / "events").read_text().splitlines()
    assert event.startswith("evaluation of rank 0: evaluated at step ")
    assert len(set(digests(tmp_path).values())) == 1
    (reason,) = {path.read_text() for path in tmp_path.glob("reason-*")}
    assert reason == "a request on the page of the monitor"
    steps = [each.step for each in RunDirectory.open(tmp_path / "run").checkpoints.entries()]
    assert any(step % 20 for step in steps)


@pytest.mark.parametrize(
    ("error", "has_failed", "status", "calls"),
    [
        (LeftOutError("left out"), False, 75, ["close"]),
        (DistError("no bytes"), False, 76, ["close"]),
        (TeamError("rank 1 failed"), True, 1, ["close"]),
        (ValueError("bad"), False, None, ["ValueError: bad", "close"]),
        (KeyboardInterrupt(), False, None, ["dead", "close"]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_end_of_a_rank_is_told_to_the_others(capsys, error, has_failed, status, calls):
    told = []
    team = SimpleNamespace(
        fail=told.append,
        give_up=lambda: told.append("dead"),
        close=lambda: told.append("close"),
        has_failed=lambda: has_failed,
    )
    ended = joined._told(team, place(), error)
    assert (ended is error) == (status is None)
    assert told == calls
    if status is not None:
        assert ended.code == status
        assert str(error) in capsys.readouterr().err


@pytest.fixture
def one_of_two(monkeypatch):
    for name, text in {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}.items():
        monkeypatch.setenv(name, text)
    monkeypatch.setenv("MASTER_PORT", str(free_port()))


def test_builder_in_one_of_two_processes_refuses_another_number(one_of_two):
    with pytest.raises(DeviceError, match="started 2 processes"):
        jobs.builder(3).run()


def test_builder_in_one_of_two_processes_without_devices_names_the_cure(one_of_two):
    with pytest.raises(DeviceError, match=r'add `\.devices\("all"\)`'):
        jobs.builder(None).run()


def test_builder_in_the_only_process_of_a_launcher_trains_without_a_store(monkeypatch):
    for name, text in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "nowhere"}.items():
        monkeypatch.setenv(name, text)
    monkeypatch.setenv("MASTER_PORT", "1")
    handle = jobs.builder("all", epochs=1).run()
    assert (handle.world_size(), len(handle.join().history)) == (1, 1)
