"""Port files and folders: find the sources, port each by itself, and write what came out."""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import final

from fdl_cli.errors import ConflictError, Notice, UsageError
from fdl_cli.porter.ir.findings import FileOutcome
from fdl_cli.porter.ir.port_data import FileData, PortData
from fdl_cli.porter.parse.reader import decode
from fdl_cli.porter.port_file import Proving, Verify, port_file
from fdl_cli.porter.report.diff import unified
from fdl_cli.porter.report.summary import summary_lines

_SKIPPED_FOLDERS = frozenset({"__pycache__", "node_modules", "build", "dist", "site-packages"})
_SUFFIX = "_flodl"


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
    examples: tuple[str, ...]
    timeout_s: float
    want_diff: bool
    want_plan: bool


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """One file to port, and where its port goes."""

    source: Path
    target: Path


def port_tree(
    request: TreeRequest, note: Callable[[str], None]
) -> tuple[PortData, tuple[Notice, ...]]:
    """Port everything that was asked for.

    Raises:
        UsageError: a path is missing or unreadable, or the options do not fit together.
        ConflictError: an output exists already and differs.
    """
    _check(request)
    jobs = [job for path in request.paths for job in _jobs(request, path)]
    several = len(jobs) > 1 or any(path.is_dir() for path in request.paths)
    results = [_port(request, job, note, several=several) for job in jobs]
    if request.write:
        _write(request, results)
    files = tuple(data for data, _ in results)
    return PortData(files=files), _notices(request, files)


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


def _jobs(request: TreeRequest, path: Path) -> Iterator[_Job]:
    if path.is_file():
        yield _Job(source=path, target=_target(request, path, path.name))
        return
    found = False
    for source in sorted(_sources(path)):
        found = True
        yield _Job(source=source, target=_target(request, source, str(source.relative_to(path))))
    if not found:
        raise UsageError(
            error_id="folder-empty",
            message=f"there is no Python file in `{path}`",
            hint="give a folder that holds `.py` files",
            file=str(path),
        )


def _sources(folder: Path) -> Iterator[Path]:
    for root, folders, files in os.walk(folder):
        folders[:] = [
            name for name in folders if name not in _SKIPPED_FOLDERS and not name.startswith(".")
        ]
        if "pyvenv.cfg" in files:
            folders[:] = []
            continue
        yield from (Path(root) / name for name in files if name.endswith(".py"))


def _target(request: TreeRequest, source: Path, relative: str) -> Path:
    if request.in_place:
        return source
    if request.output is None:
        return source.with_name(f"{source.stem}{_SUFFIX}{source.suffix}")
    single = len(request.paths) == 1 and request.paths[0].is_file()
    if single and not request.output.is_dir():
        return request.output
    return request.output / relative


def _port(
    request: TreeRequest, job: _Job, note: Callable[[str], None], *, several: bool
) -> tuple[FileData, bytes]:
    started = time.monotonic()
    data = _read(job.source)
    if request.verify is not None and b"torch" in data:
        note(f"port and verify {job.source}")
    with tempfile.TemporaryDirectory(prefix="fdl-port-") as folder:
        outcome, made = port_file(data, job.source, _proving(request, job, Path(folder)))
    if outcome.error is not None and not several:
        raise UsageError(
            error_id=outcome.error.id,
            message=outcome.error.message,
            hint=outcome.error.hint,
            file=str(job.source),
            line=outcome.error.line,
        )
    return _file_data(request, job, outcome, data, time.monotonic() - started), made


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as problem:
        raise UsageError(
            error_id="path-unreadable",
            message=f"`{path}` cannot be read: {problem.strerror}",
            hint="check the permissions",
            file=str(path),
        ) from problem


def _proving(request: TreeRequest, job: _Job, folder: Path) -> Proving | None:
    if request.verify is None:
        return None
    return Proving(
        verify=request.verify,
        workdir=folder,
        examples=request.examples,
        python=sys.executable,
        timeout_s=request.timeout_s,
        # A module of a package is found through the package; its folder would shadow names.
        search_path=() if (job.source.parent / "__init__.py").is_file() else (job.source.parent,),
    )


def _file_data(
    request: TreeRequest, job: _Job, outcome: FileOutcome, data: bytes, seconds: float
) -> FileData:
    changed = outcome.status in {"ported", "partly"}
    output = job.target if changed else None
    diff = None
    if request.want_diff and changed:
        diff = unified(decode(data), outcome.text, str(job.source), str(job.target))
    plan = f"{outcome.ir}\n{outcome.plan}\n" if request.want_plan else None
    written = str(job.target) if changed and request.write else None
    return FileData(
        file=job.source,
        output=output,
        status=outcome.status,
        classes=outcome.classes,
        on_flodl=outcome.on_flodl,
        training=outcome.training,
        warnings=outcome.warnings,
        error=outcome.error,
        seconds=round(seconds, 3),
        diff=diff,
        plan=plan,
        summary=tuple(summary_lines(str(job.source), outcome, written)),
    )


def _write(request: TreeRequest, results: list[tuple[FileData, bytes]]) -> None:
    """Write all outputs, or none: conflicts are found first and listed together."""
    wanted = [(data.output, made) for data, made in results if data.output is not None]
    conflicts = [
        path
        for path, made in wanted
        if path.exists() and not request.in_place and not request.force and not _same(path, made)
    ]
    if conflicts:
        raise ConflictError(
            error_id="output-exists",
            message=f"`{conflicts[0]}` exists and is different",
            hint="overwrite it with --force, or choose another output with -o",
            file=str(conflicts[0]),
            causes=tuple(f"so does `{path}`" for path in conflicts[1:]),
        )
    for path, made in wanted:
        if not (path.exists() and _same(path, made)):
            _replace(path, made)


def _same(path: Path, made: bytes) -> bool:
    return path.is_file() and path.read_bytes() == made


def _replace(path: Path, made: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = path.stat().st_mode if path.exists() else None
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        beside.write_bytes(made)
        if mode is not None:
            beside.chmod(mode)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def _notices(request: TreeRequest, files: tuple[FileData, ...]) -> tuple[Notice, ...]:
    found = [
        Notice(id=item.id, message=f"{data.file}: {item.message}", hint=item.hint)
        for data in files
        for item in data.warnings
    ]
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
