"""Which checkpoints stay, which is the newest whole one, and which the best."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flodl import RunDirectory
from flodl.checkpoint.state import save_state
from flodl.runs.checkpoints import Checkpoints, Keep

pytestmark = pytest.mark.torch


def put(path):
    save_state(path, {"a": 1}, of="test")


def put_quickly(path):
    path.write_bytes(b"no checkpoint, but a file")


def fill(folder, losses, keep=None, put=put):
    checkpoints = Checkpoints(folder)
    for step, loss in enumerate(losses):
        metrics = {} if loss is None else {"loss": loss}
        checkpoints.write({"step": step, "epoch": step, "metrics": metrics}, put, keep)
    return checkpoints


def steps(checkpoints):
    return [each.step for each in checkpoints.entries()]


def test_the_last_and_the_best_stay(tmp_path):
    checkpoints = fill(tmp_path, [5.0, 1.0, 4.0, 3.0, 6.0], Keep(last=2, best=1))
    assert steps(checkpoints) == [1, 3, 4]
    assert checkpoints.best().step == 1
    assert checkpoints.best("loss", "max").step == 4
    assert checkpoints.best("accuracy") is None
    assert sorted(each.suffix for each in tmp_path.iterdir()) == [".fdl"] * 3 + [".json"] * 3


@given(
    losses=st.lists(st.one_of(st.none(), st.floats(0, 9), st.just(float("nan"))), max_size=12),
    last=st.integers(1, 4),
    best=st.integers(0, 3),
    mode=st.sampled_from(["min", "max"]),
)
def test_what_stays_is_what_was_asked_for(tmp_path_factory, losses, last, best, mode):
    folder = tmp_path_factory.mktemp("c")
    checkpoints = fill(folder, losses, put=put_quickly)
    checkpoints.prune(Keep(last=last, best=best, mode=mode))
    count = len(losses)
    ranked = sorted(
        (each for each in enumerate(losses) if each[1] is not None and each[1] == each[1]),
        key=lambda each: (each[1] if mode == "min" else -each[1], -each[0]),
    )
    wanted = {*range(max(0, count - last), count), *(step for step, _ in ranked[:best])}
    assert steps(checkpoints) == sorted(wanted)


def test_a_damaged_one_is_passed_over_and_said(tmp_path):
    checkpoints = fill(tmp_path, [3.0, 2.0, 1.0])
    newest = checkpoints.entries()[-1].path
    data = bytearray(newest.read_bytes())
    data[-1] ^= 1
    newest.write_bytes(data[:-3])
    told = []
    assert checkpoints.latest(told.append).step == 1
    assert "passed over a damaged checkpoint" in told[0]
    assert Checkpoints(tmp_path / "none").latest() is None


def test_a_note_that_is_lost_loses_no_checkpoint(tmp_path):
    checkpoints = fill(tmp_path, [3.0, 2.0])
    checkpoints.entries()[1].path.with_suffix(".json").write_text("[]")
    checkpoints.entries()[0].path.with_suffix(".json").unlink()
    assert [(each.step, dict(each.metrics)) for each in checkpoints.entries()] == [
        (0, {}),
        (1, {}),
    ]


def test_keeping_nothing_is_refused():
    with pytest.raises(ValueError, match="keep at least"):
        Keep(last=0)


def test_the_directory_leads_to_its_checkpoints(tmp_path):
    run = RunDirectory.create(tmp_path, "a")
    run.checkpoints.write({"step": 7, "epoch": 1, "reason": "epoch"}, put)
    assert RunDirectory.open(run.path).checkpoints.latest().reason == "epoch"
