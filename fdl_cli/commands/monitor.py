"""`fdl monitor`: show runs in the browser, finished ones and running ones of other processes.

`--export` writes them as one page that needs no server, `--records` prints them as JSON lines.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, final

import typer

from fdl_cli.commands.command import Command
from fdl_cli.console import Console
from fdl_cli.context import Context
from fdl_cli.result import CommandResult

# A server in the background ends by itself after this long without a request.
IDLE_SECONDS: Final = 3600.0
# The child's exit code when its port is taken.
PORT_TAKEN: Final = 3
# Its exit codes when there are no runs, and when it cannot write the page.
NO_RUNS: Final = 4
CANNOT_WRITE: Final = 5
START_SECONDS: Final = 120.0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorOptions:
    """The runs to show, and where to serve them."""

    runs: tuple[Path, ...]
    port: int | None
    host: str
    allow_host: tuple[str, ...]
    detach: bool
    export: Path | None
    records: bool
    python: Path | None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorData:
    """The address of the page; `pid` is the server in the background, nothing when it has ended.

    `file` is the page that `--export` wrote.
    """

    url: str | None
    port: int | None
    pid: int | None
    runs: tuple[str, ...]
    addresses: tuple[str, ...]
    file: Path | None = None


def parse(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[RUN]...", help="Runs, or folders with runs; here if not given."),
    ] = None,
    *,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", min=0, max=65535, help="The port; 8420 or a free one if not given."
        ),
    ] = None,
    host: Annotated[
        str,
        typer.Option("--host", help="Where to listen; beyond loopback, readers need the token."),
    ] = "127.0.0.1",
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", help="One more name under which the page may be opened."),
    ] = None,
    detach: Annotated[
        bool,
        typer.Option(
            "--detach", "-d", help="Serve in the background, until an hour without readers."
        ),
    ] = False,
    export: Annotated[
        Path | None,
        typer.Option("--export", help="Write one page with everything in it, and serve nothing."),
    ] = None,
    records: Annotated[
        bool,
        typer.Option("--records", help="Print every record as a line of JSON, and serve nothing."),
    ] = False,
    python: Annotated[
        Path | None,
        typer.Option(
            "--python", help="The Python with torch; else the project's, else fdl's own."
        ),
    ] = None,
) -> MonitorOptions:
    """Show runs in the browser: charts, epochs, the model, and how they compare.

    Finished runs and live runs of any process; live ones are followed. With `--json` the server
    stays in the background, as with `--detach`. `--export` and `--records` serve nothing:
    `fdl monitor runs/first --records | jq 'select(.kind == "epoch")'`.
    """
    return MonitorOptions(
        runs=tuple(runs or ()),
        port=port,
        host=host,
        allow_host=tuple(allow_host or ()),
        detach=detach,
        export=export,
        records=records,
        python=python,
    )


def run(context: Context, options: MonitorOptions) -> CommandResult[MonitorData]:
    """Start a process that serves; wait for its end, or only until it is ready.

    Raises:
        NotFoundError: there is no such run.
        EnvironmentLackingError: torch is not installed.
        ConflictError: the port is taken.
        UsageError: the options do not fit together.
    """
    from fdl_cli.system.user_python import require_torch, user_python

    _check(context, options)
    places = tuple(_place(context, path) for path in options.runs)
    python = user_python(context, options.python)
    require_torch(python, "the monitor")
    words = [*python.runtime_command("flodl.monitor", *(places or (context.cwd,)))]
    if options.records:
        _print_records(context, words, options)
        return _result(_nothing_served())
    if options.export is not None:
        return _result(_export(context, words, options.runs, options.export))
    words += ["--host", options.host]
    words += [] if options.port is None else ["--port", str(options.port)]
    for name in options.allow_host:
        words += ["--allow-host", name]
    if options.detach or context.json:
        data = _in_background(context, words, options)
    else:
        _in_foreground(context, words, options)
        data = _nothing_served()
    return _result(data)


def show(result: CommandResult[MonitorData], console: Console) -> None:
    """Print where the page is; in the foreground that has been done."""
    data = result.data
    if data.file is not None:
        count = len(data.runs)
        console.line(str(data.file))
        console.note(f"the page of {count} run{'' if count == 1 else 's'}; open it in a browser")
    if data.pid is None:
        return
    for line in data.addresses:
        console.line(line)
    count = len(data.runs)
    console.note(f"showing {count} run{'' if count == 1 else 's'}; `kill {data.pid}` ends it")


def _result(data: MonitorData) -> CommandResult[MonitorData]:
    return CommandResult(schema=COMMAND.schema, data=data)


def _nothing_served() -> MonitorData:
    return MonitorData(url=None, port=None, pid=None, runs=(), addresses=())


def _check(context: Context, options: MonitorOptions) -> None:
    """Refuse options that do not fit together.

    Raises:
        UsageError: they do not.
    """
    from fdl_cli.errors import UsageError

    if options.records and (context.json or options.export is not None):
        other = "--export" if options.export is not None else "--json"
        raise UsageError(
            error_id="usage",
            message=f"`--records` prints lines of JSON itself and cannot go with `{other}`",
            hint=f"leave out one of `--records` and `{other}`",
        )
    serving = options.detach or options.port is not None
    if serving and (options.records or options.export is not None):
        raise UsageError(
            error_id="usage",
            message="`--export` and `--records` serve nothing, so there is no port",
            hint="leave out `--port` and `--detach`",
        )


def _print_records(context: Context, words: Sequence[str], options: MonitorOptions) -> None:
    from fdl_cli.system.process import run as run_process

    context.console.flush()
    done = run_process([*words, "--records"], cwd=context.cwd, capture=False, check=False)
    if done.returncode == NO_RUNS:
        raise _no_runs(options.runs)
    if done.returncode != 0:
        raise _ended(done.returncode)


def _export(
    context: Context, words: Sequence[str], runs: Sequence[Path], file: Path
) -> MonitorData:
    from fdl_cli.errors import OperationFailedError
    from fdl_cli.system.process import run as run_process

    path = context.cwd / file
    done = run_process([*words, "--export", str(path)], cwd=context.cwd, check=False)
    if done.returncode == NO_RUNS:
        raise _no_runs(runs)
    if done.returncode == CANNOT_WRITE:
        raise OperationFailedError(
            error_id="export-failed",
            message=f"`{file}` cannot be written: {json.loads(done.stdout)['error']}",
            hint="name a file in a folder that exists and that you may write",
            file=str(path),
        )
    if done.returncode != 0:
        raise _ended(done.returncode, done.stderr)
    shown = tuple(json.loads(done.stdout)["runs"])
    return MonitorData(url=None, port=None, pid=None, runs=shown, addresses=(), file=path)


def _no_runs(runs: Sequence[Path]) -> Exception:
    from fdl_cli.errors import NotFoundError

    where = ", ".join(f"`{path}`" for path in runs)
    return NotFoundError(
        error_id="run-not-found",
        message=f"there is no run in {where or 'this folder'}",
        hint="name a run whose monitor has stored something: `Monitor(n, run=...)`",
    )


def _ended(code: int, stderr: str = "") -> Exception:
    from fdl_cli.errors import OperationFailedError

    lines = stderr.strip().splitlines()
    return OperationFailedError(
        error_id="monitor-ended",
        message=f"the monitor ended with code {code}" + (f": {lines[-1]}" if lines else ""),
        hint="what it printed says why",
    )


def _place(context: Context, path: Path) -> Path:
    from fdl_cli.errors import NotFoundError

    place = context.cwd / path
    if not place.is_dir():
        raise NotFoundError(
            error_id="run-not-found",
            message=f"there is no folder `{path}`",
            hint="name a run, or a folder with runs, such as `fdl monitor runs`",
            file=str(path),
        )
    return place


def _in_foreground(context: Context, words: Sequence[str], options: MonitorOptions) -> None:
    from fdl_cli.system.process import run as run_process

    try:
        done = run_process(
            [*words, "--text", "--with-parent", str(os.getpid())],
            cwd=context.cwd,
            capture=False,
            check=False,
        )
    except KeyboardInterrupt:
        return  # how it is meant to end
    if done.returncode == PORT_TAKEN:
        raise _port_taken(options)
    if done.returncode != 0:
        raise _ended(done.returncode)


def _in_background(context: Context, words: Sequence[str], options: MonitorOptions) -> MonitorData:
    from fdl_cli.errors import OperationFailedError
    from fdl_cli.system.process import run as run_process

    argv = [*words, "--detach", "--idle", f"{IDLE_SECONDS:.0f}"]
    done = run_process(argv, cwd=context.cwd, timeout=START_SECONDS, check=False)
    if done.returncode == PORT_TAKEN:
        raise _port_taken(options)
    if done.returncode != 0 or not done.stdout:
        lines = done.stderr.strip().splitlines()
        raise OperationFailedError(
            error_id="monitor-ended",
            message=f"the monitor did not start: {lines[-1] if lines else 'it said nothing'}",
            hint="run it in the foreground to see more: leave out --detach and --json",
        )
    about: dict[str, Any] = json.loads(done.stdout)
    return MonitorData(
        url=about["url"],
        port=about["port"],
        pid=about["pid"],
        runs=tuple(about["runs"]),
        addresses=tuple(about["addresses"]),
    )


def _port_taken(options: MonitorOptions) -> Exception:
    from fdl_cli.errors import ConflictError

    return ConflictError(
        error_id="port-taken",
        message=f"nothing can listen on {options.host}, port {options.port}",
        hint="choose another one, or leave out --port",
    )


COMMAND = Command(schema="fdl.monitor/1", data=MonitorData, parse=parse, run=run, show=show)
