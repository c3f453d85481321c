"""The monitor of a training: records, stores, prints, serves and archives, and never gets in its way."""

from __future__ import annotations

import atexit
import contextlib
import sys
import time
import weakref
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO, final

from torch import nn

from flodl import log
from flodl.inspect.timing import enable_profiling
from flodl.monitor.access import Access
from flodl.monitor.addresses import address_lines
from flodl.monitor.alerts import AlertRules
from flodl.monitor.eta import Eta
from flodl.monitor.export import archive_of, csv_of_epochs, log_of_epochs
from flodl.monitor.model_info import identity_of, picture_of
from flodl.monitor.options import folder_of, is_follower, pairs_of, start_data
from flodl.monitor.recording import Recorder, number
from flodl.monitor.resources import Sampler
from flodl.monitor.sinks import sink_for
from flodl.monitor.store.frames import Note
from flodl.monitor.store.records import EpochRecord, record_data
from flodl.monitor.store.storage import metrics_folder, open_reader
from flodl.monitor.wording import epoch_line, finish_line
from flodl.monitor.worker import MonitorWorker
from flodl.observe.export import write_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import nn

    from flodl.monitor.options import Metrics
    from flodl.monitor.recording import Value
    from flodl.monitor.server import MonitorServer
    from flodl.monitor.sinks import Sink
    from flodl.runs.directory import RunDirectory

_FLOAT: Final = frozenset({float})


@final
class Monitor:
    """Shows a training while it runs, and keeps it.

    Attributes:
        total_epochs: the planned number of epochs, 0 for no plan.

    Example:
        >>> from flodl import Monitor
        >>> monitor = Monitor(2)
        >>> monitor.record(0, {"loss": 0.9})
        >>> monitor.log(0, 1.5, {"loss": 0.9})
          epoch 1/2  loss=0.9000  [1.5s  ETA 1.5s]
        >>> monitor.log(1, 1.5, {"loss": 0.4})
          epoch 2/2  loss=0.4000  [1.5s]
        >>> [record.metrics["loss"] for record in monitor.history()]
        [0.9, 0.4]
    """

    def __init__(
        self,
        total_epochs: int = 0,
        *,
        run: RunDirectory | str | Path | None = None,
        quiet: bool = False,
        stream: TextIO | None = None,
        alerts: AlertRules | None = None,
        resources: bool = True,
        accepts: Sequence[str] = (),
        sinks: Sequence[Sink | str] = (),
    ) -> None:
        """Make a monitor.

        Args:
            total_epochs: how many epochs are planned, 0 if that is not known.
            run: where to keep everything, below `metrics/`; in memory only if not given. A run that
                has metrics already is continued. Of processes that train together the first one
                keeps and prints.
            quiet: print nothing.
            stream: where to print, standard output if not given.
            alerts: when to raise an alert.
            resources: sample processor, memory and GPUs once a second.
            accepts: the requests that a page may make: `save`, `evaluate`, `pause`, `stop`; see `requests`.
            sinks: other tools that get everything too, such as `tensorboard:FOLDER`, and files of JSON
                lines: `jsonl:FILE`.
        """
        self.total_epochs = total_epochs
        self._quiet, self._stream = quiet or is_follower(), stream
        self._eta = Eta()
        self._began = time.monotonic()
        self._last_log: float | None = None
        self._last_step: float | None = None
        self._recorder = Recorder()
        self._append = self._recorder.rows.append
        self._watched: tuple[nn.Module, bool] | None = None
        self._pictured = ""
        self._archives: list[Path] = []
        self._asked: list[str] = []
        self._finished = False
        self._server: MonitorServer | None = None
        folder = folder_of(run)
        known = metrics_folder(folder) if folder is not None else None
        earlier = open_reader(known).run if known is not None else None
        name = folder.parent.name if folder is not None else "run"
        tools = tuple(sink_for(each) if isinstance(each, str) else each for each in sinks)
        self._worker = MonitorWorker(
            name, earlier, folder, self._recorder, alerts or AlertRules(), tools, self._complain
        )
        self._note("start", start_data(name, total_epochs, tuple(accepts)))
        self._sampler = Sampler(self._worker.add, self._worker.sync) if resources else None
        if self._sampler is not None:
            self._sampler.start()
        self._worker.start()
        atexit.register(_at_exit, weakref.ref(self))

    # ---- recording ----------------------------------------------------------------------------

    def record(self, step: float, values: Mapping[str, Value]) -> None:
        """Record values of a step; takes a microsecond or two and never waits for a device.

        Args:
            step: the number of the step.
            values: numbers or tensors of one element; a tensor on a GPU is fetched later, so it must
                not be overwritten in place.

        Raises:
            ValueError: a value is not one number.
        """
        row = dict(values)
        if not _FLOAT.issuperset(map(type, row.values())):
            row = self._recorder.checked(row)
        self._append((step, time.time(), row))

    def flush(self) -> None:
        """Store and show what was recorded up to now, and wait until that is done."""
        self._worker.drain()

    def log(self, epoch: int, elapsed: float | timedelta, metrics: Metrics = None) -> None:
        """Log an epoch: a line in the terminal, a row in the table, a point in the charts.

        Args:
            epoch: its index, from 0.
            elapsed: how long it took, in seconds or as a `timedelta`.
            metrics: a table of numbers, a graph whose latest metrics are taken, or both in a tuple.

        Raises:
            ValueError: a metric is not one number.
        """
        seconds = elapsed.total_seconds() if isinstance(elapsed, timedelta) else float(elapsed)
        now = time.monotonic()
        # Work between epochs takes time, too.
        self._eta.add(max(seconds, now - self._last_log if self._last_log is not None else 0.0))
        self._last_log = now
        rest = self._eta.remaining(self.total_epochs - epoch - 1) if self.total_epochs else None
        record = EpochRecord(
            epoch=epoch,
            duration=seconds,
            metrics={name: number(name, value) for name, value in pairs_of(metrics)},
            resources=self._sampler.mean() if self._sampler is not None else {},
            time=time.time(),
            step=self._recorder.last_step,
            eta=rest,
        )
        self._note("epoch", record_data(record))
        self._say(epoch_line(record, self.total_epochs))
        if self._watched is not None:
            self._draw(*self._watched)

    def event(self, kind: str, message: str) -> None:
        """Note that something happened.

        Args:
            kind: `step`, `checkpoint`, `signal` ...; `alert` is shown as an alert.
            message: the event, in one line.
        """
        data = {"kind": kind, "message": message, "time": time.time()}
        self._note("alert" if kind == "alert" else "event", data)

    # ---- the model and the run ----------------------------------------------------------------

    def watch(self, model: nn.Module) -> None:
        """Show a model: its name, its size, and its picture as soon as there is one.

        Args:
            model: a graph, or any other module, of which there is no picture.
        """
        self._watch(model, heat=False)

    def watch_profiled(self, model: nn.Module) -> None:
        """Show a model with the time that each of its steps takes, measured from now on.

        Args:
            model: a graph.
        """
        enable_profiling(model)
        self._watch(model, heat=True)

    def set_identity(self, label: str, hash: str = "") -> None:  # noqa: A002  # the name it has
        """Name the model.

        Args:
            label: its name.
            hash: its structural hash.
        """
        self._note("identity", {"label": label, **({"hash": hash} if hash else {})})

    def set_metadata(self, metadata: Mapping[str, Any]) -> None:
        """Set metadata of the run, which the page shows; values under other names stay.

        Args:
            metadata: plain values by name.
        """
        self._note("metadata", dict(metadata))

    def set_svg(self, picture: str) -> None:
        """Show a picture of your own in place of the model's.

        Args:
            picture: SVG.
        """
        self._pictured = picture
        self._note("graph", {"svg": picture})

    # ---- showing ------------------------------------------------------------------------------

    def serve(
        self,
        port: int = 0,
        host: str = "127.0.0.1",
        *,
        hosts: Sequence[str] = (),
        compare: Sequence[str | Path] = (),
    ) -> str:
        """Serve the live page and return its address.

        Args:
            port: the port, 0 for a free one; if it is taken, a free one is used too.
            host: the address to listen on; anything but loopback requires the token from every reader.
            hosts: more names under which the page may be opened, such as that of a proxy.
            compare: other runs to show beside this one.
        """
        # Half a web server is imported here: only those who serve pay for it.
        from flodl.monitor.server import MonitorServer

        if self._server is not None:
            return self._server.url
        for path in compare:
            self._worker.hub.add(Path(path).name, open_reader(path).run)
        access = Access(host=host, hosts=tuple(hosts))
        hub = self._worker.hub
        try:
            self._server = MonitorServer(hub, access=access, port=port, control=self._control)
        except OSError as problem:
            self._complain(
                f"  monitor: port {port} cannot be had ({problem.strerror}), using another one"
            )
            self._server = MonitorServer(hub, access=access, port=0, control=self._control)
        for line in address_lines(self._server.url):
            self._say(f"  monitor: {line}")
        return self._server.url

    def requests(self) -> tuple[str, ...]:
        """Return the requests of the page since the last call, of those that the monitor `accepts`."""
        asked, self._asked = self._asked, []
        return tuple(asked)

    def finish(self) -> None:
        """End the training: print the last line, write the archives, end the server."""
        if self._finished:
            return
        self._finished = True
        if self._sampler is not None:
            self._sampler.stop()
        if self._watched is not None:
            self._draw(*self._watched)
        last = self._worker.last_epoch()
        self._note("finish", {"time": time.time()})
        self._worker.close()
        if self._server is not None:
            self._server.close()
            self._server = None
        for path in self._archives:
            self._archive(path)
        self._say(finish_line(time.monotonic() - self._began, last))

    def finish_with(self, model: nn.Module) -> None:
        """Draw a model, with the times of its steps if it is being profiled, and finish.

        Args:
            model: any module.
        """
        self._watch(model, heat=True)
        if not self._pictured:
            self._say("  monitor: there is no picture of the model: it never ran")
        self.finish()

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()

    # ---- files --------------------------------------------------------------------------------

    def history(self) -> tuple[EpochRecord, ...]:
        """Return the logged epochs, those of earlier processes of the run included."""
        self.flush()
        return tuple(self._worker.run.epochs)

    def save_html(self, path: str | Path) -> None:
        """Have the page written to a file at the end, with everything in it.

        Args:
            path: the file; after `finish` it is written at once.
        """
        if self._finished:
            self._archive(Path(path))
        else:
            self._archives.append(Path(path))

    def export_csv(self, path: str | Path) -> None:
        """Write a row per epoch.

        Args:
            path: the file.
        """
        write_text(path, csv_of_epochs(self.history()))

    def write_log(self, path: str | Path) -> None:
        """Write the lines that the terminal showed.

        Args:
            path: the file.
        """
        epochs = self.history()
        title = str(self._worker.run.identity.get("label", ""))
        write_text(path, log_of_epochs(epochs, self.total_epochs, title))

    # ---- how ----------------------------------------------------------------------------------

    def _note(self, kind: str, data: Mapping[str, Any]) -> None:
        self._worker.add(Note(kind, data))

    def _watch(self, model: nn.Module, *, heat: bool) -> None:
        self._watched = (model, heat)
        identity = identity_of(model)
        parameters = identity.pop("parameters")
        self._note("identity", identity)
        # Below what the user says, which wins.
        if "parameters" not in self._worker.run.metadata:
            self._note("metadata", {"parameters": parameters})
        self._draw(model, heat)

    def _draw(self, model: nn.Module, heat: bool) -> None:
        if self._pictured and not heat:
            return
        picture = picture_of(model, heat=heat)
        if picture and picture != self._pictured:
            self.set_svg(picture)

    def _control(self, run: str, action: str) -> str:
        accepted = self._worker.run.process.get("accepts", ())
        if action not in accepted or run not in ("", self._worker.name):
            message = f"{action!r} is not accepted (accepted: {', '.join(accepted) or 'nothing'})"
            raise ValueError(message)
        self._asked.append(action)
        self.event("control", f"{action} was asked for on the page")
        return action

    def _stop(self) -> None:
        """End the process but not the training, which may be resumed."""
        if not self._finished:
            self._finished = True
            self._note("stop", {"time": time.time()})
            self._worker.close()

    def _archive(self, path: Path) -> None:
        try:
            write_text(path, archive_of({self._worker.name: self._worker.run}))
        except OSError as problem:
            self._complain(f"  monitor: {path} cannot be written ({problem.strerror})")

    def _say(self, line: str) -> None:
        if log.enabled(log.Verbosity.NORMAL):
            self._complain(line)

    def _complain(self, line: str) -> None:
        """Print what went wrong, which no verbosity hides."""
        if not self._quiet:
            # A terminal that is gone is no reason to stop.
            with contextlib.suppress(OSError, ValueError):
                print(line, file=self._stream or sys.stdout, flush=True)


def _at_exit(monitor: weakref.ref[Monitor]) -> None:
    alive = monitor()
    if alive is not None:
        alive._stop()
