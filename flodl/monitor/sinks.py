"""Sinks for other tools: TensorBoard, wandb, MLflow, trackio."""

from __future__ import annotations

import importlib.util
import threading
from collections import deque
from typing import TYPE_CHECKING, Final, Protocol, final

from flodl.errors import UnknownNameError
from flodl.monitor.adapters import TOOLS
from flodl.monitor.store.frames import Note, Rows
from flodl.monitor.store.record_log import RecordLog
from flodl.monitor.store.records import record_from

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from flodl.monitor.adapters import Tool
    from flodl.monitor.store.frames import Frame

# A tool that is slower than this for long loses the oldest.
MOST_WAITING: Final = 10_000


class Sink(Protocol):
    """Something that takes what a monitor records.

    Attributes:
        name: its name in messages.
        problem: why it takes nothing any more, empty as long as it does.
    """

    name: str
    problem: str

    def put(self, frames: Sequence[Frame]) -> None:
        """Take frames; must not wait."""

    def close(self) -> None:
        """Hand on what is left."""


@final
class ToolSink:
    """Passes frames to a tool on a separate thread; one failure ends it.

    Attributes:
        name: its name in messages.
        problem: why it takes nothing any more, empty as long as it does.
    """

    def __init__(self, name: str, make: Callable[[], Tool]) -> None:
        self.name = name
        self.problem = ""
        self._make = make
        self._frames: deque[Frame] = deque(maxlen=MOST_WAITING)
        self._news = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name=f"flodl-{name}", daemon=True)

    def put(self, frames: Sequence[Frame]) -> None:
        """Take frames; the tool is started with the first ones."""
        if self.problem:
            return
        self._frames.extend(frames)
        if self._thread.ident is None:
            self._thread.start()
        self._news.set()

    def close(self) -> None:
        """Hand on what is left and end the tool."""
        self._closing = True
        self._news.set()
        if self._thread.ident is not None:
            self._thread.join(timeout=60)

    def _run(self) -> None:
        try:
            tool = self._make()
            while True:
                self._news.wait()
                self._news.clear()
                closing = self._closing
                while self._frames:
                    _hand_on(tool, self._frames.popleft())
                if closing:
                    tool.close()
                    return
        except Exception as problem:  # whatever a foreign tool does must not end a training
            self.problem = f"{type(problem).__name__}: {problem}"


def sink_for(description: str) -> Sink:
    """Return the sink of a tool, or of a file of JSON lines.

    Args:
        description: `tensorboard:FOLDER`, `wandb:PROJECT`, `mlflow:EXPERIMENT`, `trackio:PROJECT` or
            `jsonl:FILE`.

    Raises:
        UnknownNameError: there is no such tool, it is not installed, or a file has no name.
    """
    name, _, argument = description.partition(":")
    if name == "jsonl":
        if not argument:
            raise UnknownNameError("`jsonl` needs a file: `jsonl:records.jsonl`")
        return RecordLog(argument)
    if name not in TOOLS:
        message = f"there is no tool `{name}` (known: {', '.join(TOOLS)}, jsonl)"
        raise UnknownNameError(message)
    package, make = TOOLS[name]
    if importlib.util.find_spec(package) is None:
        message = f"{name} is not installed: pip install {package}"
        raise UnknownNameError(message)
    return ToolSink(name, lambda: make(argument or "flodl"))


def _hand_on(tool: Tool, frame: Frame) -> None:
    match frame:
        case Rows(group="metrics"):
            for at, step in enumerate(frame.steps):
                values = {n: c[at] for n, c in zip(frame.names, frame.columns, strict=True)}
                tool.step(int(step), frame.times[at], values)
        case Rows():
            values = {
                f"machine/{n}": c[-1] for n, c in zip(frame.names, frame.columns, strict=True)
            }
            tool.machine(frame.times[-1], values)
        case Note("epoch"):
            tool.epoch(record_from(frame.data))
        case Note("metadata"):
            tool.setup(dict(frame.data))
        case _:
            pass
