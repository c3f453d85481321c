"""Migration: it follows names, then shapes that occur once, and refuses to guess."""

import io

import pytest
import torch
from torch import nn

from flodl.checkpoint.files import checkpoint_version, migrate_checkpoint_file
from flodl.checkpoint.legacy import legacy_bytes
from flodl.checkpoint.migrate import migrate_checkpoint
from flodl.checkpoint.store import load, save
from flodl.errors import CheckpointError
from tests.flodl.checkpoint.samples import net, saved

pytestmark = pytest.mark.torch


def old():
    torch.manual_seed(0)
    return nn.ModuleDict({"first": nn.Linear(3, 4), "second": nn.Linear(4, 2)})


def new():
    torch.manual_seed(1)
    return nn.ModuleDict({"encoder": nn.Linear(3, 4), "second": nn.Linear(4, 2)})


def migrated(source, model, **settings):
    stream = io.BytesIO()
    report = migrate_checkpoint(io.BytesIO(source), stream, model, **settings)
    return report, io.BytesIO(stream.getvalue())


def test_unique_shapes_find_their_place():
    report, file = migrated(saved(old()), new())
    assert report.remapped == (
        ("first.weight", "encoder.weight"),
        ("first.bias", "encoder.bias"),
    )
    assert set(report.unchanged) == {"second.weight", "second.bias"}
    assert report.is_complete()
    target = new()
    assert load(target, file).missing == ()
    assert torch.equal(target["encoder"].weight, old()["first"].weight)


def twins(one, two):
    torch.manual_seed(0)
    return nn.ModuleDict({one: nn.Linear(3, 3), two: nn.Linear(3, 3)})


def test_equal_shapes_are_refused_and_named():
    with pytest.raises(CheckpointError, match="swapping") as caught:
        migrated(saved(twins("a", "b")), twins("c", "d"))
    assert caught.value.differences == (
        "F32 [3, 3]: a.weight, b.weight could each be any of c.weight, d.weight",
        "F32 [3]: a.bias, b.bias could each be any of c.bias, d.bias",
    )


def test_one_place_and_two_candidates_is_ambiguous_too():
    with pytest.raises(CheckpointError, match="swapping"):
        migrated(saved(twins("a", "b")), nn.ModuleDict({"c": nn.Linear(3, 3)}))


def test_names_decide_and_what_is_then_unique_follows():
    source = twins("a", "b")
    names = {"a.weight": "d.weight", "a.bias": "d.bias"}
    report, file = migrated(saved(source), twins("c", "d"), rename=names)
    assert dict(report.remapped) == names | {"b.weight": "c.weight", "b.bias": "c.bias"}
    target = twins("c", "d")
    load(target, file)
    assert torch.equal(target["d"].weight, source["a"].weight)
    assert torch.equal(target["c"].bias, source["b"].bias)


def test_in_order_is_a_decision_of_the_caller():
    source = twins("a", "b")
    _, file = migrated(saved(source), twins("c", "d"), in_order=True)
    target = twins("c", "d")
    load(target, file)
    assert torch.equal(target["c"].weight, source["a"].weight)
    assert torch.equal(target["d"].weight, source["b"].weight)


def test_wrong_names_are_all_listed():
    with pytest.raises(CheckpointError) as caught:
        migrated(saved(old()), new(), rename={"x": "y", "first.weight": "second.weight"})
    text = "\n".join(caught.value.differences)
    assert "'x' is not in the file" in text
    assert "'y' is not in the model" in text
    assert "(4, 3)" in text


def test_what_has_no_place_is_reported_and_printed():
    source = nn.ModuleDict({"first": nn.Linear(3, 4), "gone": nn.Linear(7, 1)})
    target = nn.ModuleDict({"first": nn.Linear(3, 4), "added": nn.Linear(9, 5)})
    report, _ = migrated(saved(source), target)
    assert not report.is_complete()
    assert set(report.dropped) == {"gone.weight", "gone.bias"}
    assert report.missing == ("added.weight", "added.bias")
    assert str(report) == (
        "unchanged: 2\n  first.weight\n  first.bias\nremapped: 0\n"
        "dropped: 2\n  gone.weight\n  gone.bias\nmissing: 2\n  added.weight\n  added.bias"
    )


def test_files_of_the_rust_framework_become_ours(tmp_path):
    source, target = tmp_path / "old.fdl.gz", tmp_path / "new.fdl.gz"
    tensors = {
        f"linear_{i}.{n}": p for i, m in enumerate(old().values()) for n, p in m.named_parameters()
    }
    source.write_bytes(legacy_bytes(tensors, version=1))
    model = new()
    report = migrate_checkpoint_file(source, target, model.named_parameters())
    assert len(report.remapped) == 4
    assert report.is_complete()
    assert checkpoint_version(target) == 3
    assert load(model, target).sealed
    assert torch.equal(model["encoder"].weight, old()["first"].weight)


def test_tied_names_survive():
    def tied():
        model = twins("a", "b")
        model["b"].weight = model["a"].weight
        return model

    report, file = migrated(saved(tied()), tied())
    assert report.is_complete()
    assert load(tied(), file).missing == ()


def test_a_file_is_never_its_own_target(tmp_path):
    path = tmp_path / "m.fdl"
    save(net(), path)
    before = path.read_bytes()
    link = tmp_path / "link.fdl"
    link.symlink_to(path)
    with pytest.raises(CheckpointError, match="same file"):
        migrate_checkpoint(path, link, net())
    assert path.read_bytes() == before


def test_damage_is_noticed():
    data = bytearray(saved(old()))
    data[-1] ^= 1
    with pytest.raises(CheckpointError, match="damaged"):
        migrated(data, new())
