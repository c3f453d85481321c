"""`fdl graph`: draw the graph of a model, as a picture, a page, or text."""

import json
import shlex
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, final

import typer

from fdl_cli.commands.command import Command
from fdl_cli.console import Console
from fdl_cli.context import Context
from fdl_cli.result import CommandResult
from flodl_verify.render.protocol import (
    Direction,
    Format,
    Heat,
    ModelRow,
    Request,
    Response,
    Weights,
    read_response,
    write_request,
)

# The formats for a terminal, in the order in which they are printed.
_PRINTED: Final = ("summary", "sizes", "values", "diff", "text")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class GraphOptions:
    """The model to draw, how, and where to."""

    model: str
    files: Mapping[Format, Path]
    summary: bool
    values: bool
    example: str
    diff: str
    heat: Heat
    depth: int
    fold: bool | None
    direction: Direction
    weights: Weights | None
    force: bool
    timeout_s: float
    python: Path | None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRow:
    """A difference: `was` is the former path of a part that moved."""

    path: str
    change: Literal["added", "removed", "changed", "moved"]
    kind: str
    was: str
    details: tuple[str, ...]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PartRow:
    """A part of the model: `macs` and `seconds` count all its calls, and those of its children.

    `seconds` is null without `--heat time`, and for a part that was not called.
    """

    path: str
    kind: str
    calls: int
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    output_bytes: int
    parameters: int
    trainable: int
    parameter_bytes: int
    macs: int
    seconds: float | None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageRow:
    """The seconds of a forward, of its steps, and of what comes before the first step."""

    total: float
    steps: float
    entry: float


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ValueRow:
    """A value of the model; `kind` is `output` of a module or `value` of a flow."""

    name: str
    kind: str
    line: str
    calls: int
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    bytes: int


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryRows:
    """The parts and the values of the model; `coverage` is null without times."""

    parts: tuple[PartRow, ...]
    values: tuple[ValueRow, ...]
    coverage: CoverageRow | None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class GraphData:
    """The pictures: `written` has a file per format; `text` is the summary, the differences, or the flow.

    `models` are those of the file when no model was named. `changes` is null without `--diff`, `summary`
    without `--summary`.
    """

    model: str
    title: str
    example: str
    nodes: int
    parameters: int
    written: Mapping[Format, Path]
    text: str
    models: tuple[ModelRow, ...]
    changes: tuple[ChangeRow, ...] | None
    summary: SummaryRows | None


def parse(
    model: Annotated[
        str,
        typer.Argument(
            help="A model in a file, such as model.py:Net; a file alone lists its models.",
            metavar="FILE[:NAME]",
        ),
    ],
    *,
    svg: Annotated[Path | None, typer.Option("--svg", help="Write a picture.")] = None,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write a page where nested graphs open.")
    ] = None,
    dot: Annotated[Path | None, typer.Option("--dot", help="Write Graphviz source.")] = None,
    mermaid: Annotated[
        Path | None, typer.Option("--mermaid", help="Write a Mermaid flowchart for Markdown.")
    ] = None,
    summary: Annotated[
        bool,
        typer.Option(
            "--summary", help="Print outputs, parameters, bytes and MACs of each part instead."
        ),
    ] = False,
    values: Annotated[
        bool,
        typer.Option(
            "--values",
            help="Print the name, shape and line of every value instead; after --summary, with bytes.",
        ),
    ] = False,
    diff: Annotated[
        str,
        typer.Option(
            "--diff",
            metavar="OLD",
            help="Print what changed since the model OLD, FILE or FILE:NAME; exit 1 if anything did.",
        ),
    ] = "",
    example: Annotated[
        str,
        typer.Option("--example", help='How to make and call it: "Net(10): torch.randn(2, 3)".'),
    ] = "",
    heat: Annotated[
        Heat,
        typer.Option(
            "--heat",
            help="Colour steps by what they cost in a run; `time` after --summary adds a column.",
        ),
    ] = "none",
    depth: Annotated[
        int, typer.Option("--depth", min=0, help="Open this many levels of nested graphs.")
    ] = 0,
    fold: Annotated[
        bool | None,
        typer.Option("--fold/--no-fold", help="Draw repeated blocks once; by size if not given."),
    ] = None,
    direction: Annotated[
        Direction, typer.Option("--direction", help="The way from inputs to outputs.")
    ] = "down",
    weights: Annotated[
        Weights | None,
        typer.Option(
            "--weights",
            help="The tensors whose values --html holds: none, small (1 MiB together), all (128 MiB).",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
    timeout: Annotated[
        float, typer.Option("--timeout", min=1, help="Seconds to import and run the model.")
    ] = 120.0,
    python: Annotated[
        Path | None,
        typer.Option(
            "--python", help="The Python with torch; else the project's, else fdl's own."
        ),
    ] = None,
) -> GraphOptions:
    """Draw the graph of a model; without a file to write, print it as text."""
    given: dict[Format, Path | None] = {"svg": svg, "html": html, "dot": dot, "mermaid": mermaid}
    return GraphOptions(
        model=model,
        files={name: path for name, path in given.items() if path is not None},
        summary=summary,
        values=values,
        diff=diff,
        example=example,
        heat=heat,
        depth=depth,
        fold=fold,
        direction=direction,
        weights=weights,
        force=force,
        timeout_s=timeout,
        python=python,
    )


def run(context: Context, options: GraphOptions) -> CommandResult[GraphData]:
    """Import the file in a separate process, draw the model, and write the pictures.

    Raises:
        UsageError: the model is not given as FILE:NAME.
        NotFoundError: there is no such file, or no such model in it.
        ConflictError: an output exists already.
        EnvironmentLackingError: the Python has no torch.
        OperationFailedError: the model cannot be imported, made or called, or a picture not written.
    """
    from fdl_cli.errors import ConflictError, OperationFailedError
    from fdl_cli.system.user_python import require_torch, user_python

    _require_page_for_weights(options)
    file, name = _split(context, options.model, draws=_asks_for_more_than_text(options))
    targets = {form: context.cwd / path for form, path in options.files.items()}
    for path in targets.values():
        if path.exists() and not options.force:
            raise ConflictError(
                error_id="output-exists",
                message=f"{path} exists already",
                hint="choose another name, or overwrite it with --force",
            )
    python = user_python(context, options.python)
    require_torch(python, "drawing a model")
    printed = _printed(options)
    before = ""
    if options.diff:
        printed = ("diff", "changes")
        old_file, old_name = _old_model(context, options, name)
        old = _ask_child(python.interpreter, old_file, old_name, options, ("facts",))
        before = dict(old.pictures)["facts"]
    formats = (*targets, *printed) or ("text",)
    answer = _ask_child(python.interpreter, file, name, options, formats, before)
    pictures = dict(answer.pictures)
    _write(targets, pictures)
    data = GraphData(
        model=options.model,
        title=answer.title,
        example=answer.example,
        nodes=answer.nodes,
        parameters=answer.parameters,
        written=targets,
        text="\n".join(pictures[form] for form in _PRINTED if form in pictures),
        models=answer.models,
        changes=_changes(pictures["changes"]) if options.diff else None,
        summary=_summary(pictures["rows"]) if options.summary else None,
    )
    differs = bool(data.changes)
    return CommandResult(
        schema=COMMAND.schema,
        data=data,
        ok=not differs,
        exit_code=OperationFailedError.exit_code if differs else 0,
    )


def _require_page_for_weights(options: GraphOptions) -> None:
    from fdl_cli.errors import UsageError

    if options.weights is not None and "html" not in options.files:
        raise UsageError(
            error_id="graph-usage",
            message="--weights chooses the values that a page holds, and no page is written",
            hint=f"write one with --html FILE --weights {options.weights}, or leave --weights out",
        )


def _printed(options: GraphOptions) -> tuple[Format, ...]:
    if options.summary:
        return ("summary", "sizes", "rows") if options.values else ("summary", "rows")
    return ("values",) if options.values else ()


def _asks_for_more_than_text(options: GraphOptions) -> bool:
    wanted = (options.files, options.summary, options.values, options.diff, options.example)
    return any(wanted) or options.heat != "none"


def _write(targets: Mapping[Format, Path], pictures: Mapping[Format, str]) -> None:
    from fdl_cli.errors import OperationFailedError
    from fdl_cli.system.atomic import write_whole

    for form, path in targets.items():
        try:
            write_whole(path, pictures[form].encode())
        except OSError as problem:
            raise OperationFailedError(
                error_id="output-write",
                message=f"the picture cannot be written: {problem.strerror or problem}",
                hint=f"choose a place that you may write: --{form} FILE",
                file=str(path),
            ) from problem


def show(result: CommandResult[GraphData], console: Console) -> None:
    """Print the models of the file, the model as text, or the written files."""
    data = result.data
    if data.text:
        console.write(data.text)
    for path in data.written.values():
        console.line(f"wrote {path}")
    if data.models:
        rows = [(row.name, row.kind, str(row.line or "")) for row in data.models]
        console.table(("name", "kind", "line"), rows)
        console.note(f"draw one of them: `fdl graph {shlex.quote(data.model)}:NAME --svg FILE`")
        return
    if not data.example:
        console.note(f"{data.title} has no models")
        return
    console.note(f"{data.title}: {data.nodes} steps, {data.parameters:,} parameters")


def _changes(text: str) -> tuple[ChangeRow, ...]:
    rows = json.loads(text)["changes"]
    return tuple(ChangeRow(**{**row, "details": tuple(row["details"])}) for row in rows)


def _summary(text: str) -> SummaryRows:
    rows = json.loads(text)
    return SummaryRows(
        parts=tuple(PartRow(**_frozen(row)) for row in rows["parts"]),
        values=tuple(ValueRow(**_frozen(row)) for row in rows["values"]),
        coverage=CoverageRow(**rows["coverage"]) if "coverage" in rows else None,
    )


def _frozen(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"shapes": tuple(map(tuple, row["shapes"])), "dtypes": tuple(row["dtypes"])}


def _old_model(context: Context, options: GraphOptions, name: str) -> tuple[Path, str]:
    """Return the file and the name of the model to compare with; a file alone has the same name."""
    from fdl_cli.errors import UsageError

    others = {"--summary": options.summary, "--values": options.values}
    others["--heat"] = options.heat != "none"
    other = next((name for name, given in others.items() if given), None)
    if other is not None:
        raise UsageError(
            error_id="graph-usage",
            message=f"--diff and {other} contradict each other",
            hint="choose one of them",
        )
    alone = (context.cwd / options.diff).is_file()
    return _split(context, f"{options.diff}:{name}" if alone else options.diff, draws=True)


def _split(context: Context, model: str, *, draws: bool) -> tuple[Path, str]:
    """Return the file and the name in it, empty if its models are to be listed."""
    from fdl_cli.errors import NotFoundError, UsageError

    place, colon, name = model.rpartition(":")
    if not draws and (context.cwd / model).is_file():
        place, name = model, ""
    elif not colon or not place or not name.isidentifier():
        raise UsageError(
            error_id="model-syntax",
            message=f"`{model}` does not name a model in a file",
            hint="write FILE:NAME, such as `fdl graph model.py:Net`; `fdl graph FILE` lists the names",
        )
    file = context.cwd / place
    if not file.is_file():
        raise NotFoundError(
            error_id="file-not-found",
            message=f"there is no file {place}",
            hint="the path is relative to the current folder",
            file=place,
        )
    return file.resolve(), name


def _ask_child(
    python: Path,
    file: Path,
    name: str,
    options: GraphOptions,
    formats: tuple[Format, ...],
    before: str = "",
) -> Response:
    from fdl_cli.errors import NotFoundError, OperationFailedError
    from fdl_cli.porter.verify.child import child_environment
    from fdl_cli.system.process import run as run_process

    request = Request(
        file=file,
        name=name,
        example=options.example,
        formats=formats,
        heat=options.heat,
        depth=options.depth,
        fold=options.fold,
        direction=options.direction,
        weights=options.weights or "small",
        before=before,
    )
    with tempfile.TemporaryDirectory(prefix="fdl-graph-") as folder:
        workdir = Path(folder)
        asked, answered = workdir / "request.json", workdir / "response.json"
        write_request(asked, request)
        completed = run_process(
            (python, "-m", "flodl_verify.render", asked, answered),
            cwd=file.parent,
            env=child_environment(workdir),
            timeout=options.timeout_s,
            check=False,
        )
        if not answered.is_file():
            lines = completed.stderr.strip().splitlines()
            raise OperationFailedError(
                error_id="graph-child-died",
                message=f"drawing {file.name} ended early: {lines[-1] if lines else 'no message'}",
                hint=f"run the file with `{python}` first",
                file=str(file),
            )
        answer = read_response(answered)
    if answer.error_id:
        kind = NotFoundError if answer.error_id == "name-not-found" else OperationFailedError
        raise kind(
            error_id=answer.error_id,
            message=answer.message,
            hint=answer.hint,
            file=str(file),
            line=answer.line or None,
        )
    return answer


COMMAND = Command(schema="fdl.graph/1", data=GraphData, parse=parse, run=run, show=show)
