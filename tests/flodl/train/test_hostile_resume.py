"""A Trainer that resumes from a file somebody changed: it refuses, and its model is as it was."""

import json
import random
from pathlib import Path

import pytest
import torch
from torch import nn

from flodl import RunDirectory, Trainer
from flodl.errors import CheckpointError
from tests.flodl.checkpoint.mutations import metadata_of, mutated_document, resealed

pytestmark = pytest.mark.torch


def loss(model, batch):
    return (model(batch) - 1).square().mean()


def builder(folder, model, epochs):
    data = [torch.ones(4, 2) * each for each in range(4)]
    built = Trainer.builder(lambda: model, lambda p: torch.optim.Adam(p, 0.1), loss)
    return built.dataset(data).num_epochs(epochs).step("eager").progress(False).run_dir(folder)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "first"
    builder(folder, nn.Linear(2, 1), 2).run().join()
    return RunDirectory.open(folder)


def resumed(run, data, tmp_path):
    """Resume from other bytes; return whether they were refused, which must change no weight."""
    path = Path(tmp_path) / "changed.fdl"
    path.write_bytes(data)
    model = nn.Linear(2, 1)
    before = {name: each.clone() for name, each in model.state_dict().items()}
    try:
        builder(Path(tmp_path) / "again", model, 2).resume(path).run().join()
    except CheckpointError:
        after = model.state_dict()
        assert all(torch.equal(before[name], after[name]) for name in before)
        return True
    return False


def refused(run, tmp_path, count, seed):
    data = run.checkpoints.latest(lambda _: None).path.read_bytes()
    text = metadata_of(data)["fdl.train"]
    generator = random.Random(seed)
    found = 0
    for index in range(count):
        changed = resealed(data, **{"fdl.train": mutated_document(text, generator)})
        folder = tmp_path / str(index)
        folder.mkdir()
        found += resumed(run, changed, folder)
    return found


def test_trainer_resume_from_resealed_mutations_is_refused_whole_or_taken(run, tmp_path):
    assert refused(run, tmp_path, 40, 1) > 20


@pytest.mark.slow
def test_trainer_resume_from_many_resealed_mutations_is_refused_whole_or_taken(run, tmp_path):
    assert refused(run, tmp_path, 400, 2) > 200


@pytest.mark.parametrize(("field", "value"), [("epoch", "1"), ("phase", 5), ("lr_scale", None)])
def test_trainer_resume_with_wrong_position_is_refused(field, value, run, tmp_path):
    data = run.checkpoints.latest(lambda _: None).path.read_bytes()
    form = json.loads(metadata_of(data)["fdl.train"])
    parts = dict(form["dict"])["parts"]
    training = dict(parts["dict"])["training"]
    for pair in training["dict"]:
        if pair[0] == field:
            pair[1] = value
    assert resumed(run, resealed(data, **{"fdl.train": json.dumps(form)}), tmp_path)
