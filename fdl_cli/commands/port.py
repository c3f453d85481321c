"""`fdl port`: turn PyTorch files into the same programs on the flow-graph runtime."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal, final

import typer

from fdl_cli.commands.command import Command
from fdl_cli.console import Console, page_address
from fdl_cli.context import Context
from fdl_cli.porter.ir.port_data import FileData, PortData
from fdl_cli.result import CommandResult

TrainingLevel = Literal["keep", "setup", "builder"]

# The groups of the help page.
_STDIN: Final = Path("-")
_OUTPUT: Final = "Where to write"
_PROOF: Final = "Proof"
_TRAINING: Final = "Training loops"
_REPORT: Final = "Report"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PortOptions:
    """The files to port, where to write them and how far to prove them."""

    paths: tuple[Path, ...]
    output: Path | None
    in_place: bool
    diff: bool
    check: bool
    strict: bool
    verify: bool
    verify_only: bool
    examples: tuple[str, ...]
    training: TrainingLevel
    force: bool
    show_plan: bool
    timeout_s: float
    html: Path | None
    explain: str | None
    dry_run: bool
    jobs: int | None
    python: Path | None
    fast: bool


def parse(
    *,
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Python files, notebooks, or folders with them; `-` is standard input.",
            metavar="PATH...",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Write the port to this file or folder.",
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
    in_place: Annotated[
        bool,
        typer.Option("--in-place", help="Replace the files themselves.", rich_help_panel=_OUTPUT),
    ] = False,
    diff: Annotated[
        bool,
        typer.Option("--diff", help="Print the change; write nothing.", rich_help_panel=_OUTPUT),
    ] = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Write nothing; exit 1 if there is something to port.",
            rich_help_panel=_OUTPUT,
        ),
    ] = False,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="Exit 1 unless every class is a graph and proved equal.",
            rich_help_panel=_PROOF,
        ),
    ] = False,
    no_verify: Annotated[
        bool,
        typer.Option(
            "--no-verify",
            help="Do not run original and port side by side.",
            rich_help_panel=_PROOF,
        ),
    ] = False,
    verify_only: Annotated[
        bool,
        typer.Option(
            "--verify-only",
            help="Compare two files: an original and its port.",
            rich_help_panel=_PROOF,
        ),
    ] = False,
    example: Annotated[
        list[str] | None,
        typer.Option(
            "--example",
            help='How to call a class: "Net(10): torch.randn(2, 3)".',
            rich_help_panel=_PROOF,
        ),
    ] = None,
    training: Annotated[
        TrainingLevel,
        typer.Option(
            "--training",
            help="How far training loops move onto Trainer.",
            rich_help_panel=_TRAINING,
        ),
    ] = "keep",
    fast: Annotated[
        bool,
        typer.Option(
            "--fast",
            help="Measure the step with a fused optimizer; write it with --training builder.",
            rich_help_panel=_TRAINING,
        ),
    ] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Overwrite an existing output.", rich_help_panel=_OUTPUT),
    ] = False,
    show_plan: Annotated[
        bool,
        typer.Option(
            "--show-plan", help="Print what was understood and decided.", rich_help_panel=_REPORT
        ),
    ] = False,
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout",
            min=1,
            help="Seconds for the verification of a file.",
            rich_help_panel=_PROOF,
        ),
    ] = 300.0,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            "-j",
            min=1,
            help="How many files to verify at once; as many as the machine can, if not given.",
            rich_help_panel=_PROOF,
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html", help="Write the report as a page to this file.", rich_help_panel=_REPORT
        ),
    ] = None,
    explain: Annotated[
        str | None,
        typer.Option(
            "--explain",
            help="Say what a reason code means; `all` for all.",
            rich_help_panel=_REPORT,
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Say what would change; write and run nothing.",
            rich_help_panel=_OUTPUT,
        ),
    ] = False,
    python: Annotated[
        Path | None,
        typer.Option(
            "--python",
            help="The Python with torch; else the project's, else fdl's own.",
            rich_help_panel=_PROOF,
        ),
    ] = None,
) -> PortOptions:
    """Port PyTorch scripts to flow graphs and prove that they compute the same.

    Without -o or --in-place, `model.py` becomes `model_flodl.py` beside it. `fdl port - < model.py`
    prints the port.
    """
    return PortOptions(
        paths=tuple(paths or ()),
        output=output,
        in_place=in_place,
        diff=diff,
        check=check,
        strict=strict,
        verify=not no_verify,
        verify_only=verify_only,
        examples=tuple(example or ()),
        training=training,
        force=force,
        show_plan=show_plan,
        timeout_s=timeout,
        html=html,
        explain=explain,
        dry_run=dry_run,
        jobs=jobs,
        python=python,
        fast=fast,
    )


def run(context: Context, options: PortOptions) -> CommandResult[PortData]:
    """Port the files, prove them, and write them where they belong.

    Raises:
        UsageError: the options contradict each other, or an input cannot be read.
        ConflictError: an output exists already.
    """
    if options.explain is not None:
        return _explain(options.explain)
    _require_paths(options)
    if options.verify_only:
        return _compare(context, options)
    _require_runs(options)
    # Not before: a mistake in the options is reported without loading the porter.
    from fdl_cli.porter.port_tree import port_tree
    from fdl_cli.porter.tree_request import TreeRequest
    from fdl_cli.porter.verify import measure_speed, prove_script, verify_port
    from fdl_cli.system.user_python import package_folders, user_python

    python = user_python(context, options.python).interpreter
    proves = options.verify and not options.check and not options.dry_run
    request = TreeRequest(
        paths=tuple(context.cwd / path for path in options.paths),
        output=None if options.output is None else context.cwd / options.output,
        in_place=options.in_place,
        write=not (options.diff or options.check or options.dry_run),
        force=options.force,
        verify=verify_port if proves else None,
        prove_script=prove_script if proves else None,
        examples=options.examples,
        python=str(python),
        installed=package_folders(python),
        timeout_s=options.timeout_s,
        want_diff=options.diff,
        want_plan=options.show_plan,
        training=options.training,
        dry_run=options.dry_run,
        jobs=options.jobs or _comfortable(context),
        html=None if options.html is None else context.cwd / options.html,
        measure=measure_speed if options.fast else None,
    )
    if options.paths == (_STDIN,):
        from fdl_cli.porter.stdin_port import port_stdin

        source = sys.stdin.buffer.read()
        data, warnings = port_stdin(source, request, context.cwd, context.console.note)
    else:
        data, warnings = port_tree(request, context.console.note)
    verified = options.verify and not options.dry_run
    code = data.exit_code(check=options.check, strict=options.strict, verified=verified)
    return CommandResult(
        schema=COMMAND.schema, data=data, ok=code == 0, warnings=warnings, exit_code=code
    )


def _comfortable(context: Context) -> int:
    from fdl_cli.porter.verify_pool import comparisons_at_once
    from fdl_cli.system.host import read_host

    return comparisons_at_once(read_host(context.cwd))


def _require_paths(options: PortOptions) -> None:
    from fdl_cli.errors import UsageError

    if not options.paths:
        raise UsageError(
            error_id="missing-argument",
            message="nothing to port: a file or folder is missing",
            hint="try `fdl port model.py`, or `fdl port --explain all`",
        )
    if _STDIN in options.paths and (len(options.paths) > 1 or options.verify_only):
        raise UsageError(
            error_id="port-stdin-alone",
            message="`-` is one program from standard input, and stands alone",
            hint="port it by itself: `fdl port - < model.py > ported.py`",
        )


def _require_runs(options: PortOptions) -> None:
    from fdl_cli.errors import UsageError

    if options.fast and (not options.verify or options.check or options.dry_run):
        raise UsageError(
            error_id="port-fast-runs",
            message="--fast runs the script to measure and verify it, and no program is run with "
            "--no-verify, --check or --dry-run",
            hint="try `fdl port model.py --fast`",
        )


def _explain(code: str) -> CommandResult[PortData]:
    from fdl_cli.errors import NotFoundError
    from fdl_cli.porter.ir.port_data import Explanation
    from fdl_cli.porter.knowledge.reasons import REASONS, RETIRED, SCOPES

    known = REASONS | RETIRED
    wanted = list(REASONS) if code.lower() == "all" else [code.upper()]
    if wanted[0] not in known:
        raise NotFoundError(
            error_id="reason-unknown",
            message=f"there is no reason code `{code}`",
            hint="`fdl port --explain all` lists them",
        )
    found = tuple(
        Explanation(
            code=item,
            title=known[item].title,
            advice=known[item].advice,
            scope=SCOPES[item[:4]] if item in REASONS else "retired; reports no longer carry it",
        )
        for item in wanted
    )
    return CommandResult(schema=COMMAND.schema, data=PortData(files=(), explanations=found))


def _compare(context: Context, options: PortOptions) -> CommandResult[PortData]:
    from fdl_cli.errors import Notice, UsageError
    from fdl_cli.porter.compare_two import ComparisonRequest, compare_files
    from fdl_cli.porter.report.proofs import total_lines
    from fdl_cli.porter.verify import verify_port
    from fdl_cli.system.user_python import user_python

    writes = options.output or options.in_place or options.diff or options.check or options.fast
    if len(options.paths) != 2 or writes or not options.verify:
        raise UsageError(
            error_id="verify-only-usage",
            message="--verify-only takes two files, an original and its port, and writes nothing",
            hint="try `fdl port --verify-only model.py model_flodl.py`",
        )
    request = ComparisonRequest(
        original=context.cwd / options.paths[0],
        ported=context.cwd / options.paths[1],
        verify=verify_port,
        examples=options.examples,
        python=str(user_python(context, options.python).interpreter),
        timeout_s=options.timeout_s,
    )
    file = compare_files(request)
    statuses = {item.verify.status for item in file.classes}
    proved = {"equal"} if options.strict else {"equal", "close"}
    code = 0 if statuses <= proved else 1
    warnings = tuple(
        Notice(id=item.id, message=item.message, hint=item.hint) for item in file.warnings
    )
    return CommandResult(
        schema=COMMAND.schema,
        data=PortData(files=(file,), totals=total_lines((file,))),
        ok=code == 0,
        warnings=warnings,
        exit_code=code,
    )


def show(result: CommandResult[PortData], console: Console) -> None:
    """Print the plan or the diff where requested, and the report of every file."""
    for item in result.data.explanations:
        console.line(f"{item.code}  {item.title}")
        console.line(f"        about: {item.scope}")
        console.line(f"        to do: {item.advice}")
        console.line(f"        page: {page_address(f'codes/{item.code}')}")
    for file in result.data.files:
        if file.diff is not None:
            console.write(file.diff)
            continue
        if file.text is not None:
            _print_port(file, console)
            continue
        if file.plan is not None:
            console.line(file.plan)
        for line in file.summary:
            console.line(line)
    if not any(file.diff is not None or file.text is not None for file in result.data.files):
        for line in result.data.totals:
            console.line(line)


def _print_port(file: FileData, console: Console) -> None:
    """Print a program to stdout, and everything about it to stderr."""
    console.write(file.text or "")
    for line in (*([file.plan] if file.plan else []), *file.summary):
        console.note(line)


COMMAND = Command(schema="fdl.port/1", data=PortData, parse=parse, run=run, show=show)
