"""Reading a file straight into the memory of the weights."""

import os
from pathlib import Path

import pytest
import torch
from torch import nn

from flodl.checkpoint import direct, sound
from flodl.checkpoint.store import load, load_checkpoint, save, save_checkpoint
from flodl.errors import CheckpointError
from tests.flodl.checkpoint.samples import net, same


@pytest.fixture(params=["one thread", "threads"])
def threads(request, monkeypatch):
    monkeypatch.setattr(direct, "_WORTH_THREADS", 0 if request.param == "threads" else 1 << 40)


@pytest.fixture(params=["sound for this process", "never seen"])
def seen(request, monkeypatch):
    if request.param == "never seen":
        monkeypatch.setattr(sound, "is_known", lambda _: False)


def test_files_are_read_straight_into_the_weights(threads, seen, tmp_path, monkeypatch):
    save(net(0), tmp_path / "m.fdl")
    model = net(1)
    places = [each.data_ptr() for each in model.parameters()]
    monkeypatch.setattr(torch.Tensor, "copy_", None)  # would be an error
    load(model, tmp_path / "m.fdl")
    monkeypatch.undo()
    assert same(model, net(0))
    assert [each.data_ptr() for each in model.parameters()] == places


def test_reads_that_give_less_than_asked_are_continued(threads, seen, tmp_path, monkeypatch):
    real = os.preadv
    monkeypatch.setattr(os, "preadv", lambda file, views, at: real(file, [views[0][:7]], at))
    save(net(0), tmp_path / "m.fdl")
    model = net(1)
    load(model, tmp_path / "m.fdl")
    assert same(model, net(0))


def test_a_file_that_becomes_shorter_between_checking_and_reading(
    threads, seen, tmp_path, monkeypatch
):
    monkeypatch.setattr(os, "preadv", lambda file, views, at: 0)
    save(net(0), tmp_path / "m.fdl")
    with pytest.raises(CheckpointError, match="became shorter") as caught:
        load(net(1), tmp_path / "m.fdl")
    assert caught.value.path == str(tmp_path / "m.fdl")


def test_a_disk_that_fails_while_reading(threads, seen, tmp_path, monkeypatch):
    def broken(file, views, at):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "preadv", broken)
    save(net(0), tmp_path / "m.fdl")
    with pytest.raises(CheckpointError, match="Input/output error"):
        load(net(1), tmp_path / "m.fdl")


def test_what_was_checked_is_what_is_read_though_the_name_now_means_another_file(tmp_path):
    save(net(0), tmp_path / "m.fdl")
    save(net(2), tmp_path / "other.fdl")
    real = direct.DirectReader.fill
    model = net(1)

    def exchanged(self, pieces):
        (tmp_path / "other.fdl").replace(tmp_path / "m.fdl")
        real(self, pieces)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(direct.DirectReader, "fill", exchanged)
        load(model, tmp_path / "m.fdl")
    assert same(model, net(0))


def test_autograd_notices_that_a_value_it_needs_was_replaced(tmp_path):
    model = nn.Linear(2, 2)
    save(model, tmp_path / "m.fdl")
    out = model(torch.ones(1, 2, requires_grad=True)).sum()
    load(model, tmp_path / "m.fdl")
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()


def test_memory_of_other_kinds_is_copied_to(tmp_path):
    values = {name: torch.randn(3, 2) for name in ("other_dtype", "transposed", "part")}
    save_checkpoint(tmp_path / "m.fdl", values)
    whole = torch.zeros(3, 4)
    targets = {
        "other_dtype": torch.zeros(3, 2, dtype=torch.float64),
        "transposed": torch.zeros(2, 3).t(),
        "part": whole[:, 1:3],
    }
    assert not any(direct.takes_bytes(each, torch.float32) for each in targets.values())
    load_checkpoint(tmp_path / "m.fdl", targets)
    for name, each in targets.items():
        assert torch.equal(each.float(), values[name])
    assert torch.equal(whole[:, 1:3], values["part"])
    assert not whole[:, 0].any()


def test_systems_without_positional_reads_copy(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "preadv")
    monkeypatch.setattr(direct, "_POSITIONAL", False)
    save(net(0), tmp_path / "m.fdl")
    model = net(1)
    load(model, tmp_path / "m.fdl")
    assert same(model, net(0))


def test_no_descriptor_stays_open(tmp_path):
    save(net(0), tmp_path / "m.fdl")
    opened = Path("/proc/self/fd")
    if not opened.is_dir():
        pytest.skip("counts the descriptors in /proc")
    before = len(list(opened.iterdir()))
    for _ in range(5):
        load(net(1), tmp_path / "m.fdl")
    assert len(list(opened.iterdir())) == before
