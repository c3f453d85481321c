"""Proof that two given files are equal: the second half of a port, by itself."""

import ast
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import final

from fdl_cli.errors import NotFoundError, UsageError
from fdl_cli.porter.ir.evidence import VerifyOutcome, VerifyRequest, digest_of
from fdl_cli.porter.ir.findings import ClassOutcome, FileWarning, VerifyFinding
from fdl_cli.porter.ir.port_data import FileData
from fdl_cli.porter.port_loop import Verify
from fdl_cli.porter.report.proofs import reason_words
from flodl_verify.protocol import NO_MODULE, ClassEvidence


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRequest:
    """An original and its port, and how to compare them."""

    original: Path
    ported: Path
    verify: Verify
    examples: tuple[str, ...]
    timeout_s: float
    python: str = sys.executable


def compare_files(request: ComparisonRequest) -> FileData:
    """Run both files side by side and report every class of the port.

    Raises:
        UsageError: a file cannot be read as Python.
        NotFoundError: the port has no class that the original has too.
    """
    started = time.monotonic()
    (before, _, _), (after, imported, digest) = map(_classes, (request.original, request.ported))
    names = tuple(name for name in after if name in before and _is_model(name, after, imported))
    if not names:
        raise _nothing_to_verify(request)
    outcome = _run(request, names, digest)
    found = [item for item in outcome.classes if item.error_code != NO_MODULE]
    classes = tuple(_outcome(item, after) for item in found)
    if outcome.classes and not found:
        raise _nothing_to_verify(request)
    return FileData(
        file=request.original,
        output=request.ported,
        status="ported",
        classes=classes,
        on_flodl=(),
        training=(),
        script=None,
        warnings=_warnings(outcome),
        error=None,
        seconds=time.monotonic() - started,
        diff=None,
        plan=None,
        summary=tuple(_line(request.ported, item) for item in classes),
        sufficient_timeout=outcome.sufficient_s,
    )


def _nothing_to_verify(request: ComparisonRequest) -> NotFoundError:
    return NotFoundError(
        error_id="nothing-to-verify",
        message=f"`{request.ported.name}` has no model class that `{request.original.name}` has",
        hint="classes are compared by name: give the port the original's names",
        file=str(request.ported),
    )


def _run(request: ComparisonRequest, names: tuple[str, ...], digest: str) -> VerifyOutcome:
    folders = dict.fromkeys((request.original.parent, request.ported.parent))
    with tempfile.TemporaryDirectory() as folder:
        return request.verify(
            VerifyRequest(
                original=request.original,
                ported=request.ported,
                classes=names,
                examples=request.examples,
                python=request.python,
                timeout_s=request.timeout_s,
                workdir=Path(folder),
                search_path=tuple(folders),
                ported_sha256=digest,
            )
        )


def _regular(path: Path) -> bytes:
    if path.exists() and not path.is_file():
        raise OSError("it is no regular file")  # a pipe would wait for its writer
    return path.read_bytes()


def _classes(path: Path) -> tuple[dict[str, ast.ClassDef], frozenset[str], str]:
    """Return the classes of a file, the names that it imports, and the digest of its text."""
    try:
        data = _regular(path)
        tree = ast.parse(data, str(path))
    except (OSError, SyntaxError, ValueError) as problem:
        raise UsageError(
            error_id="verify-unreadable",
            message=f"cannot read `{path}` as Python: {problem}",
            hint="name the original first, then its port: `fdl port --verify-only OLD NEW`",
            file=str(path),
        ) from problem
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = (alias.asname or alias.name for node in imports for alias in node.names)
    return classes, frozenset(name.partition(".")[0] for name in names), digest_of(data)


def _is_model(name: str, classes: dict[str, ast.ClassDef], imported: frozenset[str]) -> bool:
    """Return True if a class may be a torch module; an imported base is known only by running it."""
    for base in classes[name].bases:
        text = ast.unparse(base)
        word = text.rpartition(".")[2]
        if word in ("FlowModule", "Graph", "Module"):
            return True
        if word in classes and word != name and _is_model(word, classes, imported):
            return True
        if word not in classes and text.partition(".")[0] in imported:
            return True
    return False


def _outcome(item: ClassEvidence, classes: dict[str, ast.ClassDef]) -> ClassOutcome:
    node = classes[item.name]
    described = any(
        isinstance(part, ast.FunctionDef) and part.name == "flow" for part in node.body
    )
    return ClassOutcome(
        name=item.name,
        line=item.line or node.lineno,
        status="graph" if described else "kept",
        ops_total=0,
        ops_in_graph=0,
        reasons=(),
        verify=VerifyFinding(status=item.status, detail=item.detail, reason=item.reason),
    )


def _warnings(outcome: VerifyOutcome) -> tuple[FileWarning, ...]:
    if outcome.error is None:
        return ()
    what = "the port could not be compared" if outcome.source_runs else "the original does not run"
    return (
        FileWarning(
            id="verify-failed" if outcome.source_runs else "source-does-not-run",
            message=f"{what}: {outcome.error}",
            hint="run both files by themselves first",
        ),
    )


def _line(ported: Path, item: ClassOutcome) -> str:
    detail = f": {item.verify.detail}" if item.verify.detail else ""
    reason = reason_words(item)
    state = f"not verified ({reason})" if reason else item.verify.status
    return f"{ported.name}:{item.line}  {item.name}  {state}{detail}"
