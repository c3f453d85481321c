"""What is stored survives: torn tails, flipped bytes, killed processes, full disks, and a second start."""

import errno
import os
import resource
import signal
import subprocess
import sys
import textwrap
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flodl.errors import UnknownNameError
from flodl.monitor.monitor import Monitor
from flodl.monitor.store.frames import Note, Rows, decode, encode
from flodl.monitor.store.segments import SegmentWriter, segments
from flodl.monitor.store.storage import open_reader

pytestmark = pytest.mark.torch

numbers = st.floats(allow_nan=False)
rows = st.integers(1, 5).flatmap(
    lambda n: st.builds(
        lambda names, values: Rows(
            group="metrics",
            names=tuple(names),
            steps=array("d", range(n)),
            times=array("d", range(n)),
            columns=tuple(array("d", values[:n]) for _ in names),
        ),
        st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=3, unique=True),
        st.lists(numbers, min_size=n, max_size=n),
    )
)
notes = st.builds(
    lambda kind, more: Note(kind, {**more, "kind": "step", "message": "m", "time": 1.0}),
    st.sampled_from(["event", "alert"]),
    st.dictionaries(st.text(max_size=5), numbers),
)
frames = st.lists(st.one_of(rows, notes), min_size=1, max_size=8)


@given(frames)
def test_frames_come_back(written):
    found = [frame for frame, _ in decode(b"".join(map(encode, written)))]
    assert found == written


@given(frames, st.data())
def test_a_torn_tail_is_left_for_later(written, data):
    whole = b"".join(map(encode, written))
    cut = data.draw(st.integers(0, len(whole) - 1))
    read = [*decode(whole[:cut])]
    assert [frame for frame, _ in read] == written[: len(read)]
    assert len(read) < len(written)
    end = read[-1][1] if read else 0
    rest = [frame for frame, _ in decode(whole[end:])]
    assert rest == written[len(read) :]


@given(frames, st.data())
def test_a_flipped_byte_costs_one_frame(written, data):
    parts = [*map(encode, written)]
    hit = data.draw(st.integers(0, len(parts) - 1))
    broken = bytearray(parts[hit])
    at = data.draw(st.integers(0, len(broken) - 1))
    if at in (5, 6, 7):
        at = 0  # padding, which is not looked at
    broken[at] ^= 1 << data.draw(st.integers(0, 7))
    parts[hit] = bytes(broken)
    found = [frame for frame, _ in decode(b"".join(parts)) if frame is not None]
    assert found == written[:hit] + written[hit + 1 :]


def test_a_finished_run_is_read_back(tmp_path):
    with Monitor(2, run=tmp_path / "run", quiet=True, resources=False) as monitor:
        for step in range(10):
            monitor.record(step, {"loss": step / 2, "accuracy": 0.5})
        monitor.log(0, 1.0, {"valid": 0.25})
        monitor.event("checkpoint", "saved")
    reader = open_reader(tmp_path / "run")
    assert reader.run.status() == "finished"
    assert [each.metrics for each in reader.history()] == [{"valid": 0.25}]
    assert reader.history()[0].step == 9
    assert reader.run.series["metrics"]["loss"].window().mean == tuple(i / 2 for i in range(10))
    assert [each["message"] for each in reader.run.events] == ["saved"]
    assert reader.damaged == 0


def test_nothing_to_read_is_said(tmp_path):
    with pytest.raises(UnknownNameError, match="holds no metrics"):
        open_reader(tmp_path)


def test_a_run_is_read_while_it_is_written(tmp_path):
    monitor = Monitor(0, run=tmp_path, quiet=True, resources=False)
    monitor.record(0, {"loss": 1.0})
    monitor.flush()
    reader = open_reader(tmp_path)
    for step in range(1, 50):
        monitor.record(step, {"loss": 1.0})
        monitor.flush()
        reader.poll()
        assert reader.run.series["metrics"]["loss"].count == step + 1
    assert reader.run.status() == "running"
    monitor.finish()
    reader.poll()
    assert reader.run.status() == "finished"


def test_a_resumed_run_replaces_what_came_after_its_checkpoint(tmp_path):
    with Monitor(4, run=tmp_path, quiet=True, resources=False) as monitor:
        for step in range(30):
            monitor.record(step, {"loss": 1.0})
        for epoch in range(3):
            monitor.log(epoch, 1.0, {"valid": 1.0})
    # The last checkpoint was at step 20, after epoch 2.
    with Monitor(4, run=tmp_path, quiet=True, resources=False) as monitor:
        for step in range(20, 40):
            monitor.record(step, {"loss": 2.0})
        monitor.log(2, 1.0, {"valid": 2.0})
        monitor.log(3, 1.0, {"valid": 2.0})
        assert [each.metrics["valid"] for each in monitor.history()] == [1, 1, 2, 2]
    run = open_reader(tmp_path).run
    assert [each.epoch for each in run.epochs] == [0, 1, 2, 3]
    found = run.series["metrics"]["loss"].window()
    assert found.steps == tuple(range(40))
    assert found.mean == (1.0,) * 20 + (2.0,) * 20
    assert len(segments(tmp_path / "metrics")) == 2


CHILD = """
    import sys, time
    from flodl.monitor.monitor import Monitor
    monitor = Monitor(0, run=sys.argv[1], quiet=True, resources=False)
    step = 0
    while True:
        monitor.record(step, {"loss": step})
        step += 1
        if step % 100 == 0:
            monitor.flush()
            print(step, flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("after", [1, 3, 7])
def test_a_killed_process_loses_nothing_that_was_flushed(tmp_path, after):
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(CHILD), str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
    )
    for _ in range(after):
        flushed = int(child.stdout.readline())
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    reader = open_reader(tmp_path)
    series = reader.run.series["metrics"]["loss"]
    assert series.count >= flushed
    assert series.window(points=10**6).mean == tuple(map(float, range(series.count)))
    assert reader.run.status() == "lost"


def test_a_full_disk_is_said_and_the_rest_is_kept_for_later(tmp_path, monkeypatch, capsys):
    write, full = os.write, [False]

    def limited(file, data):
        if full[0]:
            if len(data) > 10:
                return write(file, bytes(data[:10]))
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, data)

    monkeypatch.setattr("flodl.monitor.store.segments.os.write", limited)
    monkeypatch.setattr("flodl.monitor.store.segments.RETRY_SECONDS", 0)
    monitor = Monitor(0, run=tmp_path, resources=False)
    monitor.record(0, {"loss": 0.0})
    monitor.flush()
    full[0] = True
    for step in range(1, 20):
        monitor.record(step, {"loss": float(step)})
        monitor.flush()
    assert "No space left on device" in capsys.readouterr().out
    assert [each["kind"] for each in monitor._worker.run.alerts] == ["storage"]
    assert open_reader(tmp_path).run.series["metrics"]["loss"].count == 1
    full[0] = False
    monitor.finish()
    reader = open_reader(tmp_path)
    assert reader.run.series["metrics"]["loss"].window().mean == tuple(map(float, range(20)))
    assert reader.damaged == 0


def test_a_disk_that_stays_full_does_not_fill_the_memory(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("flodl.monitor.store.segments.os.write", refuse)
    monkeypatch.setattr("flodl.monitor.store.segments.BACKLOG_BYTES", 1000)
    writer = SegmentWriter(tmp_path)
    for _ in range(100):
        writer.append(b"x" * 100)
    assert writer.lost == 90
    writer.close()


@pytest.mark.slow
def test_a_real_limit_on_file_size_does_not_stop_training(tmp_path):
    source = """
        import signal, sys
        from flodl.monitor.monitor import Monitor
        monitor = Monitor(0, run=sys.argv[1], resources=False)
        for step in range(3000):
            monitor.record(step, {"loss": 0.5})
            if step % 100 == 0:
                monitor.flush()
        monitor.finish()
        print("trained to the end")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(source), str(tmp_path)],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)),
        capture_output=True,
        text=True,
        check=True,
    )
    assert "nothing can be stored now: File too large" in done.stdout
    assert done.stdout.endswith("trained to the end\n")
    reader = open_reader(tmp_path)
    assert 0 < reader.run.series["metrics"]["loss"].count < 3000
    assert reader.damaged == 0


def test_a_folder_that_cannot_be_made_does_not_stop_training(tmp_path, capsys):
    (tmp_path / "run").write_text("a file is in the way")
    with Monitor(1, run=tmp_path / "run", resources=False) as monitor:
        monitor.log(0, 1.0, {"loss": 0.5})
        assert len(monitor.history()) == 1
    assert "nothing can be stored now" in capsys.readouterr().out


def test_a_forked_child_leaves_the_files_alone(tmp_path):
    monitor = Monitor(0, run=tmp_path, quiet=True, resources=False)
    monitor.record(0, {"loss": 1.0})
    child = os.fork()
    if child == 0:
        monitor.record(1, {"loss": 1.0})
        monitor.flush()
        os._exit(0)
    os.waitpid(child, 0)
    monitor.finish()
    assert open_reader(tmp_path).run.series["metrics"]["loss"].count == 1


@pytest.mark.slow
def test_a_program_that_fails_has_its_last_values_stored_and_is_no_mystery(tmp_path):
    source = """
        import sys
        from flodl.monitor.monitor import Monitor
        monitor = Monitor(3, run=sys.argv[1], quiet=True)
        monitor.record(0, {"loss": 1.0})
        monitor.log(0, 1.0, {"loss": 1.0})
        raise RuntimeError("the loop is wrong")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(source), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.endswith("RuntimeError: the loop is wrong\n")
    reader = open_reader(tmp_path)
    assert reader.run.status() == "stopped"
    assert reader.run.series["metrics"]["loss"].count == 1
    assert len(reader.history()) == 1
