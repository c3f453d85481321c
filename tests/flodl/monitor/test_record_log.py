"""Records as lines of JSON: what is on a line, how large the file gets, and how it ends."""

import errno
import json
import math
import os
import shutil
import subprocess

import pytest
import torch
from torch import nn

from flodl import FlowBuilder, Monitor
from flodl.errors import UnknownNameError
from flodl.monitor.__main__ import print_records
from flodl.monitor.store.record_log import RecordLog, record_lines
from flodl.monitor.store.storage import Reader

pytestmark = pytest.mark.torch


def lines_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def train(steps=3, **settings):
    with Monitor(1, quiet=True, resources=False, **settings) as monitor:
        monitor.set_metadata({"lr": 0.1})
        for step in range(steps):
            monitor.record(step, {"loss": 1.0 / (step + 1), "bad": math.nan})
        monitor.event("checkpoint", "written")
        monitor.log(0, 2.0, {"valid": 0.5})


def test_every_record_is_a_line_of_json(tmp_path):
    file = tmp_path / "logs" / "records.jsonl"
    train(sinks=[f"jsonl:{file}"])
    found = lines_of(file)
    kinds = [each["kind"] for each in found if each["kind"] != "alert"]
    assert sorted(kinds) == [
        "epoch", "event", "finish", "metadata", "metrics", "metrics", "metrics", "start",
    ]  # fmt: skip
    assert (kinds[0], kinds[-1]) == ("start", "finish")
    rows = [each for each in found if each["kind"] == "metrics"]
    assert [(row["step"], row["values"]["loss"]) for row in rows] == [
        (0, 1.0),
        (1, 0.5),
        (2, 1 / 3),
    ]
    assert all(row["values"]["bad"] is None for row in rows), "JSON has no NaN"
    (epoch,) = [each["data"] for each in found if each["kind"] == "epoch"]
    assert (epoch["epoch"], epoch["metrics"]) == (0, {"valid": 0.5})


def test_records_of_a_stored_run_are_those_of_the_live_log(tmp_path, capsys):
    file = tmp_path / "records.jsonl"
    train(sinks=[f"jsonl:{file}"], run=tmp_path / "first")
    assert print_records([tmp_path]) == 0
    stored = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {each.pop("run") for each in stored} == {"first"}
    assert stored == lines_of(file)
    reader = Reader(tmp_path / "first" / "metrics")
    again = [line for frame in reader.frames() for line in record_lines(frame)]
    assert [json.loads(line) for line in again] == stored


def test_picture_is_left_out_except_for_its_size(tmp_path):
    file = tmp_path / "records.jsonl"
    with Monitor(1, quiet=True, resources=False, sinks=[f"jsonl:{file}"]) as monitor:
        monitor.watch(FlowBuilder.from_(nn.Linear(2, 2)).build())
    assert "<svg" not in file.read_text()
    (picture,) = [each["data"] for each in lines_of(file) if each["kind"] == "graph"]
    assert picture["characters"] > 100


def test_file_stays_within_its_bytes_and_keeps_the_latest(tmp_path):
    file = tmp_path / "records.jsonl"
    log = RecordLog(file, max_bytes=8192)
    train(500, sinks=[log])
    older = file.with_name("records.jsonl.1")
    assert file.stat().st_size + older.stat().st_size <= 8192
    assert sorted(path.name for path in tmp_path.iterdir()) == ["records.jsonl", "records.jsonl.1"]
    steps = [
        each["step"] for each in lines_of(older) + lines_of(file) if each["kind"] == "metrics"
    ]
    assert steps == list(range(steps[0], 500)), "nothing is missing between the files"
    assert len(steps) > 30


def test_record_larger_than_a_file_is_named_with_its_size(tmp_path):
    file = tmp_path / "records.jsonl"
    with Monitor(
        1, quiet=True, resources=False, sinks=[RecordLog(file, max_bytes=4096)]
    ) as monitor:
        monitor.set_metadata({"text": "x" * 5000})
    (left_out,) = [each for each in lines_of(file) if "left_out_bytes" in each]
    assert left_out["kind"] == "metadata"
    assert left_out["left_out_bytes"] > 5000
    with pytest.raises(ValueError, match="max_bytes is 100; it must be at least 4096"):
        RecordLog(file, max_bytes=100)


def test_half_a_line_of_a_killed_process_is_removed(tmp_path):
    file = tmp_path / "records.jsonl"
    file.write_bytes(b'{"kind":"start"}\n{"kind":"met')
    train(sinks=[f"jsonl:{file}"])
    kinds = [each["kind"] for each in lines_of(file)]
    assert kinds[:2] == ["start", "start"]


def test_full_disk_ends_the_log_with_whole_lines_and_is_said_once(tmp_path, monkeypatch, capsys):
    file = tmp_path / "records.jsonl"
    log = RecordLog(file)
    write, written = os.write, []

    def full(descriptor, data):
        if descriptor != log._file:
            return write(descriptor, data)
        if sum(written) > 150:
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(write(descriptor, data[:60]))  # in pieces, as the system may
        return written[-1]

    monkeypatch.setattr(os, "write", full)
    with Monitor(3, resources=False, sinks=[log]) as monitor:
        for epoch in range(3):
            monitor.log(epoch, 1.0, {"loss": 1.0})
            monitor.flush()
        assert len(monitor.history()) == 3
    said = [line for line in capsys.readouterr().out.splitlines() if "jsonl" in line]
    assert said == [f"  monitor: jsonl takes nothing any more: No space left on device ({file})"]
    assert lines_of(file)


def test_file_needs_a_name():
    with pytest.raises(UnknownNameError, match=r"`jsonl:records.jsonl`"):
        Monitor(1, sinks=["jsonl"])


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
def test_jq_reads_the_file(tmp_path):
    file = tmp_path / "records.jsonl"
    train(sinks=[f"jsonl:{file}"])
    done = subprocess.run(
        ["jq", "-c", 'select(.kind == "metrics") | .values.loss', str(file)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert [float(each) for each in done.stdout.split()] == pytest.approx([1, 0.5, 1 / 3])


def test_quiet_runtime_still_says_that_a_sink_failed(tmp_path, capsys):
    import flodl

    before = flodl.set_verbosity("quiet")
    try:
        (tmp_path / "folder").write_text("no folder")
        with Monitor(1, resources=False, sinks=[f"jsonl:{tmp_path}/folder/x"]) as monitor:
            monitor.record(0, {"loss": torch.tensor(1.0)})
    finally:
        flodl.set_verbosity(before)
    assert "jsonl takes nothing any more" in capsys.readouterr().out
