"""`auto` weighs the batches that are left against what a compiled step costs."""

import json
import re

import pytest
import torch

from flodl import Trainer
from flodl.step import artifact
from flodl.step import tiering as tiering_module
from flodl.step.step import make_step
from flodl.train import trainer as trainer_module
from tests.flodl.step.helpers import batches, net, train_fn

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("replay")]


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FLODL_CACHE_DIR", str(tmp_path))
    folder = tmp_path / "steps"
    folder.mkdir()
    (folder / "pace.json").write_text("1.0", encoding="utf-8")
    return folder


def trained(left, *, seconds=0.5, mode="auto"):
    """Return the lines of a step that believes that each batch takes so many seconds."""
    model, told = net(), []
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    step = make_step(model, optimizer, train_fn, mode=mode, report=told.append)
    if left is not None:
        step.foresee(lambda: left)
    for batch in batches(40):
        step(batch)
        for attempt in step._tiering._each():
            if attempt.phase == "warm":
                attempt.spent = seconds * attempt.seen
    return told


def is_tried(told):
    return any("as fast" in line or "not faster" in line for line in told)


@pytest.mark.parametrize(
    ("left", "compiled", "tried"),
    [
        (None, False, True),
        (1_000_000, False, True),
        (10, False, False),
        (10, True, False),
        (60, False, False),
        (60, True, True),
    ],
)
def test_auto_tries_a_step_only_where_the_batches_left_pay_it(
    left, compiled, tried, cache, monkeypatch
):
    monkeypatch.setattr(tiering_module, "is_compiled", lambda program: compiled)
    told = trained(left)
    assert is_tried(told) == tried
    assert any("too short" in line for line in told) == (not tried)


def test_auto_names_what_is_left_and_what_compiling_costs(cache):
    (line,) = (each for each in trained(10) if "left" in each)
    said = "eager: 10 batches are left, about 4 s: too short to gain from a compiled step"
    assert line == said
    (line,) = (each for each in trained(60) if "left" in each)
    found = re.search(r"whose (\d+) operations take about (\d+) s to compile", line)
    assert found is not None
    assert found[1] == found[2]
    assert int(found[1]) > 20


def test_other_modes_compile_however_few_batches_are_left(cache):
    assert any(line.startswith("compiled: ") for line in trained(1, mode="compiled"))


@pytest.mark.parametrize("damaged", ["", "[]", "null", '"x"', "NaN", "Infinity", "-1", "0"])
def test_pace_is_learned_from_compilations_and_may_be_damaged(damaged, cache):
    (cache / "pace.json").unlink()
    usual = artifact.expected_seconds(100)
    assert usual == pytest.approx(2.0)
    artifact.note_seconds(100, 4.0)
    assert artifact.expected_seconds(100) == pytest.approx(3.0)
    artifact.note_seconds(100, 1.0)
    assert artifact.expected_seconds(100) == pytest.approx(2.0)
    assert json.loads((cache / "pace.json").read_text()) == pytest.approx(0.02)
    (cache / "pace.json").write_text(damaged, encoding="utf-8")
    assert artifact.expected_seconds(100) == usual


@pytest.mark.parametrize(
    ("settings", "data", "wanted"),
    [
        ({"num_epochs": 3}, batches(6), [18, 17, 13, 0]),
        ({"num_epochs": 3, "max_steps": 4}, batches(6), [4, 3]),
        ({"num_epochs": 2}, lambda: iter(batches(6)), [None]),
    ],
)
def test_trainer_tells_its_step_how_many_batches_are_left(settings, data, wanted, monkeypatch):
    made, seen = [], []
    monkeypatch.setattr(
        trainer_module, "make_step", lambda *a, **k: made.append(make_step(*a, **k)) or made[-1]
    )

    def train(model, batch):
        seen.append(made[0]._tiering.batches_left())
        return train_fn(model, batch)

    trainer = Trainer.builder(
        net, lambda params: torch.optim.SGD(params, 0.1), train
    ).step("auto").progress(False)  # fmt: skip
    for name, value in settings.items():
        trainer = getattr(trainer, name)(value)
    trainer.dataset(data).run().join()
    assert [each for each in wanted if each not in (*seen, 0)] == []
    assert seen == sorted(seen, key=lambda each: -(each or 0))
