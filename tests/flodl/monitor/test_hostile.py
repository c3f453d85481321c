"""Metrics that are no metrics: such a run is shown as damaged, and the others are followed."""

import functools
import json
import os
import random
import shutil
import struct
import tracemalloc
import zlib
from array import array

import pytest

from flodl.monitor.events import json_text
from flodl.monitor.monitor import Monitor
from flodl.monitor.run_list import RunList
from flodl.monitor.store.frames import MAGIC, Note, Rows, decode, encode
from flodl.monitor.store.storage import Reader
from tests.mutation_bounds import Bounds

pytestmark = pytest.mark.torch

_NOTE, _ROWS = 2, 1


def sealed(kind, payload):
    """Return a frame with any payload and a checksum that fits."""
    crc = zlib.crc32(payload, zlib.crc32(bytes((kind,)) + len(payload).to_bytes(4, "little")))
    return struct.pack("<4sBxxxII", MAGIC, kind, len(payload), crc) + payload


def note(kind, data):
    return sealed(_NOTE, json.dumps([kind, data]).encode())


def rows(names, count, floats):
    text = json.dumps(names).encode()
    return sealed(_ROWS, struct.pack("<II", len(text), count) + text + bytes(8 * floats))


EPOCH = {"epoch": 0, "duration": 1.0, "metrics": {}, "resources": {}, "time": 1.0}
MALFORMED = {
    "text": b"no frames at all\n" * 9,
    "zeros": bytes(1000),
    "heads": MAGIC * 100,
    "cut": note("start", {"pid": 1})[:-3],
    "no json": sealed(_NOTE, b"{"),
    "no pair": sealed(_NOTE, b"[1]"),
    "number": sealed(_NOTE, b"5"),
    "deep": sealed(_NOTE, b"[" * 100_000),
    "deep data": note("metadata", json.loads("[" * 200 + "]" * 200)),
    "deep table": sealed(_NOTE, b'["metadata",' + b'{"a":' * 500 + b"1" + b"}" * 500 + b"]"),
    "data is a list": note("start", [1]),
    "data is a number": note("epoch", 5),
    "kind is a list": note([], {}),
    "start pid text": note("start", {"pid": "many"}),
    "start pid large": note("start", {"pid": 2**70, "host": "h"}),
    "start total": note("start", {"total": "many"}),
    "start time": note("start", {"time": []}),
    "start title": note("start", {"title": {}}),
    "start accepts": note("start", {"accepts": 5}),
    "epoch empty": note("epoch", {}),
    "epoch metrics": note("epoch", {**EPOCH, "metrics": []}),
    "epoch metric": note("epoch", {**EPOCH, "metrics": {"loss": "low"}}),
    "epoch duration": note("epoch", {**EPOCH, "duration": None}),
    "epoch large": note("epoch", {**EPOCH, "duration": 10**400}),
    "epoch eta": note("epoch", {**EPOCH, "eta": "soon"}),
    "alert": note("alert", {"message": 5}),
    "graph": note("graph", {}),
    "graph number": note("graph", {"svg": 5}),
    "rows short": rows(["metrics", "loss"], 10, 3),
    "rows long": rows(["metrics", "loss"], 1, 9),
    "rows group": rows(["other", "loss"], 1, 3),
    "rows names": rows(["metrics", 5], 1, 3),
    "rows twice": rows(["metrics", "loss", "loss"], 1, 4),
    "rows nothing": rows([], 1, 2),
    "rows prefix": sealed(_ROWS, b"abc"),
    "rows many": sealed(_ROWS, struct.pack("<II", 2**32 - 1, 2**32 - 1)),
    "kind 9": sealed(9, b"[]"),
}


def run_with(root, name, data):
    folder = root / name / "metrics"
    folder.mkdir(parents=True)
    (folder / "segment-000001.fdm").write_bytes(data)
    return folder


def run_list(root):
    found = RunList([root])
    found.look()
    json.loads(json_text(found.hub.snapshot()))
    return found


@pytest.mark.parametrize("kind", MALFORMED)
def test_gallery_malformed_run_is_shown_as_damaged_beside_a_sound_one(kind, tmp_path):
    run_with(tmp_path, "bad", MALFORMED[kind])
    with Monitor(2, run=tmp_path / "good", quiet=True, resources=False) as monitor:
        monitor.log(0, 1.0, {"loss": 1.0})
    runs = run_list(tmp_path).hub.snapshot()["runs"]
    assert runs["bad"]["status"] == "damaged"
    assert (runs["good"]["status"], runs["good"]["damaged"]) == ("finished", 0)


@pytest.mark.parametrize("kind", [kind for kind in MALFORMED if kind not in ("cut", "heads")])
def test_reader_malformed_stretch_costs_nothing_around_it(kind, tmp_path):
    sound = encode(Note("epoch", EPOCH))
    folder = run_with(tmp_path, "mixed", sound + MALFORMED[kind] + sound)
    reader = Reader(folder)
    reader.poll()
    assert len(reader.run.epochs) == 2
    assert reader.damaged == 1


def test_gallery_things_that_are_no_files_are_passed_over(tmp_path):
    folder = run_with(tmp_path, "odd", encode(Note("start", {"pid": 1})))
    os.mkfifo(folder / "segment-000002.fdm")
    (folder / "segment-000003.fdm").mkdir()
    (folder / "segment-000004.fdm").symlink_to(folder / "gone")
    assert run_list(tmp_path).names == ("odd",)


def test_gallery_run_that_cannot_be_taken_in_leaves_the_others(tmp_path, monkeypatch):
    run_with(tmp_path, "bad", encode(Note("epoch", EPOCH)))
    run_with(tmp_path, "good", encode(Note("start", {"pid": 0})))
    poll = Reader.poll

    def broken(self):
        if self.folder.parent.name == "bad":
            raise MemoryError
        return poll(self)

    monkeypatch.setattr(Reader, "poll", broken)
    runs = run_list(tmp_path).hub.snapshot()["runs"]
    assert runs["bad"]["status"] == "damaged"
    assert "good" in runs


# ---- time and memory -------------------------------------------------------------------------------


class Counted:
    """Counts the bytes that are hashed in search of frames."""

    def __init__(self, monkeypatch):
        self.bytes = 0
        real = zlib.crc32

        def crc32(data, start=0):
            self.bytes += len(data)
            return real(data, start)

        monkeypatch.setattr(zlib, "crc32", crc32)


def test_decode_heads_that_claim_everything_hash_a_bounded_number_of_bytes(monkeypatch):
    heads = 5_000
    size = 16 * heads
    data = b"".join(
        struct.pack("<4sBxxxII", MAGIC, _NOTE, size - 16 * (each + 1), 0) for each in range(heads)
    )
    counted = Counted(monkeypatch)
    found = [*decode(data)]
    assert counted.bytes < 12 * size
    assert [frame for frame, _ in found if frame is not None] == []


def test_decode_damage_between_many_frames_copies_nothing(monkeypatch):
    sound = encode(Note("finish", {}))
    data = (b"x" + sound) * 3_000
    peaks = []
    for _ in range(3):  # threads of earlier tests may allocate as well: that only adds
        tracemalloc.start()
        count = sum(frame is not None for frame, _ in decode(data))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert count == 3_000
    assert min(peaks) < len(data) // 2


def test_reader_end_that_is_no_frame_is_searched_once(tmp_path, monkeypatch):
    folder = run_with(tmp_path, "tail", encode(Note("start", {"pid": 1})) + MAGIC + bytes(5_000))
    reader = Reader(folder)
    reader.poll()
    counted = Counted(monkeypatch)
    reader.poll()
    assert counted.bytes == 0
    with (folder / "segment-000001.fdm").open("ab") as file:
        file.write(encode(Note("finish", {})))
    reader.poll()
    assert reader.run.finished


def test_reader_names_beyond_the_most_take_no_memory(tmp_path):
    names = [f"m{each}" for each in range(40_000)]
    frame = Rows(
        group="metrics",
        names=tuple(names),
        steps=array("d", [0.0]),
        times=array("d", [0.0]),
        columns=tuple(array("d", [1.0]) for _ in names),
    )
    reader = Reader(run_with(tmp_path, "wide", encode(frame)))
    reader.poll()
    assert len(reader.run.series["metrics"]) == 1 << 15
    assert reader.damaged


# ---- mutations -------------------------------------------------------------------------------------


def honest():
    frames = [
        Note(
            "start", {"title": "t", "total": 2, "pid": 1, "host": "h", "accepts": [], "time": 1.0}
        ),
        Note("metadata", {"lr": 0.1, "deep": {"a": [1, 2]}}),
        Note("identity", {"label": "net"}),
        Rows(
            group="metrics",
            names=("loss", "acc"),
            steps=array("d", range(5)),
            times=array("d", range(5)),
            columns=(array("d", range(5)), array("d", range(5))),
        ),
        Note("epoch", {**EPOCH, "metrics": {"loss": 1.0}}),
        Note("alert", {"kind": "nan", "message": "m", "metric": "", "time": 1.0}),
        Note("graph", {"svg": "<svg/>"}),
        Note("finish", {"time": 2.0}),
    ]
    return [encode(each) for each in frames]


ODD = [None, True, -1, 2**70, 1e308, float("inf"), "", [], {}, [[]], {"a": {}}, "x" * 50]


def mutated(frames, generator):
    """Return a segment with frames changed inside and sealed again, cut or overwritten: one, some or all."""
    found = []
    cases = generator.choice([6, 8, 16, 64])
    for frame in frames:
        kind, payload = frame[4], bytearray(frame[16:])
        match generator.randrange(cases):
            case 0:
                for _ in range(generator.randrange(1, 4)):
                    payload[generator.randrange(len(payload))] = generator.randrange(256)
                found.append(sealed(kind, bytes(payload)))
            case 1 if kind == _NOTE:
                name, data = json.loads(payload)
                key = generator.choice([*data, "time", "pid", "metrics"])
                data[key] = generator.choice(ODD)
                found.append(note(name, generator.choice([data, data, data, *ODD])))
            case 2:
                cut = generator.randrange(len(payload))
                found.append(sealed(kind, bytes(payload[:cut])))
            case 3:
                found.append(frame[: generator.randrange(len(frame))])
            case 4:
                found.append(generator.randbytes(generator.randrange(60)))
            case 5:
                found.append(sealed(3 - kind, bytes(payload)))
            case _:
                found.append(frame)
    if generator.randrange(2):
        generator.shuffle(found)
    return b"".join(found)


def damaged_by(root, name, data):
    folder = run_with(root, name, data)
    found = run_list(folder.parent)
    (run,) = found.hub.runs.values()
    assert not found._unreadable
    shutil.rmtree(folder.parent)
    return bool(run.damaged or run.unread)


def survives_mutations(root, count, seed):
    """Show mutated runs; return the bounds of all."""
    frames = honest()
    generator = random.Random(seed)
    bounds = Bounds(lambda: damaged_by(root, "honest", b"".join(frames)))
    for index in range(count):
        data = mutated(frames, generator)
        damaged = bounds.run(functools.partial(damaged_by, root, f"run{index}", data))
        bounds.outcomes["damaged" if damaged else "sound"] += 1
    bounds.check()
    return bounds


def test_gallery_mutated_runs_raise_nothing(tmp_path):
    assert survives_mutations(tmp_path, 100, 1).outcomes["damaged"] > 30


@pytest.mark.campaign("monitor", covers=("flodl/monitor",))
def test_gallery_campaign_of_ten_thousand_mutations(tmp_path, campaign):
    bounds = survives_mutations(tmp_path, 10_000, 2)
    assert bounds.outcomes["damaged"] > 3_000
    campaign.write(seed=2, cases=10_000, outcomes=bounds.outcomes, worst=bounds.worst)
