"""Files that this process knows to be sound are read once, and every other one is checked first."""

import os

import pytest
import torch

from flodl.checkpoint import sound
from flodl.checkpoint.contents import SafetensorsContents
from flodl.checkpoint.files import verify
from flodl.checkpoint.store import load, load_checkpoint, save, save_checkpoint
from flodl.checkpoint.training import resume, save_training
from flodl.errors import CheckpointError
from tests.flodl.checkpoint.samples import net, same


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch):
    monkeypatch.setattr(sound, "_known", type(sound._known)())


@pytest.fixture
def passes(monkeypatch):
    """Count how often a whole file is checked."""
    counted = []
    real = SafetensorsContents.problems
    monkeypatch.setattr(
        SafetensorsContents, "problems", lambda self: counted.append(1) or real(self)
    )
    return counted


def flipped(path, keep_times=False):
    """Flip a bit of the last tensor in place."""
    before = path.stat()
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        last = file.read(1)[0]
        file.seek(-1, os.SEEK_END)
        file.write(bytes([last ^ 1]))
    if keep_times:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_what_this_process_wrote_is_checked_as_it_is_copied(passes, tmp_path):
    save(net(0), tmp_path / "m.fdl")
    model = net(1)
    load(model, tmp_path / "m.fdl")
    assert same(model, net(0))
    assert not passes


def test_what_another_process_wrote_is_checked_first_and_once(passes, tmp_path):
    save(net(0), tmp_path / "m.fdl")
    sound.forget_all()
    for _ in range(3):
        model = net(1)
        load(model, tmp_path / "m.fdl")
        assert same(model, net(0))
    assert len(passes) == 1


def test_a_file_that_changed_is_checked_first_and_nothing_is_loaded(passes, tmp_path):
    save(net(0), tmp_path / "m.fdl")
    os.utime(tmp_path / "m.fdl", (1, 1))
    sound.remember(sound.stamp_of(tmp_path / "m.fdl"))
    flipped(tmp_path / "m.fdl")
    model = net(1)
    with pytest.raises(CheckpointError, match="the file is damaged; use another copy"):
        load(model, tmp_path / "m.fdl")
    assert same(model, net(1))
    assert passes
    assert not sound.is_known(sound.stamp_of(tmp_path / "m.fdl"))


def test_a_replaced_file_is_another_one(passes, tmp_path):
    save(net(0), tmp_path / "m.fdl")
    save(net(2), tmp_path / "other.fdl")
    (tmp_path / "copy.fdl").write_bytes((tmp_path / "other.fdl").read_bytes())
    (tmp_path / "copy.fdl").replace(tmp_path / "m.fdl")
    model = net(1)
    load(model, tmp_path / "m.fdl")
    assert same(model, net(2))
    assert len(passes) == 1


def test_damage_that_the_times_do_not_show_is_found_while_copying(tmp_path, monkeypatch):
    save(net(0), tmp_path / "m.fdl")
    monkeypatch.setattr(sound, "is_known", lambda _: True)
    flipped(tmp_path / "m.fdl")
    with pytest.raises(CheckpointError, match="replaced already; load another copy") as caught:
        load(net(1), tmp_path / "m.fdl")
    (difference,) = caught.value.differences
    assert "is damaged: its checksum does not match" in difference


def test_values_that_are_converted_are_checked_too(tmp_path, monkeypatch):
    save_checkpoint(tmp_path / "m.fdl", {"a": torch.ones(3)})
    monkeypatch.setattr(sound, "is_known", lambda _: True)
    target = torch.zeros(3, dtype=torch.float64)
    load_checkpoint(tmp_path / "m.fdl", {"a": target})
    assert target.tolist() == [1, 1, 1]
    flipped(tmp_path / "m.fdl")
    with pytest.raises(CheckpointError, match="use another copy"):
        load_checkpoint(tmp_path / "m.fdl", {"a": target})
    assert target.tolist() == [1, 1, 1]


def test_questions_and_training_states_always_check_first(passes, tmp_path):
    model = net(0)
    optimizer = torch.optim.Adam(model.parameters())
    save_training(tmp_path / "t.fdl", model, optimizer)
    resume(tmp_path / "t.fdl", model, optimizer)
    assert len(passes) == 1
    assert verify(tmp_path / "t.fdl") == ()
    assert len(passes) == 2


def test_only_the_latest_files_are_remembered():
    for number in range(2 * sound._MOST):
        sound.remember((0, number, 0, 0, 0))
    assert len(sound._known) == sound._MOST
    assert sound.is_known((0, 2 * sound._MOST - 1, 0, 0, 0))
    assert not sound.is_known((0, 0, 0, 0, 0))


def test_a_file_that_another_replaced_at_once_is_not_taken_for_ours(tmp_path):
    save(net(2), tmp_path / "other.fdl")
    sound.forget_all()
    real = os.replace

    def overtaken(source, target):
        real(source, target)
        real(tmp_path / "other.fdl", target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "replace", overtaken)
        save(net(0), tmp_path / "m.fdl")
    assert not sound._known
