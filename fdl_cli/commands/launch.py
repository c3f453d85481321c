"""`fdl launch`: start a script as several ranks that train one model together."""

import json
import shlex
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, final

import typer

from fdl_cli.commands.command import Command
from fdl_cli.console import Console
from fdl_cli.context import Context
from fdl_cli.result import CommandResult

_PORT: Final = 29400  # that of torchrun
_TO_STDERR: Final = "import os, sys; os.dup2(2, 1); os.execv(sys.argv[1], sys.argv[1:])"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchOptions:
    """The script, and where its ranks run."""

    script: str
    words: tuple[str, ...]
    nproc: int
    nnodes: int
    node_rank: int
    rdzv: str
    restart: int
    log_dir: Path | None
    timeout_s: float
    torchrun: bool
    python: Path | None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RankRow:
    """The end of a rank of this host: a status, or the name of a signal.

    `log` is null without `--log-dir`.
    """

    rank: int
    status: int | None
    signal: str | None
    log: str | None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchData:
    """How the ranks ended; `status` is 0 if the survivors are through.

    `ranks` are those of this host, at the last attempt; none with `--torchrun`.
    """

    script: str
    status: int
    attempts: int | None
    ranks: tuple[RankRow, ...]


def parse(
    script: Annotated[
        str, typer.Argument(metavar="SCRIPT", help="The script that each rank runs.")
    ],
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ARG]...", help="Its arguments; its options come after --."),
    ] = None,
    *,
    nproc: Annotated[int, typer.Option("--nproc", help="How many ranks run on each host.")],
    nnodes: Annotated[int, typer.Option("--nnodes", help="How many hosts take part.")] = 1,
    node_rank: Annotated[
        int, typer.Option("--node-rank", help="The number of this host, from 0.")
    ] = 0,
    rdzv: Annotated[
        str,
        typer.Option(
            "--rdzv", metavar="HOST[:PORT]", help="Where host 0 has the store; on every host."
        ),
    ] = "",
    restart: Annotated[
        int, typer.Option("--restart", help="Start all ranks again so often after an error.")
    ] = 0,
    log_dir: Annotated[
        Path | None,
        typer.Option("--log-dir", help="Write the output of each rank to a file there, too."),
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", min=1, help="Seconds to wait for the store of host 0.")
    ] = 300.0,
    torchrun: Annotated[
        bool,
        typer.Option("--torchrun", help="Let torchrun start them; a death then ends all."),
    ] = False,
    python: Annotated[
        Path | None,
        typer.Option(
            "--python", help="The Python with torch; else the project's, else fdl's own."
        ),
    ] = None,
) -> LaunchOptions:
    """Start a script as several ranks: `fdl launch train.py --nproc 4 -- --lr 0.1`.

    A script with `.devices("all")` on its builder trains one model in all of them. When a
    rank dies of a signal, the others go on.
    """
    return LaunchOptions(
        script=script,
        words=tuple(words or ()),
        nproc=nproc,
        nnodes=nnodes,
        node_rank=node_rank,
        rdzv=rdzv,
        restart=restart,
        log_dir=log_dir,
        timeout_s=timeout,
        torchrun=torchrun,
        python=python,
    )


def run(context: Context, options: LaunchOptions) -> CommandResult[LaunchData]:
    """Start the ranks, pass signals on, and wait for the end.

    Raises:
        UsageError: the numbers do not fit together.
        NotFoundError: there is no such script.
        EnvironmentLackingError: the Python has no torch, or the hosts cannot meet.
        OperationFailedError: the process that starts the ranks ended by itself.
    """
    from fdl_cli.system.user_python import require_torch, user_python

    address = _checked(context, options)
    python = user_python(context, options.python)
    require_torch(python, "starting ranks")
    if options.log_dir is not None:
        (context.cwd / options.log_dir).mkdir(parents=True, exist_ok=True)
    if options.torchrun:
        words = _torchrun_words(context, options, python.interpreter, address)
        code = _run_child(context, words)
        data = LaunchData(script=options.script, status=code, attempts=None, ranks=())
    else:
        script = (str(context.cwd / options.script), *options.words)
        order = {
            "command": [str(python.interpreter), options.script, *options.words],
            "command_beside": python.runtime_command(*script),
            "nproc": options.nproc,
            "nnodes": options.nnodes,
            "node_rank": options.node_rank,
            "host": address[0],
            "port": address[1],
            "restarts": options.restart,
            "log_dir": "" if options.log_dir is None else str(context.cwd / options.log_dir),
            "is_only_stderr": context.json,
            "timeout_s": options.timeout_s,
        }
        with tempfile.TemporaryDirectory(prefix="fdl-launch-") as folder:
            asked = Path(folder) / "order.json"
            asked.write_text(json.dumps(order), "utf-8")
            module = "flodl.distributed.team.supervisor"
            code = _run_child(context, python.runtime_command(module, asked))
            data = _data(options, code, asked.with_name("result.json"))
    return CommandResult(
        schema=COMMAND.schema, data=data, ok=data.status == 0, exit_code=data.status
    )


def show(result: CommandResult[LaunchData], console: Console) -> None:
    """Say how many ranks are through; their output has been printed."""
    ranks = result.data.ranks
    if ranks:
        through = sum(each.status == 0 for each in ranks)
        console.note(f"{through} of {len(ranks)} ranks are through")


def _checked(context: Context, options: LaunchOptions) -> tuple[str, int]:
    """Return the address of the store, an empty one for this host alone.

    Raises:
        UsageError: the numbers do not fit together.
        NotFoundError: there is no such script.
    """
    from fdl_cli.errors import NotFoundError

    for problem, hint in _problems(options):
        raise _usage(problem, hint)
    if not (context.cwd / options.script).is_file():
        raise NotFoundError(
            error_id="file-not-found",
            message=f"there is no script {options.script}",
            hint="the path is relative to the current folder",
            file=options.script,
        )
    host, colon, port = options.rdzv.rpartition(":")
    if not colon:
        return options.rdzv, _PORT
    if not host or not port.isdecimal():
        raise _usage(
            f"`--rdzv {options.rdzv}` is no address", "write HOST:PORT, such as node0:29400"
        )
    return host, int(port)


def _problems(options: LaunchOptions) -> list[tuple[str, str]]:
    """Return the numbers that do not fit, each with a hint."""
    found = []
    if options.nproc < 1:
        found.append((f"--nproc is {options.nproc}", "give the number of ranks, from 1"))
    if options.nnodes < 1:
        found.append((f"--nnodes is {options.nnodes}", "give the number of hosts, from 1"))
    if options.restart < 0:
        found.append((f"--restart is {options.restart}", "give a number from 0"))
    if not 0 <= options.node_rank < max(options.nnodes, 1):
        found.append(
            (
                f"--node-rank is {options.node_rank} with {options.nnodes} hosts",
                f"give --nnodes, and a number from 0 to {max(options.nnodes, 1) - 1}",
            )
        )
    if options.nnodes > 1 and not options.rdzv:
        found.append(
            (
                f"{options.nnodes} hosts need a place to meet",
                "give every host the same `--rdzv HOST:PORT`, an address of host 0",
            )
        )
    return found


def _usage(message: str, hint: str) -> Exception:
    from fdl_cli.errors import UsageError

    return UsageError(error_id="launch-usage", message=message, hint=hint)


def _torchrun_words(
    context: Context, options: LaunchOptions, interpreter: Path, address: tuple[str, int]
) -> list[str]:
    words = [str(interpreter), "-m", "torch.distributed.run"]
    words += ["--nproc-per-node", str(options.nproc), "--max-restarts", str(options.restart)]
    if options.nnodes > 1:
        words += ["--nnodes", str(options.nnodes), "--node-rank", str(options.node_rank)]
        words += ["--master-addr", address[0], "--master-port", str(address[1])]
    else:
        words += ["--standalone"]
    if options.log_dir is not None:
        words += ["--log-dir", str(context.cwd / options.log_dir), "--tee", "3"]
    words += [options.script, *options.words]
    if context.json:  # standard output is for the document
        return [str(interpreter), "-c", _TO_STDERR, *words]
    return words


def _run_child(context: Context, words: Sequence[str]) -> int:
    """Run a program that ends with this one and gets its signals; return its exit code."""
    from fdl_cli.manifest.model import Invocation
    from fdl_cli.manifest.supervise import run_child

    context.console.flush()
    context.console.err.flush()
    invocation = Invocation(
        task=("fdl launch",),
        argv=tuple(words),
        folder=str(context.cwd),
        changes=(),
        service=None,
        confirm=None,
        digest="",
    )
    if context.verbosity > 0:
        context.console.note(shlex.join(words))
    return run_child(invocation, context.environ).code


def _data(options: LaunchOptions, code: int, answered: Path) -> LaunchData:
    from fdl_cli.errors import EnvironmentLackingError, OperationFailedError

    if not answered.is_file():
        raise OperationFailedError(
            error_id="launch-ended",
            message=f"the process that starts the ranks ended with code {code}",
            hint="what it printed says why; all ranks ended with it",
        )
    answer: dict[str, Any] = json.loads(answered.read_text("utf-8"))
    if "error" in answer:
        raise EnvironmentLackingError(
            error_id="store-unreachable",
            message=answer["error"],
            hint="start host 0 too, and give every host the same `--rdzv HOST:PORT`, an address of host 0",
        )
    return LaunchData(
        script=options.script,
        status=answer["status"],
        attempts=answer["attempts"],
        ranks=tuple(RankRow(**each) for each in answer["ranks"]),
    )


COMMAND = Command(schema="fdl.launch/1", data=LaunchData, parse=parse, run=run, show=show)
