"""The port of files and folders: read them as one project, port and prove each, write the results."""

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from fdl_cli.errors import Notice, UsageError
from fdl_cli.porter.ir.findings import FileOutcome, FileWarning, Reason
from fdl_cli.porter.ir.port_data import FileData, PortData
from fdl_cli.porter.library_models import library_models
from fdl_cli.porter.notebook import Notebook
from fdl_cli.porter.output import OutputFile, finish_interrupted, require_clean, write_all
from fdl_cli.porter.parse.reader import decode
from fdl_cli.porter.port_run import PortRun, Result
from fdl_cli.porter.project import Project
from fdl_cli.porter.report.diff import unified
from fdl_cli.porter.report.page import page
from fdl_cli.porter.report.proofs import total_lines
from fdl_cli.porter.report.summary import summary_lines
from fdl_cli.porter.sources import Contents, Job, find_jobs, left_out, read_files
from fdl_cli.porter.tree_request import TreeRequest, common_folder
from fdl_cli.system.atomic import write_whole


def port_tree(
    request: TreeRequest, note: Callable[[str], None]
) -> tuple[PortData, tuple[Notice, ...]]:
    """Port every requested file.

    Raises:
        UsageError: a path is missing or unreadable, or the options do not fit together.
        ConflictError: an output exists already and differs.
    """
    _check(request)
    jobs = find_jobs(request.paths, request.output, in_place=request.in_place)
    finish_interrupted(tuple(job.root for job in jobs))
    contents = read_files(tuple(job.source for job in jobs))
    moved = [
        job.source for job in jobs if job.target.parent.absolute() != job.source.parent.absolute()
    ]
    project = Project(
        contents.python,
        linked=request.linked,
        training=request.training,
        moved=moved,
        installed=request.installed,
    )
    if request.in_place and request.write and not request.force:
        _require_clean(jobs, contents, project)
    with tempfile.TemporaryDirectory() as folder:
        run = PortRun(request, contents, project, Path(folder), note)
        results = run.port(tuple(job.source for job in jobs))
    files = tuple(_file_data(request, job, results[job.source], contents) for job in jobs)
    if request.write:
        pairs = zip(jobs, files, strict=True)
        outputs = [_output(request, job, data, results, contents) for job, data in pairs]
        write_all(tuple(item for item in outputs if item is not None), force=request.force)
    if request.html is not None:
        top = common_folder(request.paths)
        shown = [_shown(top, job, results[job.source].outcome, contents) for job in jobs]
        write_whole(request.html, page(shown).encode())
    return PortData(files=files, totals=total_lines(files)), _notices(request, files, contents)


def _require_clean(jobs: tuple[Job, ...], contents: Contents, project: Project) -> None:
    changed: dict[Path, tuple[Path, ...]] = {}
    for job in jobs:
        if job.source in contents.errors or project.error(job.source) is not None:
            continue
        made = project.draft(job.source)
        if made.text != made.source.text:
            changed[job.root] = (*changed.get(job.root, ()), job.source)
    require_clean(changed)


def _file_data(request: TreeRequest, job: Job, result: Result, contents: Contents) -> FileData:
    outcome = result.outcome
    notebook = contents.notebook(job.source)
    if notebook is not None:
        outcome = _by_cells(outcome, notebook)
    changed = outcome.status in {"ported", "partly"}
    diff = None
    if request.want_diff and changed:
        before, after = decode(contents.python[job.source]), outcome.text
        diff = unified(before, after, str(job.source), str(job.target))
    written = str(job.target) if changed and request.write else None
    if changed and request.dry_run:
        written = f"{job.target} (not written)"
    return FileData(
        file=job.source,
        output=job.target if changed else None,
        status=outcome.status,
        classes=outcome.classes,
        on_flodl=outcome.on_flodl,
        training=outcome.training,
        script=outcome.script,
        warnings=outcome.warnings,
        error=outcome.error,
        seconds=round(result.seconds, 3),
        diff=diff,
        plan=f"{outcome.ir}\n{outcome.plan}\n" if request.want_plan else None,
        summary=tuple(summary_lines(str(job.source), outcome, written)),
        sufficient_timeout=outcome.sufficient_timeout,
        speed=outcome.speed,
    )


def _shown(
    top: Path, job: Job, outcome: FileOutcome, contents: Contents
) -> tuple[str, str | None, FileOutcome]:
    """Return a file as the page shows it, with names that say no more than they must."""
    notebook = contents.notebook(job.source)
    changed = outcome.status in {"ported", "partly"}
    target = job.target.name if changed and job.target.name != job.source.name else None
    shown = outcome if notebook is None else _by_cells(outcome, notebook)
    return str(job.source.relative_to(top)), target, shown


def _by_cells(outcome: FileOutcome, notebook: Notebook) -> FileOutcome:
    """Return the report with the cell named wherever there is a line."""
    return replace(
        outcome,
        classes=tuple(
            replace(item, reasons=tuple(_in_cell(reason, notebook) for reason in item.reasons))
            for item in outcome.classes
        ),
    )


def _in_cell(reason: Reason, notebook: Notebook) -> Reason:
    cell, line = notebook.cell_line(reason.line)
    return replace(reason, message=f"{reason.message} (cell {cell}, line {line})")


def _output(
    request: TreeRequest,
    job: Job,
    data: FileData,
    results: dict[Path, Result],
    contents: Contents,
) -> OutputFile | None:
    """Return the files to write for one file: its port, or in a ported folder also the file itself."""
    copied = request.several and request.output is not None
    if data.output is None and not copied:
        return None
    made = contents.raw[job.source] if data.output is None else results[job.source].data
    return OutputFile(path=job.target, root=job.root, data=made, replaces=request.in_place)


def _check(request: TreeRequest) -> None:
    if request.in_place and request.output is not None:
        raise UsageError(
            error_id="port-output-twice",
            message="`--in-place` and `--output` contradict each other",
            hint="give one of them",
        )
    for path in request.paths:
        if not path.exists():
            raise UsageError(
                error_id="path-missing",
                message=f"there is no `{path}`",
                hint="check the spelling; a file or a folder is expected",
                file=str(path),
            )
    single = len(request.paths) == 1 and request.paths[0].is_file()
    if request.output is not None and not single and request.output.is_file():
        raise UsageError(
            error_id="port-output-file",
            message=f"`{request.output}` is a file, but several files are ported",
            hint="give a folder: `-o ported/`",
        )


def _warnings(files: tuple[FileData, ...]) -> Iterator[Notice]:
    """Yield the warnings of all files; one that several files share is given once."""
    where: dict[FileWarning, list[Path]] = {}
    for data in files:
        for item in data.warnings:
            where.setdefault(item, []).append(data.file)
    for item, paths in where.items():
        others = len(paths) - 1
        more = f" and {others} other {'file' if others == 1 else 'files'}" if others else ""
        yield Notice(id=item.id, message=f"{paths[0]}{more}: {item.message}", hint=item.hint)


def _notices(
    request: TreeRequest, files: tuple[FileData, ...], contents: Contents
) -> tuple[Notice, ...]:
    found = list(_warnings(files))
    for data in files:
        if data.error is not None:
            place = str(data.file) if data.error.line is None else f"{data.file}:{data.error.line}"
            text = f"{place}: {data.error.message}"
            found.append(Notice(id=data.error.id, message=text, hint=data.error.hint))
    if not any(data.classes or data.on_flodl or data.error for data in files):
        found.append(_nothing(request, contents))
    if request.write and request.output is not None:
        found += _left_out(request)
    return tuple(found)


def _left_out(request: TreeRequest) -> Iterator[Notice]:
    """Name the files that a port into another folder does not have beside it: data that its code may read."""
    folders = [path for path in request.paths if path.is_dir()]
    files = [(folder, each) for folder in folders for each in left_out(folder)]
    if not files:
        return
    named = ", ".join(str(each.relative_to(folder)) for folder, each in files[:3])
    more = f" and {len(files) - 3} more" if len(files) > 3 else ""
    yield Notice(
        id="files-left-out",
        message=f"{len(files)} files that are no Python were not copied: {named}{more}",
        hint=f"copy to `{request.output}` what the code reads at run time",
    )


def _nothing(request: TreeRequest, contents: Contents) -> Notice:
    """Say why there is nothing to port: the model is a library's, or there is none."""
    for path, data in contents.python.items():
        for model in library_models(data):
            return Notice(
                id="nothing-of-yours",
                message=f"{path}:{model.line}: the model comes from {model.library}; "
                "nothing of yours to port",
                hint=f"flodl.view(model) looks into it as it is; `fdl port FILE -o PORT` with a file "
                f"of {model.library} ports the library's own class",
            )
    folder = ", ".join(f"`{path}`" for path in request.paths)
    return Notice(
        id="nothing-to-port",
        message=f"no torch module was found in {folder}",
        hint="name the file that defines the `nn.Module` classes",
    )
