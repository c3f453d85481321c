"""A signal in an evaluation, in a wait for data, in a callback: saved, ended, and continued exactly."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from flodl import Interrupted, RunDirectory, Trainer
from flodl.step.ema import Ema
from flodl.train import signals as room

pytestmark = pytest.mark.torch

X = torch.linspace(-1, 1, 40 * 3).reshape(40, 3)
BATCHES = list(zip(X.split(8), X.square().sum(1, keepdim=True).split(8), strict=True))


def train_step(model, batch):
    return F.mse_loss(model(batch[0]), batch[1])


def builder(folder, data=BATCHES):
    return (
        Trainer.builder(
            lambda: nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.3), nn.Linear(4, 1)),
            lambda params: torch.optim.Adam(params, lr=1e-2),
            train_step,
        )
        .dataset(data)
        .num_epochs(3)
        .seed(0)
        .step("eager")
        .progress(False)
        .run_dir(folder)
        .resume()
    )


def send(number=signal.SIGTERM):
    os.kill(os.getpid(), number)


def same(first, second):
    names = first.state_dict()
    return all(torch.equal(each, second.state_dict()[name]) for name, each in names.items())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_between_steps(tmp_path, number):
    before = signal.getsignal(number)
    whole = builder(tmp_path / "whole").run().join()

    def strike(training, loss):
        if training.step == 7:
            send(number)

    with pytest.raises(Interrupted) as caught:
        builder(tmp_path / "r").on("step", strike).run()
    assert caught.value.code == 128 + number
    assert caught.value.state.steps == 7
    assert caught.value.state.stopped_by == signal.Signals(number).name
    assert signal.getsignal(number) == before
    last = RunDirectory.open(tmp_path / "r").checkpoints.latest()
    assert (last.step, last.reason) == (7, signal.Signals(number).name)
    assert same(whole, builder(tmp_path / "r").run().join())


def test_the_state_can_be_returned_instead(tmp_path):
    def strike(training, metrics):
        send()

    state = builder(tmp_path / "r").on("epoch", strike).on_signal("return").run().join()
    assert (state.stopped_by, state.epochs, state.steps) == ("SIGTERM", 1, 5)


def test_in_an_evaluation(tmp_path):
    def prepared(folder, strike_at):
        calls = []

        def evaluated(model, batch):
            calls.append(1)
            if len(calls) == strike_at:
                send()
            return {"loss": torch.rand(())}  # evaluation may draw random numbers, too

        return builder(folder).evaluate(BATCHES, evaluated).ema(0.9)

    whole = prepared(tmp_path / "whole", 0).run().join()
    with pytest.raises(Interrupted) as caught:
        prepared(tmp_path / "r", 8).run()
    state = caught.value.state
    # The averaged weights that were being evaluated are not the weights.
    assert not torch.equal(state.parameters["0.weight"], state.averages["0.weight"])
    assert (state.epochs, state.steps) == (1, 10)
    rest = prepared(tmp_path / "r", 0).run().join()
    assert same(whole, rest)
    assert rest.history[0].scalars == whole.history[1].scalars


@pytest.mark.parametrize("place", ["before the swap", "in the swap", "after the swap"])
@pytest.mark.parametrize("swap", [1, 2], ids=["to the averages", "back"])
def test_signal_in_swap_of_averages_leaves_weights_whole(tmp_path, monkeypatch, place, swap):
    whole = builder(tmp_path / "whole").evaluate(BATCHES, train_step).ema(0.9).run().join()
    swaps, original = [], Ema._swap
    copy = torch._foreach_copy_

    def struck_copy(*args):
        copy(*args)
        if len(swaps) == swap and place == "in the swap":
            send()

    def struck(self):
        swaps.append(1)
        if len(swaps) == swap and place == "before the swap":
            send()
        with monkeypatch.context() as patch:
            patch.setattr(torch, "_foreach_copy_", struck_copy)
            original(self)
        if len(swaps) == swap and place == "after the swap":
            send()

    with monkeypatch.context() as patch:
        patch.setattr(Ema, "_swap", struck)
        # The second signal of a swap would end the process: it has two copies.
        patch.setattr(room, "_end_by", lambda number: None)
        with pytest.raises(Interrupted):
            builder(tmp_path / "r").evaluate(BATCHES, train_step).ema(0.9).run()
    rest = builder(tmp_path / "r").evaluate(BATCHES, train_step).ema(0.9).run().join()
    assert same(whole, rest)


class Stalling:
    """Gives batches, and then does not."""

    def __init__(self, at, seconds):
        self.at = at
        self.seconds = seconds

    def __iter__(self):
        for index, batch in enumerate(BATCHES):
            if index == self.at:
                threading.Timer(0.05, send).start()
                end = time.monotonic() + self.seconds
                while time.monotonic() < end:
                    time.sleep(0.01)
            yield batch


def test_in_a_short_wait_for_data_the_batch_is_waited_for(tmp_path):
    with pytest.raises(Interrupted) as caught:
        builder(tmp_path / "r", Stalling(3, 0.2)).run()
    # The step was begun before the signal could be obeyed.
    assert caught.value.state.steps == 4
    assert not any("given up" in line for line in caught.value.state.notices)


def test_in_a_long_wait_for_data_the_wait_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(room, "_PATIENCE", 0.2)
    whole = builder(tmp_path / "whole").run().join()
    began = time.monotonic()
    with pytest.raises(Interrupted) as caught:
        builder(tmp_path / "r", Stalling(3, 60)).run()
    assert time.monotonic() - began < 20
    assert caught.value.state.steps == 3
    assert any("the wait for a batch was given up" in line for line in caught.value.state.notices)
    assert same(whole, builder(tmp_path / "r").run().join())


def test_a_signal_that_was_ignored_stays_ignored(tmp_path):
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    try:
        strike = builder(tmp_path / "r").on("step", lambda training, loss: send(signal.SIGUSR1))
        assert strike.run().join().stopped_by == "finished"
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_forked_child_ends_as_it_would_have(monkeypatch):
    ended = []
    monkeypatch.setattr(room, "_end_by", ended.append)
    with room.Signals(lambda: None) as watched:
        send()
        assert watched.received == "SIGTERM"
    with room.Signals(lambda: None) as watched:
        watched._process = -1
        send(signal.SIGUSR1)
    assert watched.received == ""
    assert ended == [signal.SIGUSR1]


def test_in_another_thread_signals_are_left_alone(tmp_path):
    before = signal.getsignal(signal.SIGTERM)
    ended = []
    thread = threading.Thread(
        target=lambda: ended.append(builder(tmp_path / "r").run().join().stopped_by)
    )
    thread.start()
    thread.join()
    assert ended == ["finished"]
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.slow
def test_while_a_step_is_compiled(tmp_path):
    prepared = builder(tmp_path / "r").num_epochs(10**6).step("compiled")
    prepared.on("start", lambda training: threading.Timer(1.0, send).start())
    with pytest.raises(Interrupted) as caught:
        prepared.run()
    assert not any(line.startswith("compiled") for line in caught.value.state.notices)
    steps = caught.value.state.steps
    assert RunDirectory.open(tmp_path / "r").checkpoints.latest().step == steps


TWICE = """
import os, signal, sys, time
from tests.flodl.train.test_signals import builder

def strike(training, loss):
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(float(sys.argv[2]))
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(float(sys.argv[3]))

builder(sys.argv[1]).on("step", strike).run()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("between", "after", "ended"),
    [("0.5", "60", -signal.SIGTERM), ("0", "0", 128 + signal.SIGTERM)],
    ids=["asked-twice", "process-and-group"],
)
def test_a_second_signal_ends_it_at_once_unless_it_echoes_the_first(
    tmp_path, between, after, ended
):
    done = subprocess.run(
        [sys.executable, "-c", TWICE, str(tmp_path / "r"), between, after],
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == ended, done.stderr.decode()
