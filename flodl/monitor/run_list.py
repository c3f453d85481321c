"""The list of other processes' runs: found below folders, followed while they run, extended by new ones."""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

from flodl.monitor.events import EventHub
from flodl.monitor.store.rundata import RunData
from flodl.monitor.store.storage import Reader, metrics_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from flodl.monitor.store.rundata import Status

POLL_SECONDS: Final = 0.1
IDLE_POLL_SECONDS: Final = 1.0
SEARCH_SECONDS: Final = 2.0
DEPTH: Final = 3


@final
class RunList:
    """The runs below some folders, kept up to date.

    Attributes:
        hub: where they are shown.
    """

    def __init__(self, places: Sequence[Path]) -> None:
        self.hub = EventHub()
        self._places = tuple(places)
        self._readers: dict[Path, tuple[str, Reader]] = {}
        self._states: dict[str, Status] = {}
        self._unreadable: set[str] = set()
        self._searched = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="flodl-runs", daemon=True)
        self.look()

    def start(self) -> None:
        """Begin to follow."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    @property
    def names(self) -> tuple[str, ...]:
        """The runs that were found."""
        return tuple(name for name, _ in self._readers.values())

    @property
    def runs(self) -> dict[str, RunData]:
        """The runs by name, as far as they were read."""
        return {name: reader.run for name, reader in self._readers.values()}

    def look(self) -> None:
        """Take in what is new in every run, and runs that are new."""
        now = time.monotonic()
        if not self._readers or now - self._searched > SEARCH_SECONDS:
            self._searched = now
            for folder in runs_below(self._places):
                if folder not in self._readers:
                    self._add(folder)
        for name, reader in tuple(self._readers.values()):
            if name in self._unreadable:
                continue
            try:
                if frames := [*reader.frames()]:
                    self.hub.feed(name, frames)
            except Exception:
                self._give_up(name, reader)
            status = reader.run.status()
            if self._states.get(name, status) != status:
                self.hub.tell("status", name, {"status": status})
            self._states[name] = status

    def _add(self, folder: Path) -> None:
        reader = Reader(folder)
        readable = True
        try:
            reader.poll()
            reader.run.snapshot()
        except Exception:
            readable = False
            reader.run = RunData(title=reader.run.title, damaged=1)
        name = self.hub.add(reader.run.title, reader.run)
        self._readers[folder] = (name, reader)
        if not readable:
            self._unreadable.add(name)

    def _give_up(self, name: str, reader: Reader) -> None:
        """Show a run as damaged: its files may have any fault, the other runs are followed."""
        self._unreadable.add(name)
        reader.run.damaged += 1

    def _run(self) -> None:
        while not self._stop.wait(POLL_SECONDS if self.hub.audience else IDLE_POLL_SECONDS):
            with contextlib.suppress(OSError):
                self.look()


def runs_below(places: Sequence[Path]) -> list[Path]:
    """Return the metrics folders of all runs at or below some places, the oldest first."""
    found = dict.fromkeys(folder for place in places for folder in _search(place, DEPTH))
    return sorted(found, key=_begun)


def _search(place: Path, depth: int) -> Iterator[Path]:
    folder = metrics_folder(place)
    if folder is not None:
        yield folder.resolve()
        return
    if depth == 0:
        return
    with contextlib.suppress(OSError):
        for each in sorted(place.iterdir()):
            if each.is_dir() and not each.name.startswith((".", "__")):
                yield from _search(each, depth - 1)


def _begun(folder: Path) -> float:
    try:
        return min(each.stat().st_mtime for each in folder.iterdir())
    except (OSError, ValueError):
        return 0.0
