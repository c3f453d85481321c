"""Copies to a GPU, on a pretended one: which stream waits for what."""

import pytest
import torch

from flodl.data import transfer


class Stream:
    """Writes down what happens to it."""

    def __init__(self, log, name):
        self.log = log
        self.name = name

    def record_event(self):
        self.log.append(f"{self.name} records")
        return "event"

    def wait_event(self, event):
        self.log.append(f"{self.name} waits for {event}")


class Tensor:
    """A tensor of the host or the device."""

    def __init__(self, log, device, *, pinned=False):
        self.log = log
        self.device = torch.device(device)
        self.pinned = pinned

    def is_pinned(self):
        return self.pinned

    def pin_memory(self):
        self.log.append("pin")
        return Tensor(self.log, "cpu", pinned=True)

    def to(self, device, *, non_blocking):
        assert self.pinned
        self.log.append(f"copy on {self.log[0]}" if non_blocking else "blocking")
        return Tensor(self.log, device)

    def record_stream(self, stream):
        self.log.append(f"kept for {stream.name}")


@pytest.fixture
def log(monkeypatch):
    entries = ["no stream"]

    class Inside:
        def __init__(self, stream):
            self.stream = stream

        def __enter__(self):
            entries[0] = self.stream.name

        def __exit__(self, *_):
            entries[0] = "no stream"

    monkeypatch.setattr(torch.cuda, "Stream", lambda device: Stream(entries, "side"))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: Stream(entries, "main"))
    monkeypatch.setattr(torch.cuda, "stream", Inside)
    return entries


def test_a_copy_is_pinned_overlaps_and_is_waited_for(log):
    move = transfer.Transfer(torch.device("cuda", 0))
    placed = move((Tensor(log, "cpu"), Tensor(log, "cpu", pinned=True)))
    assert log[1:] == ["pin", "copy on side", "copy on side", "side records"]
    del log[1:]
    tensors = placed.arrive()
    assert log[1:] == ["main waits for event", "kept for main", "kept for main"]
    assert all(each.device == torch.device("cuda", 0) for each in tensors)


def test_what_is_there_already_stays(log):
    there = (Tensor(log, "cuda:0"),)
    assert transfer.Transfer(torch.device("cuda", 0))(there).arrive() is there
    assert log == ["no stream"]


def test_other_devices():
    (moved,) = transfer.Transfer(torch.device("meta"))((torch.ones(2),)).arrive()
    assert moved.device.type == "meta"
