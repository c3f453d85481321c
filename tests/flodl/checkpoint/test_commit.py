"""Whatever fails while a checkpoint is written, the old or the new file is there, whole."""

import errno
import gc
import io
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest
import torch

from flodl.checkpoint import commit as room
from flodl.checkpoint.files import verify
from flodl.checkpoint.store import load, save
from flodl.errors import CheckpointError
from tests.flodl.checkpoint.samples import net, same

pytestmark = pytest.mark.torch


class Faults:
    """Counts the calls that touch the disk, and makes one of them fail."""

    def __init__(self, monkeypatch):
        self.count = 0
        self.failing = None
        self.code = errno.ENOSPC
        faults = self

        class Disk(io.FileIO):
            def write(self, data):
                faults.touch("write")
                return super().write(data[: 5 * 2**20])

        def failing(name, real):
            def call(*args):
                faults.touch(name)
                return real(*args)

            return call

        monkeypatch.setattr(room, "FileIO", Disk)
        for name in ("fsync", "replace", "open"):
            monkeypatch.setattr(room.os, name, failing(name, getattr(os, name)))

    def touch(self, name):
        self.count += 1
        if self.count == self.failing:
            raise OSError(self.code, os.strerror(self.code), name)


@pytest.fixture
def faults(monkeypatch):
    return Faults(monkeypatch)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EDQUOT], ids=errno.errorcode.get)
@pytest.mark.parametrize("name", ["m.fdl", "m.fdl.gz"])
@pytest.mark.slow
def test_a_failure_at_every_call_leaves_a_whole_file(code, name, tmp_path, faults):
    path = tmp_path / name
    old, new = net(seed=1, width=300), net(seed=2, width=300)
    faults.code = code
    save(old, path)
    calls, faults.count = faults.count, 0
    assert calls >= 5
    for call in range(1, calls + 1):
        faults.count, faults.failing = 0, call
        with pytest.raises(CheckpointError, match=os.strerror(code)):
            save(new, path)
        faults.failing = None
        found = net(seed=3, width=300)
        load(found, path)
        # The last two calls open and flush the folder: the new file is in its place by then.
        assert same(found, old if call < calls - 1 else new)
        assert [each.name for each in tmp_path.iterdir()] == [name]
        save(old, path)
    gc.collect()


def test_an_error_that_is_not_the_disks_leaves_nothing(tmp_path):
    def refuse(stream):
        stream.write(b"half")
        raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        room.commit(tmp_path / "m.fdl", refuse)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(CheckpointError, match=r"nowhere.m\.fdl: cannot be written \(No such file"):
        save(net(), tmp_path / "nowhere" / "m.fdl")


def test_a_link_stays_a_link_and_permissions_stay(tmp_path):
    real = tmp_path / "real.fdl"
    link = tmp_path / "latest.fdl"
    save(net(1), real)
    real.chmod(0o640)
    link.symlink_to(real)
    save(net(2), link)
    assert link.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    found = net(3)
    load(found, real)
    assert same(found, net(2))


def test_a_reader_of_the_old_file_is_not_disturbed(tmp_path):
    from flodl.checkpoint.contents import open_contents

    path = tmp_path / "m.fdl"
    save(net(1), path)
    held = open_contents(path)
    save(net(2), path)
    assert torch.equal(held.tensor("0.weight"), net(1)[0].weight)
    assert held.problems() == ()


def test_left_overs_of_killed_writers_are_swept_and_those_of_living_ones_stay(tmp_path):
    path = tmp_path / "m.fdl"
    host = room._owner().rpartition("-")[0]
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    dead = tmp_path / f".m.fdl.{host}-{process.pid}.0a1b2c3d.tmp"
    alive = tmp_path / f".m.fdl.{host}-{os.getppid()}.0a1b2c3d.tmp"
    foreign = tmp_path / f".m.fdl.other-{process.pid}.0a1b2c3d.tmp"
    for each in (dead, alive, foreign):
        each.write_bytes(b"x")
    save(net(), path)
    assert not dead.exists()
    assert alive.exists()
    assert foreign.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="limits are a Unix thing")
@pytest.mark.slow
def test_a_full_disk_for_real(tmp_path):
    path = tmp_path / "m.fdl"
    save(net(1), path)
    before = path.read_bytes()
    script = textwrap.dedent(f"""
        import resource, signal, torch
        from flodl.checkpoint.store import save
        from flodl.errors import CheckpointError
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        try:
            save(torch.nn.Linear(1000, 1000), {str(path)!r})
        except CheckpointError as error:
            print(error)
    """)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True
    )
    assert "File too large" in done.stdout
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["m.fdl"]


@pytest.mark.slow
def test_kill_at_any_moment(tmp_path):
    path = tmp_path / "m.fdl"
    script = textwrap.dedent(f"""
        import torch
        from flodl.checkpoint.store import save
        model = torch.nn.Linear(700, 700)
        print("ready", flush=True)
        value = 0
        while True:
            value += 1
            torch.nn.init.constant_(model.weight, value)
            save(model, {str(path)!r})
    """)
    save(torch.nn.Linear(700, 700), path)
    for turn in range(7):
        process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
        assert process.stdout.readline() == b"ready\n"
        time.sleep(0.003 + 0.019 * turn)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        assert verify(path) == ()
        found = torch.nn.Linear(700, 700)
        load(found, path)
    save(torch.nn.Linear(700, 700), path)
    assert [each.name for each in tmp_path.iterdir()] == ["m.fdl"]
