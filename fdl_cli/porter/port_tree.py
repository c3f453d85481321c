"""Port files and folders: read them as one project, port and prove each, write what came out."""

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

from fdl_cli.errors import Notice, UsageError
from fdl_cli.porter.bench import Bench
from fdl_cli.porter.ir.findings import FileOutcome, FileWarning, Reason
from fdl_cli.porter.ir.port_data import FileData, PortData
from fdl_cli.porter.ir.training import TrainingLevel
from fdl_cli.porter.notebook import Notebook
from fdl_cli.porter.output import OutputFile, finish_interrupted, require_clean, write_all
from fdl_cli.porter.parse.reader import decode
from fdl_cli.porter.port_file import ProveScript, Proving, Verify, failed, port_member
from fdl_cli.porter.project import Project
from fdl_cli.porter.report.diff import unified
from fdl_cli.porter.report.page import page
from fdl_cli.porter.report.summary import summary_lines
from fdl_cli.porter.sources import Contents, Job, find_jobs, read_files
from fdl_cli.system.atomic import write_whole

# A file whose neighbours changed after it was proved is proved again this often.
_MAX_ROUNDS = 3


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TreeRequest:
    """What to port and where to put it; without `output` and `in_place`, beside each source."""

    paths: tuple[Path, ...]
    output: Path | None
    in_place: bool
    write: bool
    force: bool
    verify: Verify | None
    prove_script: ProveScript | None
    examples: tuple[str, ...]
    timeout_s: float
    want_diff: bool
    want_plan: bool
    training: TrainingLevel = "keep"
    html: Path | None = None
    dry_run: bool = False

    @property
    def several(self) -> bool:
        """Whether a folder or more than one file is ported."""
        return len(self.paths) != 1 or self.paths[0].is_dir()

    @property
    def linked(self) -> bool:
        """Whether the ports find each other; beside their sources, they import the sources."""
        return self.several and (self.in_place or self.output is not None)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Result:
    """What came of one file: the report, its bytes, and the time it took."""

    outcome: FileOutcome
    data: bytes
    seconds: float


def port_tree(
    request: TreeRequest, note: Callable[[str], None]
) -> tuple[PortData, tuple[Notice, ...]]:
    """Port everything that was asked for.

    Raises:
        UsageError: a path is missing or unreadable, or the options do not fit together.
        ConflictError: an output exists already and differs.
    """
    _check(request)
    jobs = find_jobs(request.paths, request.output, in_place=request.in_place)
    finish_interrupted(tuple(job.root for job in jobs))
    contents = read_files(tuple(job.source for job in jobs))
    project = Project(contents.python, linked=request.linked, training=request.training)
    if request.in_place and request.write and not request.force:
        _require_clean(jobs, contents, project)
    with tempfile.TemporaryDirectory(prefix="fdl-port-") as folder:
        run = _Run(request, contents, project, Path(folder), note)
        results = run.port(tuple(job.source for job in jobs))
    files = tuple(_file_data(request, job, results[job.source], contents) for job in jobs)
    if request.write:
        pairs = zip(jobs, files, strict=True)
        outputs = [_output(request, job, data, results, contents) for job, data in pairs]
        write_all(tuple(item for item in outputs if item is not None), force=request.force)
    if request.html is not None:
        top = _top(request.paths)
        shown = [_shown(top, job, results[job.source].outcome, contents) for job in jobs]
        write_whole(request.html, page(shown).encode())
    return PortData(files=files), _notices(request, files)


@final
class _Run:
    """Ports the files of one project, each until nothing it was proved with changes any more."""

    def __init__(
        self,
        request: TreeRequest,
        contents: Contents,
        project: Project,
        workdir: Path,
        note: Callable[[str], None],
    ) -> None:
        self._request = request
        self._contents = contents
        self._project = project
        self._workdir = workdir
        self._note = note
        self._bench = Bench(workdir, _top(request.paths)) if request.linked else None
        self._results: dict[Path, _Result] = {}

    def port(self, sources: tuple[Path, ...]) -> dict[Path, _Result]:
        """Port all files."""
        pending = sources
        for _ in range(_MAX_ROUNDS):
            for source in pending:
                self._port(source)
            pending = tuple(source for source in sources if self._is_stale(source))
            if not pending:
                break
        for source in pending:
            self._results[source] = self._unproved(source)
        return self._results

    def _port(self, source: Path) -> None:
        started = time.monotonic()
        error = self._contents.errors.get(source)
        raw = self._contents.raw[source]
        if error is not None:
            outcome, made = failed(error), None
        else:
            if self._request.verify is not None and b"torch" in raw:
                self._note(f"port and verify {source}")
            outcome, made = port_member(self._project, source, self._proving(source))
        if outcome.error is not None and not self._request.several:
            raise UsageError(
                error_id=outcome.error.id,
                message=outcome.error.message,
                hint=outcome.error.hint,
                file=str(source),
                line=outcome.error.line,
            )
        known = self._results.get(source)
        seconds = time.monotonic() - started + (known.seconds if known else 0.0)
        data = raw if made is None else self._contents.restore(source, outcome.text, made)
        self._results[source] = _Result(outcome=outcome, data=data, seconds=seconds)

    def _is_stale(self, source: Path) -> bool:
        outcome = self._results[source].outcome
        return outcome.error is None and outcome.text != self._project.draft(source).text

    def _unproved(self, source: Path) -> _Result:
        """Take the last draft of a file whose neighbours do not come to rest, without a proof."""
        outcome, made = port_member(self._project, source, None)
        assert made is not None
        data = self._contents.restore(source, outcome.text, made)
        return _Result(outcome=outcome, data=data, seconds=self._results[source].seconds)

    def _proving(self, source: Path) -> Proving | None:
        if self._request.verify is None:
            return None
        in_package = (source.parent / "__init__.py").is_file()
        return Proving(
            verify=self._request.verify,
            prove_script=self._request.prove_script,
            workdir=self._workdir,
            examples=self._request.examples,
            python=sys.executable,
            timeout_s=self._request.timeout_s,
            # A module of a package is found through the package; its folder would shadow names.
            search_path=() if in_package else (source.parent,),
            bench=self._bench,
            drawings=self._request.html is not None,
        )


def _top(paths: tuple[Path, ...]) -> Path:
    """Return the folder that holds everything which is ported."""
    folders = [path if path.is_dir() else path.parent for path in paths]
    top = folders[0]
    while not all(folder.is_relative_to(top) for folder in folders):
        top = top.parent
    return top


def _require_clean(jobs: tuple[Job, ...], contents: Contents, project: Project) -> None:
    changed: dict[Path, tuple[Path, ...]] = {}
    for job in jobs:
        if job.source in contents.errors or project.error(job.source) is not None:
            continue
        made = project.draft(job.source)
        if made.text != made.source.text:
            changed[job.root] = (*changed.get(job.root, ()), job.source)
    require_clean(changed)


def _file_data(request: TreeRequest, job: Job, result: _Result, contents: Contents) -> FileData:
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
    results: dict[Path, _Result],
    contents: Contents,
) -> OutputFile | None:
    """Return what to write for one file: its port, or in a ported folder also the file itself."""
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


def _notices(request: TreeRequest, files: tuple[FileData, ...]) -> tuple[Notice, ...]:
    found = list(_warnings(files))
    for data in files:
        if data.error is not None:
            place = str(data.file) if data.error.line is None else f"{data.file}:{data.error.line}"
            text = f"{place}: {data.error.message}"
            found.append(Notice(id=data.error.id, message=text, hint=data.error.hint))
    if not any(data.classes or data.on_flodl or data.error for data in files):
        folder = ", ".join(f"`{path}`" for path in request.paths)
        found.append(
            Notice(
                id="nothing-to-port",
                message=f"no torch module was found in {folder}",
                hint="name the file that defines the `nn.Module` classes",
            )
        )
    return tuple(found)
