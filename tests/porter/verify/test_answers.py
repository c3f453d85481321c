"""The tool takes nothing from a task that does not have its form, and shows no control characters."""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fdl_cli.porter.verify.child import Answer, _take
from fdl_cli.porter.verify.server import Connection, NoAnswerError

RESULT: dict[str, Any] = {
    "name": "Net", "status": "equal", "detail": "", "example": "", "error_code": None, "line": None,
    "drawing": "", "reason": None, "checks": [{"name": "gradients", "status": "equal", "detail": ""}],
}  # fmt: skip
FAR = time.monotonic() + 600


@pytest.fixture
def connection() -> Iterator[Connection]:
    ours, theirs = socket.socketpair()
    with theirs:
        made = Connection(ours)
        yield made
        made.end(ended=True)


def taken(connection: Connection, *messages: dict[str, Any]) -> Answer:
    answer = Answer()
    for message in messages:
        _take(connection, message, ("Net",), answer, FAR)
    return answer


def test_result_is_taken_and_a_later_one_replaces_it(connection: Connection) -> None:
    first = {"event": "class", "result": {**RESULT, "status": "different"}}
    answer = taken(connection, first, {"event": "class", "result": RESULT})
    assert [(item.name, item.status) for item in answer.classes] == [("Net", "equal")]


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "Other"}, {"status": "proved"}, {"status": None}, {"detail": 3}, {"line": "3"},
        {"checks": {}}, {"checks": [{"name": "x"}]}, {"reason": "whim"}, {"drawing": None},
    ],
    ids=str,
)  # fmt: skip
def test_result_of_another_form_is_refused(connection: Connection, wrong: dict[str, Any]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        taken(connection, {"event": "class", "result": {**RESULT, **wrong}})


def test_texts_have_no_control_characters_and_a_limited_length(connection: Connection) -> None:
    detail = "\x1b[31mred\n\x07" + "x" * 100_000
    answer = taken(connection, {"event": "class", "result": {**RESULT, "detail": detail}})
    (found,) = answer.classes
    assert found.detail.isprintable()
    assert len(found.detail) <= 4000


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*RESULT, "side", "result", "size"]), inner, max_size=4)
    ),
    max_leaves=8,
)
EVENTS = st.sampled_from(
    ["started", "running", "class", "error", "need", "curve", "gone", "changed", "done", "other"]
)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from(["side", "name", "result", "error", "pid"]), JSON), EVENTS)
def test_any_message_is_taken_or_refused(fields: dict[str, Any], event: str) -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        connection = Connection(ours)
        try:
            _take(connection, {**fields, "event": event}, ("Net",), Answer(), FAR)
        except (KeyError, TypeError, ValueError):
            pass
        finally:
            connection.end(ended=True)


@pytest.mark.parametrize(
    "data",
    [struct.pack("!Q", 1 << 40), struct.pack("!Q", 3) + b"[1]", struct.pack("!Q", 2) + b"{]", b""],
    ids=["too large", "no object", "no JSON", "the end"],
)
def test_message_that_is_none_ends_the_task(data: bytes) -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        theirs.sendall(data)
    connection = Connection(ours)
    with pytest.raises(NoAnswerError):
        connection.receive(FAR)
    connection.end(ended=True)


def test_message_is_read_in_pieces() -> None:
    ours, theirs = socket.socketpair()
    text = json.dumps({"event": "done"}).encode()
    with theirs:
        for byte in struct.pack("!Q", len(text)) + text:
            theirs.sendall(bytes([byte]))
    connection = Connection(ours)
    assert connection.receive(FAR) == {"event": "done"}
    connection.end(ended=True)
