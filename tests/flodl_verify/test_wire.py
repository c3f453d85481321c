"""Snapshots cross from process to process as they are; what is no message is refused as that."""

from __future__ import annotations

import copy
import fcntl
import json
import os
import resource
import socket
import struct
import time
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flodl_verify.sides.wire import (
    ClosedError,
    MalformedMessageError,
    Pipe,
    Store,
    decoded,
    encoded,
)
from flodl_verify.values.comparison import find_mismatches
from flodl_verify.values.snapshot import Freezer, Snapshot
from tests.flodl_verify.output_kinds import AROUND
from tests.flodl_verify.output_pairs import PAIRS

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning"),
]


def frozen(value: object) -> Snapshot:
    freezer = Freezer()
    return freezer.freeze_tree(freezer.flatten(value, "x", draw=True))


def crossed(snapshot: Snapshot) -> Snapshot:
    store = Store.make()
    rows = json.loads(json.dumps(encoded(snapshot, store)))
    return decoded(rows, store.read())


@pytest.mark.parametrize("kind", [*AROUND, *PAIRS])
def test_snapshot_sent_and_received_is_the_same(kind: str) -> None:
    value = AROUND[kind](torch.ones(3)) if kind in AROUND else PAIRS[kind]()[0]
    snapshot = frozen(value)
    assert list(find_mismatches(snapshot, crossed(snapshot), "x")) == []
    assert crossed(snapshot).parts[0].kind == snapshot.parts[0].kind


def test_large_tensor_is_mapped_and_equal() -> None:
    snapshot = frozen([torch.randn(1000, 1000), torch.zeros(0, 3), torch.tensor(True)])
    assert list(find_mismatches(snapshot, crossed(snapshot), "x")) == []


ROWS_STORE = Store.make()
ROWS = json.loads(
    json.dumps(encoded(frozen({"a": [torch.ones(2, 3), 1], "b": ("x", None)}), ROWS_STORE))
)
JUNK = st.one_of(
    st.none(), st.booleans(), st.integers(-(1 << 62), 1 << 62), st.floats(), st.text(max_size=3),
    st.lists(st.integers(-1, 99), max_size=3), st.just({}), st.sampled_from(["t", "p", "b", "s", "q"]),
)  # fmt: skip


def places_in(value: object, path: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield (*path, number)
            yield from places_in(item, (*path, number))


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(list(places_in(ROWS))), JUNK)
def test_changed_message_is_decoded_or_refused(place: tuple[int, ...], junk: object) -> None:
    rows = copy.deepcopy(ROWS)
    inner = rows
    for number in place[:-1]:
        inner = inner[number]
    inner[place[-1]] = junk
    try:
        snapshot = decoded(rows, ROWS_STORE.read())
    except MalformedMessageError:
        return
    # Whatever it says now, it can be compared.
    list(find_mismatches(snapshot, snapshot, "x"))


@pytest.fixture
def ends() -> Iterator[tuple[Pipe, int]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Pipe(ours.fileno()), theirs.fileno()


def framed(data: bytes) -> bytes:
    return struct.pack("!Q", len(data)) + data


@pytest.mark.parametrize(
    "data",
    [framed(b"no json"), framed(b"[1]"), framed(b"\xff\xfe"), struct.pack("!Q", 1 << 60)],
    ids=["no JSON", "no object", "no text", "too large"],
)
def test_message_that_is_none_is_refused(ends: tuple[Pipe, int], data: bytes) -> None:
    pipe, other = ends
    os.write(other, data)
    with pytest.raises(MalformedMessageError):
        pipe.receive()


def test_message_of_an_end_that_closed_is_the_end(ends: tuple[Pipe, int]) -> None:
    pipe, other = ends
    os.write(other, struct.pack("!Q", 10) + b"half")
    with socket.socket(fileno=os.dup(other)) as same:
        same.shutdown(socket.SHUT_RDWR)
    with pytest.raises(ClosedError):
        pipe.receive()


def test_half_a_message_does_not_keep_the_reader_waiting(ends: tuple[Pipe, int]) -> None:
    pipe, other = ends
    os.write(other, struct.pack("!Q", 10) + b"half")
    with pytest.raises(TimeoutError):
        pipe.receive(time.monotonic() + 0.05)


def test_message_on_a_descriptor_above_1023_is_read() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(2048, hard)), hard))
    reading, writing = os.pipe()
    high = fcntl.fcntl(reading, fcntl.F_DUPFD, 1500)
    try:
        os.write(writing, framed(b'{"a": 1}'))
        assert Pipe(high).receive(time.monotonic() + 60) == {"a": 1}
    finally:
        for each in (high, reading, writing):
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
