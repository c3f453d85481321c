"""A loop of one's own over several processes computes what one process computes; the rest is refused."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from flodl import CosineScheduler, DeviceError, FlowBuilder, Trainer, TrainingError
from flodl.distributed.team import joining
from flodl.distributed.team.launcher import open_store
from flodl.distributed.team.place import place_of
from flodl.train.own_loop import rank_loop
from flodl.train.own_loop.refusals import require_shareable
from tests.flodl.train.own_loop import own_loop_script as script
from tests.flodl.train.sync import shared_jobs as jobs
from tests.flodl.train.sync.test_joined import environment, free_port, torchrun

pytestmark = pytest.mark.torch
ROOT = Path(__file__).parents[4]
SCRIPT = Path(script.__file__)


def same(found, wanted, **tolerance):
    assert found.keys() == wanted.keys()
    for name, each in found.items():
        torch.testing.assert_close(each, wanted[name], **tolerance)


@pytest.fixture(scope="module")
def exact_alone():
    """One device by the rules of several, with dropout and batch normalization."""
    return jobs.builder(1, epochs=script.EPOCHS).run().join().state_dict()


# ---- processes ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_own_loop_on_two_ranks_ends_as_in_one_process(exact_alone, tmp_path):
    alone = script.rounded_session()
    script.train(alone, last=1)
    alone.save(tmp_path / "half-of-one.safetensors", epoch=1)
    script.train(alone, first=1)
    wanted = script.outcome(alone, 40)

    done = torchrun("--nproc-per-node", 2, SCRIPT, tmp_path)
    assert done.returncode == 0, done.stderr
    first, second = (torch.load(tmp_path / f"rank-{rank}.pt") for rank in range(2))
    for name in ("rounded", "continued"):
        assert first[name]["updates"] == second[name]["updates"] == wanted["updates"] == 6
        for part in ("state", "averages"):
            same(first[name][part], second[name][part], rtol=0, atol=0)
            same(first[name][part], wanted[part], rtol=1e-4, atol=1e-5)
    assert first["rounded"]["batches"] + second["rounded"]["batches"] == 40
    assert first["continued"]["batches"] + second["continued"]["batches"] == 20
    for each in (first, second):
        same(each["exact"]["state"], exact_alone, rtol=0, atol=0)

    later = script.rounded_session()
    assert later.resume(tmp_path / "half.safetensors").epoch == 1
    script.train(later, first=1)
    same(script.outcome(later, 20)["state"], wanted["state"], rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_own_loop_on_three_ranks_of_which_one_dies_keeps_the_bits(exact_alone, tmp_path):
    address = f"127.0.0.1:{free_port()}"
    ranks = [
        subprocess.Popen(
            [sys.executable, SCRIPT, tmp_path, "kill"], cwd=ROOT, stdout=subprocess.DEVNULL,
            env=environment(
                SLURM_PROCID=str(rank), SLURM_NTASKS="3", SLURM_LOCALID=str(rank), SLURM_NNODES="1",
                FLODL_STORE=address,
            ),
        )
        for rank in range(3)
    ]  # fmt: skip
    try:
        assert [each.wait(60) for each in ranks] == [0, -9, 0]
    finally:
        for each in ranks:
            each.kill()
            each.wait()
    for rank in (0, 2):
        made = torch.load(tmp_path / f"rank-{rank}.pt")["exact"]
        same(made["state"], exact_alone, rtol=0, atol=0)
        assert made["updates"] == 10


ALONE = """
import sys, threading, torch
from flodl import Trainer
model = torch.nn.Linear(2, 1)
session = Trainer.setup(
    model, lambda p: torch.optim.SGD(p, 0.1), data=[torch.ones(4, 2)], policy="sync", exact="bits"
)
for batch in session.batches(0):
    session.backward(model(batch).mean())
    session.step()
session.end_epoch(0)
session.close()
print([name for name in sys.modules if name.startswith(("flodl.distributed", "flodl.train.sync"))])
print(threading.active_count(), session.training_step, session.rank, session.world_size)
"""


@pytest.mark.slow
def test_own_loop_in_one_process_imports_nothing_of_several():
    done = subprocess.run(
        [sys.executable, "-c", ALONE],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n1 1 0 1\n", "")


# ---- one rank, in this process -----------------------------------------------------------------


@pytest.fixture
def only_rank(monkeypatch):
    """The session of a rank, which is the only one of its start."""
    store, port = open_store()
    variables = {
        "RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": f"{port}",
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }  # fmt: skip
    monkeypatch.setattr(joining, "_numbers", iter(range(9)))
    session = script.exact_session()
    session._ranks = session._join(place_of(variables))
    yield session
    session._ranks._end_with_process()
    del store


def test_own_loop_of_one_rank_has_the_bits_of_the_builder(only_rank, exact_alone):
    assert script.train(only_rank) == 40
    same(only_rank.model.state_dict(), exact_alone, rtol=0, atol=0)
    only_rank.close()
    only_rank.close()
    with pytest.raises(TrainingError, match="the session is closed"):
        next(only_rank.batches(0))


def test_step_returns_true_where_an_update_ends(only_rank):
    updated = []
    for batch in only_rank.batches(0):
        jobs.loss_of(only_rank.model, batch)[0].backward()
        updated.append(only_rank.step())
    assert updated == [False, False, False, True] * 5
    assert only_rank.training_step == 5


def test_step_of_a_graph_is_that_of_its_session(only_rank):
    graph = FlowBuilder.from_(torch.nn.Linear(4, 8)).through(torch.nn.Linear(8, 1)).build()
    session = Trainer.setup(
        graph, jobs.adam, data=[(torch.ones(2, 4), torch.ones(2, 1))] * 4, accumulate=2
    )
    only_rank.close()
    session._ranks = session._join(only_rank._ranks._place)
    for x, y in session.batches(0):
        session.backward((graph(x) - y).square().mean())
        graph.step()
    session.end_epoch(0)
    assert session.training_step == 2
    session.close()


def test_batches_with_a_start_leave_out_those_before(only_rank):
    for batch in only_rank.batches(0, 16):
        only_rank.backward(jobs.loss_of(only_rank.model, batch)[0])
        only_rank.step()
    assert only_rank.training_step == 1


def test_unfinished_update_continues_with_the_same_bits(only_rank, tmp_path):
    def joined_session():
        session = script.session_of(jobs.net, accumulate=6, exact="bits", ema=0.9)
        session._ranks = session._join(only_rank._ranks._place)
        return session

    whole, later = joined_session(), joined_session()
    script.train(whole, last=1)
    whole.save(tmp_path / "half.safetensors", epoch=1)
    assert whole.state_dict()["pending"] == 2
    script.train(whole, first=1)
    later.resume(tmp_path / "half.safetensors")
    script.train(later, first=1)
    for part in ("state", "averages"):
        same(script.outcome(later, 20)[part], script.outcome(whole, 40)[part], rtol=0, atol=0)
    later.close()
    whole.close()


def test_batches_after_one_without_a_step_name_the_cure(only_rank):
    batches = only_rank.batches(0)
    next(batches)
    with pytest.raises(TrainingError, match=r"did not call `session\.step\(\)` for the last one"):
        next(batches)


def test_step_without_a_batch_names_the_cure(only_rank):
    with pytest.raises(TrainingError, match=r"`step\(\)` ends a batch of `session\.batches"):
        only_rank.step()


@pytest.mark.parametrize(
    "act",
    [
        lambda session, path: next(session.batches(1)),
        lambda session, path: session.end_epoch(0),
        lambda session, path: session.save(path),
        lambda session, path: session.resume(path),
        lambda session, path: session.close(),
    ],
    ids=["batches", "end_epoch", "save", "resume", "close"],
)
def test_loop_that_was_left_early_names_the_cure(only_rank, tmp_path, act):
    for _ in only_rank.batches(0):
        break
    with pytest.raises(TrainingError, match="no rank leaves that loop early"):
        act(only_rank, tmp_path / "file.safetensors")


def test_step_with_a_closure_names_the_cure(only_rank):
    next(only_rank.batches(0))
    with pytest.raises(TrainingError, match="use an optimizer without a closure"):
        only_rank.step(lambda: None)


def test_schedule_and_factor_set_later_reach_the_updates(only_rank):
    only_rank.set_scheduler(CosineScheduler(0.1, 0.1, 10))
    only_rank.set_lr_scale(0.5)
    script.train(only_rank, last=1)
    assert only_rank.optimizer.param_groups[0]["lr"] == pytest.approx(0.05)


def test_metrics_of_an_epoch_are_means_over_the_ranks(only_rank):
    script.train(only_rank, last=1)
    assert only_rank._ranks.means({"loss": 3.0}) == {"loss": 3.0}


def test_error_of_a_window_is_raised_in_the_loop(only_rank, monkeypatch):
    def fail(*place):
        raise ValueError("no random numbers")

    monkeypatch.setattr("flodl.train.sync.window_step.seed_generators", fail)
    with pytest.raises(ValueError, match="no random numbers"):
        next(only_rank.batches(0))
    with pytest.raises(TrainingError, match="the session is closed"):
        next(only_rank.batches(0))


def test_process_that_ends_in_an_epoch_tells_the_others(only_rank):
    next(only_rank.batches(0))
    ranks = only_rank._ranks
    told = []
    ranks._team.fail = told.append
    ranks._end_with_process()
    assert told == ["TrainingError: its script ended in the middle of epoch 0"]


def test_process_that_ends_with_an_error_tells_the_others(only_rank, monkeypatch):
    monkeypatch.setattr(sys, "last_value", ValueError("this batch is bad"), raising=False)
    ranks = only_rank._ranks
    told = []
    ranks._team.fail = told.append
    ranks._end_with_process()
    assert told == ["ValueError: this batch is bad"]


def test_copy_of_a_process_leaves_nothing(only_rank, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: -1)
        only_rank._ranks._end_with_process()
    assert script.train(only_rank, last=1) == 20


# ---- refusals before the first step ------------------------------------------------------------


@pytest.fixture
def one_of_two(monkeypatch):
    variables = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "nowhere", "MASTER_PORT": "1"}
    for name, text in variables.items():
        monkeypatch.setenv(name, text)


def setup(model=None, **options):
    model = torch.nn.Linear(4, 1) if model is None else model
    given = {"data": [(torch.ones(2, 4), torch.ones(2, 1))] * 4, "accumulate": 2, "policy": "sync"}
    return Trainer.setup(model, jobs.adam, **{**given, **options})


def taken_sampler(replicas):
    data = TensorDataset(torch.ones(8, 4))
    sampler = DistributedSampler(data, num_replicas=replicas, rank=0)
    return DataLoader(data, batch_size=2, sampler=sampler)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"policy": "cadence"}, r'`Trainer\.builder\(\.\.\.\)\.policy\("cadence"\)`'),
        ({"policy": "async"}, r'or policy="sync" here'),
        ({"policy": "all"}, "there is no policy 'all'"),
        ({"exact": "nearly"}, "there is no exact='nearly'"),
        ({"accumulate": 1}, "give accumulate=2 or more"),
        ({"data": None}, r"Trainer\.setup\(\.\.\., data=\.\.\.\)"),
        ({"data": taken_sampler(2)}, "leave the sampler out"),
    ],
    ids=["cadence", "async", "unknown", "exact", "accumulate", "no data", "sampler"],
)
def test_setup_in_one_of_two_processes_refuses_what_it_cannot(one_of_two, options, words):
    with pytest.raises(TrainingError, match=words):
        setup(**options)


def test_setup_of_a_model_that_exchanges_gradients_itself_is_refused():
    parallel = torch.nn.parallel.DistributedDataParallel
    with pytest.raises(TrainingError, match="give the plain model"):
        require_shareable(parallel.__new__(parallel), [])
    require_shareable(torch.nn.Linear(1, 1), taken_sampler(1))


def test_setup_in_one_of_two_processes_without_a_policy_names_the_cure(one_of_two):
    with pytest.raises(DeviceError, match='add `policy="sync"` and `data`'):
        setup(policy=None)


def test_setup_of_other_weights_on_another_rank_names_the_cure():
    told = {0: "1", 1: "2"}
    runner = SimpleNamespace(add_up=lambda count, work: SimpleNamespace(notes=told))
    with pytest.raises(TrainingError, match=r"Call `torch\.manual_seed"):
        rank_loop._require_equal(runner, torch.nn.Linear(1, 1))


def test_setup_with_a_policy_in_one_process_trains_the_same_numbers():
    found = []
    for policy in (None, "sync"):
        torch.manual_seed(0)
        session = setup(policy=policy)
        for batch in session.batches(0):
            session.backward(jobs.loss_of(session.model, batch)[0])
            session.step()
        found.append(session.model.state_dict())
    same(*found, rtol=0, atol=0)
