"""One switch for what the runtime prints, from the environment and in a program."""

import io
import logging
import subprocess
import sys

import pytest
import torch
from torch import nn

import flodl
from flodl import DataLoader, FlowBuilder, Monitor, Trainer, Verbosity, log

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def normal():
    before = flodl.set_verbosity("normal")
    yield
    flodl.set_verbosity(before)


def say_all():
    log.normal("a %s", 1)
    log.verbose("b")
    log.debug("c")
    log.trace("d")


@pytest.mark.parametrize(
    ("level", "out", "err"),
    [
        ("quiet", "", ""),
        ("normal", "a 1\n", ""),
        ("verbose", "a 1\nb\n", ""),
        ("debug", "a 1\nb\n", "c\n"),
        ("trace", "a 1\nb\n", "c\nd\n"),
    ],
)
def test_level_decides_which_lines_are_printed_and_where(capsys, level, out, err):
    flodl.set_verbosity(level)
    say_all()
    assert capsys.readouterr() == (out, err)
    assert log.verbosity().name.lower() == level
    assert [log.enabled(each) for each in Verbosity] == [
        each <= log.verbosity() for each in Verbosity
    ]


def test_set_verbosity_takes_names_numbers_and_members_and_returns_the_level_before():
    assert flodl.set_verbosity(3) is Verbosity.NORMAL
    assert flodl.set_verbosity(" Trace ") is Verbosity.DEBUG
    assert flodl.set_verbosity(Verbosity.QUIET) is Verbosity.TRACE
    assert flodl.set_verbosity("2") is Verbosity.QUIET
    for wrong in ("loud", 5, -1, ""):
        with pytest.raises(
            ValueError, match=r"use 0 to 4, or quiet, normal, verbose, debug, trace"
        ):
            flodl.set_verbosity(wrong)
    assert log.verbosity() is Verbosity.VERBOSE


def test_lines_reach_handlers_that_a_program_adds(capsys):
    handler = logging.StreamHandler(io.StringIO())
    logging.getLogger("flodl").addHandler(handler)
    try:
        log.normal("kept %s", "too")
    finally:
        logging.getLogger("flodl").removeHandler(handler)
    assert handler.stream.getvalue() == capsys.readouterr().out == "kept too\n"


def test_closed_terminal_stops_nothing(monkeypatch):
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stdout", closed)
    log.normal("not read")
    monkeypatch.setattr(sys, "stdout", None)
    log.normal("nor this")


def speak(folder):
    """Do what speaks: a monitor, a builder, a training with checkpoints."""
    monitor = Monitor(1, resources=False)
    monitor.log(0, 1.0, {"loss": 0.5})
    FlowBuilder.from_(nn.Linear(2, 2)).verbose().build()
    loader = DataLoader([torch.ones(8, 2), torch.zeros(8, 1)], 4)
    (
        Trainer.builder(
            lambda _: FlowBuilder.from_(nn.Linear(2, 1)).build(),
            lambda parameters: torch.optim.SGD(parameters, lr=0.1),
            lambda model, batch: (model(batch[0]) - batch[1]).square().mean(),
        )
        .dataset(loader)
        .num_epochs(1)
        .run_dir(folder)
        .run()
        .join()
    )


def test_quiet_runtime_says_nothing(capsys, tmp_path):
    flodl.set_verbosity("quiet")
    speak(tmp_path)
    assert capsys.readouterr() == ("", "")


def test_normal_runtime_says_epochs_and_louder_ones_say_decisions(capsys, tmp_path):
    speak(tmp_path / "normal")
    out, err = capsys.readouterr()
    assert "epoch 1/1  loss=0.5" in out
    assert "linear_1 = Linear(x)" in err
    assert "epoch 1/1  loss" in err
    assert "data:" not in out
    flodl.set_verbosity("trace")
    speak(tmp_path / "trace")
    out, err = capsys.readouterr()
    assert "data: resident" in out
    assert "checkpoint of step 2 written to" in out
    assert "plan 1 of" in err
    assert "data: epoch 0 of list from batch 0" in err


def run(code, level):
    environ = {"FLODL_VERBOSITY": level} if level is not None else {}
    return subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True
    )


CODE = """
import sys, types
package = types.ModuleType("flodl"); package.__path__ = ["flodl"]  # without torch
sys.modules["flodl"] = package
import flodl.log as log
log.normal("a"); log.verbose("b"); log.debug("c")
print(log.verbosity().name)
"""


@pytest.mark.parametrize(
    ("level", "lines"),
    [
        (None, "a NORMAL"),
        ("", "a NORMAL"),
        ("2", "a b VERBOSE"),
        ("quiet", "QUIET"),
        ("0", "QUIET"),
    ],
)
def test_environment_decides_the_first_level(level, lines):
    assert run(CODE, level).stdout.split() == lines.split()


def test_wrong_level_in_the_environment_is_reported(tmp_path):
    done = run(CODE, "loud")
    assert done.stdout.split() == ["a", "NORMAL"]
    assert "FLODL_VERBOSITY: there is no verbosity 'loud': use 0 to 4" in done.stderr


def test_levels_that_fdl_passes_on_exist():
    from fdl_cli.commands import run as fdl_run

    assert [Verbosity[each.upper()] for each in fdl_run._LOUDER] == [2, 3, 4]
    assert fdl_run._VERBOSITY == log.VARIABLE
