"""`fdl graph`: draw the graph of a model, as a picture, a page, or text."""

import shlex
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, final

import typer

from fdl_cli.commands.command import Command
from fdl_cli.console import Console
from fdl_cli.context import Context
from fdl_cli.result import CommandResult
from flodl_verify.render.protocol import (
    Format,
    Heat,
    ModelRow,
    Request,
    Response,
    read_response,
    write_request,
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class GraphOptions:
    """The model to draw, how, and where to."""

    model: str
    files: Mapping[Format, Path]
    summary: bool
    example: str
    heat: Heat
    depth: int
    fold: bool | None
    force: bool
    timeout_s: float
    python: Path | None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class GraphData:
    """The pictures: `written` has a file per format; `text` is the summary, or the flow.

    `models` are those of the file when no model was named.
    """

    model: str
    title: str
    example: str
    nodes: int
    parameters: int
    written: Mapping[Format, Path]
    text: str
    models: tuple[ModelRow, ...]


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
        typer.Option("--summary", help="Print outputs, parameters and MACs of each part instead."),
    ] = False,
    example: Annotated[
        str,
        typer.Option("--example", help='How to make and call it: "Net(10): torch.randn(2, 3)".'),
    ] = "",
    heat: Annotated[
        Heat, typer.Option("--heat", help="Colour steps by what they cost in a run.")
    ] = "none",
    depth: Annotated[
        int, typer.Option("--depth", min=0, help="Open this many levels of nested graphs.")
    ] = 0,
    fold: Annotated[
        bool | None,
        typer.Option("--fold/--no-fold", help="Draw repeated blocks once; by size if not given."),
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
        example=example,
        heat=heat,
        depth=depth,
        fold=fold,
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
    from fdl_cli.system.atomic import write_whole
    from fdl_cli.system.user_python import require_torch, user_python

    file, name = _split(context, options)
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
    printed: tuple[Format, ...] = ("summary",) if options.summary else ()
    formats = (*targets, *printed) or ("text",)
    answer = _ask_child(python.interpreter, file, name, options, formats)
    pictures = dict(answer.pictures)
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
    data = GraphData(
        model=options.model,
        title=answer.title,
        example=answer.example,
        nodes=answer.nodes,
        parameters=answer.parameters,
        written=targets,
        text=pictures.get("summary", "") or pictures.get("text", ""),
        models=answer.models,
    )
    return CommandResult(schema=COMMAND.schema, data=data)


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


def _split(context: Context, options: GraphOptions) -> tuple[Path, str]:
    """Return the file and the name in it, empty if its models are to be listed."""
    from fdl_cli.errors import NotFoundError, UsageError

    model = options.model
    place, colon, name = model.rpartition(":")
    draws = bool(options.files or options.summary or options.example or options.heat != "none")
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
    python: Path, file: Path, name: str, options: GraphOptions, formats: tuple[Format, ...]
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
