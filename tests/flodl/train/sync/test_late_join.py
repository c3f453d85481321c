"""Ranks that join a running training: exact trainings keep the bits of one device."""

import os
import signal
import time
from pathlib import Path

import pytest
import torch

from flodl import Trainer, TrainingError
from flodl.distributed.team import Team, TeamError, WorkerError
from tests.flodl.train.sync import shared_jobs
from tests.flodl.train.sync.shared_jobs import Awaiting, Planted, builder, digest

pytestmark = [pytest.mark.slow, pytest.mark.torch, pytest.mark.usefixtures("forked_ranks")]
EPOCHS = 40


@pytest.fixture(scope="module")
def alone():
    return builder(1, epochs=EPOCHS).run().join()


def ranks_of(metrics):
    return {each.rank for each in metrics.per_rank if each.batches}


def begun(folder, train, ranks=2):
    made = builder(ranks, epochs=EPOCHS, train=train).on("start", train.note_rank)
    return made.run_dir(folder / "run")


def require_same(state, alone):
    assert digest(state) == digest(alone)
    assert [each.scalars for each in state.history] == [each.scalars for each in alone.history]
    for each in state.history:
        assert sum(share.batches for share in each.per_rank) == 20


def test_added_rank_joins_and_changes_no_bit(alone, tmp_path):
    handle = begun(tmp_path, Awaiting(tmp_path, 2)).run()
    assert ranks_of(handle.next_metrics()) == {0, 1}
    assert handle.add_rank("cpu") == 2
    state = handle.join()
    assert ranks_of(state.history[-1]) == {0, 1, 2}
    require_same(state, alone)


def test_two_ranks_join_one_training(alone, tmp_path):
    handle = begun(tmp_path, Awaiting(tmp_path, 3)).run()
    assert (handle.add_rank("cpu"), handle.add_rank("cpu")) == (2, 3)
    state = handle.join()
    assert ranks_of(state.history[-1]) == {0, 1, 2, 3}
    require_same(state, alone)


@pytest.mark.parametrize("dies", [0, 1])
def test_respawn_starts_a_rank_in_place_of_one_that_was_killed(alone, tmp_path, capsys, dies):
    train = Awaiting(tmp_path, 2, acts={dies: (7, signal.SIGKILL)})
    state = begun(tmp_path, train).respawn(1).progress(True).run().join()
    assert (tmp_path / f"fault-{dies}").exists()
    assert ranks_of(state.history[-1]) == {0, 1, 2} - {dies}
    require_same(state, alone)
    told = capsys.readouterr().err
    assert f"rank {dies} died; 1 rank goes on" in told
    assert f"rank 2 starts in place of rank {dies}" in told
    assert "rank 2 joined; 2 ranks train" in told


def test_rank_that_hung_is_replaced(alone, tmp_path):
    train = Awaiting(tmp_path, 2, acts={1: (3, signal.SIGSTOP)})
    handle = begun(tmp_path, train).patience(2.0).run()
    while not (tmp_path / "fault-1").exists():
        time.sleep(0.01)
    # The system may end a stopped process, and then it counts as one that died.
    time.sleep(3.0)
    number = handle.add_rank("cpu")
    state = handle.join()
    assert number == 2
    assert ranks_of(state.history[-1]) == {0, 2}
    require_same(state, alone)


def test_newcomer_alone_continues_when_all_others_die(alone, tmp_path):
    after = {0: (4, signal.SIGKILL), 1: (9, signal.SIGKILL)}
    handle = begun(tmp_path, Awaiting(tmp_path, 2, after=after)).run()
    handle.add_rank("cpu")
    state = handle.join()
    assert ranks_of(state.history[-1]) == {2}
    require_same(state, alone)


def test_newcomer_that_dies_changes_no_bit(alone, tmp_path):
    train = Awaiting(tmp_path, 2, after={2: (3, signal.SIGKILL)})
    handle = begun(tmp_path, train).run()
    handle.add_rank("cpu")
    state = handle.join()
    assert (tmp_path / "fault-2").exists()
    assert ranks_of(state.history[-1]) == {0, 1}
    require_same(state, alone)


@pytest.mark.parametrize(
    ("rank", "kind"),
    [(0, "pack"), (0, "sent"), (1, "sent"), (0, "sum"), (1, "sum"), (0, "before"), (1, "before")],
)
def test_fault_in_the_admission_changes_no_bit(alone, tmp_path, rank, kind):
    handle = begun(tmp_path, Planted(tmp_path, 2, rank, kind)).run()
    handle.add_rank("cpu")
    state = handle.join()
    assert (tmp_path / f"fault-{rank}").exists()
    dead = {rank} if kind in ("pack", "sent") else set()
    assert ranks_of(state.history[-1]) == {0, 1, 2} - dead
    require_same(state, alone)


@pytest.mark.parametrize("kind", ["enter", "gather"])
def test_newcomer_that_dies_while_it_is_let_in_changes_no_bit(alone, tmp_path, kind):
    train = Awaiting(tmp_path, 3)
    made = builder(2, epochs=EPOCHS, train=train, model=DiesThird(tmp_path, kind))
    handle = made.on("start", train.note_rank).run_dir(tmp_path / "run").run()
    while len(list(tmp_path.glob("made-*"))) < 2:
        time.sleep(0.01)
    handle.add_rank("cpu")
    while not (tmp_path / "died").exists():
        time.sleep(0.01)
    handle.add_rank("cpu")
    state = handle.join()
    assert ranks_of(state.history[-1]) == {0, 1, 3}
    require_same(state, alone)


def test_everything_of_a_training_goes_to_a_rank_that_joins(tmp_path):
    def configured(made):
        made = made.max_grad_norm(0.5).ema(0.9).precision("bf16").checkpoints(steps=50)
        return made.evaluate(shared_jobs.data(), batch_size=32).scheduler(decaying)

    one = configured(builder(1, epochs=EPOCHS)).run().join()
    train = Awaiting(tmp_path, 2, after={0: (5, signal.SIGKILL)})
    handle = configured(begun(tmp_path, train)).run()
    handle.add_rank("cpu")
    two = handle.join()
    assert digest(two) == digest(one)
    assert [each.scalars for each in two.history] == [each.scalars for each in one.history]
    assert [each.lr for each in two.history] == [each.lr for each in one.history]
    assert all(torch.equal(two.averages[name], one.averages[name]) for name in one.averages)


def decaying(optimizer):
    return torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.95)


def test_checkpoint_of_a_training_that_a_rank_joined_continues_with_one_device(alone, tmp_path):
    train = Awaiting(tmp_path, 2)
    made = begun(tmp_path, train).checkpoints(epochs=1)
    handle = made.on("epoch", StopAfterJoin(tmp_path)).run()
    handle.add_rank("cpu")
    part = handle.join()
    assert part.stopped_by == "a rank joined"
    whole = builder(1, epochs=EPOCHS).run_dir(tmp_path / "run").resume("auto").run().join()
    assert digest(whole) == digest(alone)


class StopAfterJoin:
    def __init__(self, folder):
        self.flag = Path(folder) / "trained-2"

    def __call__(self, training, metrics):
        if self.flag.exists():
            training.stop("a rank joined")


def test_rank_that_comes_too_late_is_told_and_changes_nothing(tmp_path, capsys):
    made = builder(2, epochs=2, model=SlowThird(tmp_path)).progress(True)
    handle = made.run_dir(tmp_path / "run").run()
    while len(list(tmp_path.glob("made-*"))) < 2:
        time.sleep(0.01)
    handle.add_rank("cpu")
    handle.join()
    assert "the training ended before rank 2 joined it" in capsys.readouterr().err
    with pytest.raises(TrainingError, match="does not run in other processes any more"):
        handle.add_rank("cpu")


def test_rank_that_fails_before_it_joins_is_told_and_changes_nothing(alone, tmp_path, capsys):
    train = Awaiting(tmp_path, 9)
    made = builder(2, epochs=4, train=train, model=OnlyTwice(tmp_path)).progress(True)
    handle = made.on("start", train.note_rank).run_dir(tmp_path / "run").run()
    while len(list(tmp_path.glob("made-*"))) < 2:
        time.sleep(0.01)
    handle.add_rank("cpu")
    state = handle.join()
    assert state.stopped_by == "finished"
    told = capsys.readouterr().err
    assert "rank 2 failed before it joined" in told
    assert "no third model" in (tmp_path / "run" / "rank-2.log").read_text()


class SlowThird:
    """A model factory that takes longer than the training in the third process."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def __call__(self):
        if len(list(self.folder.glob("made-*"))) == 2:
            time.sleep(60.0)
        (self.folder / f"made-{time.time_ns()}").touch()
        return shared_jobs.net()


class OnlyTwice:
    """A model factory that fails for the third process."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def __call__(self):
        if len(list(self.folder.glob("made-*"))) == 2:
            raise ValueError("no third model")
        (self.folder / f"made-{time.time_ns()}").touch()
        return shared_jobs.net()


class DiesThird:
    """A model factory that lets the third process die in a step of its entry."""

    def __init__(self, folder, kind):
        self.folder, self.kind = Path(folder), kind

    def __call__(self):
        if len(list(self.folder.glob("made-*"))) == 2:
            act = getattr(Team, self.kind)

            def deadly(team, *args):
                if self.kind == "enter":
                    act(team)
                (self.folder / "died").touch()
                os.kill(os.getpid(), signal.SIGKILL)

            setattr(Team, self.kind, deadly)
        (self.folder / f"made-{time.time_ns()}").touch()
        return shared_jobs.net()


def test_all_ranks_dead_end_the_training_although_one_starts(tmp_path):
    train = Awaiting(tmp_path, 9, acts={0: (3, signal.SIGKILL), 1: (3, signal.SIGKILL)})
    with pytest.raises(WorkerError, match="no rank is left"):
        begun(tmp_path, train).respawn(2).run().join()


def test_respawn_below_zero_is_refused(tmp_path):
    with pytest.raises(TeamError, match="respawn is -1"):
        begun(tmp_path, Awaiting(tmp_path, 9)).respawn(-1).run()


def test_added_rank_needs_a_device_of_its_own(tmp_path):
    handle = begun(tmp_path, Awaiting(tmp_path, 9)).num_epochs(2).run()
    with pytest.raises(TeamError, match="no device of torch"):
        handle.add_rank("gpu0")
    handle.join()


def test_training_in_this_process_has_no_rank_to_add():
    handle = Trainer.builder(shared_jobs.net, shared_jobs.adam, shared_jobs.loss_of)
    handle = handle.dataset(shared_jobs.data()).batch_size(8).progress(False).run()
    with pytest.raises(TrainingError, match=r"start it with \.devices"):
        handle.add_rank("cpu")
