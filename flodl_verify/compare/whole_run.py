"""The judge's part in runs of whole scripts."""

from __future__ import annotations

from typing import Any

from flodl_verify.compare.remote import Channel, Clock, FailedError, RemoteSide, line_of, words
from flodl_verify.protocol import Request
from flodl_verify.sides.wire import Fields, Pipe, checked

MAX_RECORDING_BYTES = 256 << 20
# For what is not the script: its import has limits inside.
_SLACK_S = 5.0


def run_whole(request: Request, channel: Channel, pipe: Pipe) -> None:
    """Let a worker run a script, and send what its training did; of a recorded run also the cases.

    Raises:
        SideGoneError: the process of the script ended.
    """
    side = RemoteSide("original", channel, Clock())
    pipe.send({"event": "running", "name": "", "side": "original"})
    limit = request.left_s()
    try:
        told, stored = side.ask(request.task, limit_s=limit + _SLACK_S, seconds=limit)
    except FailedError:
        return
    with side.believing():
        pipe.send({"event": "curve", "curve": _curve(told["curve"])})
        if request.task == "record":
            data = stored.blob(told["place"])
            if len(data) <= MAX_RECORDING_BYTES:
                pipe.send({"event": "recording", "size": len(data)})
                pipe.send_bytes(data)


def _curve(value: object) -> Fields:
    told = checked(value, dict)
    return {
        "losses": _list(told["losses"], str),
        "values": _list(told["values"], float),
        "weights": _list(told["weights"], str),
        "steps": checked(told["steps"], int),
        "end": words(told["end"]),
        "error": words(told["error"]),
        "line": line_of(told["line"]),
        "stubs": words(told["stubs"]),
    }


def _list(value: object, kind: type) -> list[Any]:
    return [checked(item, kind) for item in checked(value, list)]
