"""The directory of one run: its environment, its settings, its checkpoints, its metrics."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final, final

from flodl.errors import RunError
from flodl.runs.checkpoints import Checkpoints
from flodl.runs.environment import environment
from flodl.runs.notes import read_note, write_note

_ENVIRONMENT: Final = "environment.json"
_CONFIG: Final = "config.json"


@final
class RunDirectory:
    """Everything that a run leaves on disk.

    Attributes:
        path: the directory.  In it: `environment.json` (versions, hardware, git), `config.json`,
            `checkpoints/`, and `metrics/`, which belongs to the monitor.

    Example:
        >>> import tempfile
        >>> from flodl import RunDirectory
        >>> root = tempfile.mkdtemp()
        >>> run = RunDirectory.create(root, "first")
        >>> run.write_config({"epochs": 3})
        >>> RunDirectory.latest(root).config
        {'epochs': 3}
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, root: str | Path, name: str | None = None) -> RunDirectory:
        """Make a new run below a root.

        Args:
            root: the folder of all runs; made if needed.
            name: the name of the run; the time and a random end if not given.

        Raises:
            RunError: there is a run of that name already.
        """
        chosen = name or f"{datetime.now():%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
        path = Path(root) / chosen
        if (path / _ENVIRONMENT).exists():
            raise RunError(
                f"{path}: there is a run here already; open it with RunDirectory.open, "
                "or give another name"
            )
        run = cls(path)
        run.checkpoints.path.mkdir(parents=True, exist_ok=True)
        run.metrics.mkdir(exist_ok=True)
        write_note(run.path / _ENVIRONMENT, environment())
        return run

    @classmethod
    def open(cls, path: str | Path) -> RunDirectory:
        """Open a run that exists.

        Raises:
            RunError: there is no run at that place.
        """
        run = cls(Path(path))
        if not (run.path / _ENVIRONMENT).is_file():
            raise RunError(f"{path}: there is no run here (no {_ENVIRONMENT})")
        return run

    @classmethod
    def at(cls, path: str | Path) -> RunDirectory:
        """Open the run at a place, or make one there."""
        place = Path(path)
        if (place / _ENVIRONMENT).is_file():
            return cls(place)
        return cls.create(place.parent, place.name)

    @classmethod
    def latest(cls, root: str | Path) -> RunDirectory | None:
        """Return the run below a root that was made last, if there is one."""
        folder = Path(root)
        if not folder.is_dir():
            return None
        runs = [cls(each) for each in folder.iterdir() if (each / _ENVIRONMENT).is_file()]
        return max(runs, key=lambda run: run.environment.get("created", ""), default=None)

    # ---- what is in it ----------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The name of the run."""
        return self.path.name

    @property
    def checkpoints(self) -> Checkpoints:
        """The checkpoints."""
        return Checkpoints(self.path / "checkpoints")

    @property
    def metrics(self) -> Path:
        """The folder of the monitor."""
        return self.path / "metrics"

    @property
    def environment(self) -> dict[str, Any]:
        """The environment in which the run began."""
        return read_note(self.path / _ENVIRONMENT)

    @property
    def config(self) -> dict[str, Any]:
        """The settings of the run; empty until they are written."""
        return read_note(self.path / _CONFIG)

    def write_config(self, config: Mapping[str, Any]) -> None:
        """Store how the run is set up: plain values only."""
        write_note(self.path / _CONFIG, config)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the run against a second process that would train in it; a killed holder lets go.

        Raises:
            RunError: another process holds it.
        """
        descriptor = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _lock(descriptor, self.path)
            yield
        finally:
            os.close(descriptor)

    def __repr__(self) -> str:
        return f"RunDirectory({str(self.path)!r})"


def _lock(descriptor: int, path: Path) -> None:
    try:
        import fcntl
    except ImportError:  # Windows: nothing there lets go by itself when a process is killed
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise RunError(f"{path}: another process is training in this directory") from error
