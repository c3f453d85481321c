"""The port of one project's files together: draft all, prove each, and again those that changed."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import final

from fdl_cli.errors import UsageError
from fdl_cli.porter.faster import measure_training
from fdl_cli.porter.ir.findings import FileError, FileOutcome
from fdl_cli.porter.port_file import failed, outcome_of
from fdl_cli.porter.port_loop import (
    Proof,
    Proving,
    class_request,
    is_script,
    ported_classes,
    prove_classes,
    prove_training,
    script_request,
)
from fdl_cli.porter.project import Project
from fdl_cli.porter.sources import Contents
from fdl_cli.porter.tree_request import TreeRequest, common_folder
from fdl_cli.porter.verify_pool import A, Q, VerifyPool
from fdl_cli.porter.workspace import Workspace

# A file whose neighbours changed after it was proved is proved again this often.
_MAX_ROUNDS = 3


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The outcome of one file: the report, its bytes, and the time it took."""

    outcome: FileOutcome
    data: bytes
    seconds: float


@final
class PortRun:
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
        self._note = note
        self._workdir = workdir
        self._bench = Workspace(workdir, common_folder(request.paths)) if request.linked else None
        self._verify = None if request.verify is None else VerifyPool(request.verify, request.jobs)
        script = request.prove_script
        self._script = None if script is None else VerifyPool(script, request.jobs)
        self._provings: dict[Path, Proving] = {}
        self._results: dict[Path, Result] = {}
        self._proofs: dict[Path, Proof] = {}
        self._seconds: defaultdict[Path, float] = defaultdict(float)

    def port(self, sources: tuple[Path, ...]) -> dict[Path, Result]:
        """Port all files.

        Raises:
            UsageError: the only requested file cannot be read.
        """
        for source in sources:
            error = self._contents.errors.get(source) or self._project.error(source)
            if error is not None:
                self._fail(source, error)
        readable = tuple(source for source in sources if source not in self._results)
        # The parts of a file are put right before the file itself is judged.
        order = self._project.imports_first(readable)
        self._provings = self._make_provings(order)
        pending = order
        for _ in range(_MAX_ROUNDS):
            self._proofs.update((source, Proof()) for source in pending)
            self._prove_classes(pending)
            for source in pending:
                self._project.move_training(source)
            self._prove_training(pending)
            self._measure(pending)
            for source in pending:
                self._finish(source)
            pending = tuple(source for source in order if self._is_stale(source))
            if not pending:
                break
        for source in pending:
            # Its neighbours do not come to rest: its last draft is taken, without a proof.
            self._proofs[source] = Proof()
            self._finish(source)
        return self._results

    def _prove_classes(self, sources: tuple[Path, ...]) -> None:
        asked = [
            (source, class_request(self._project, source, self._provings[source]))
            for source in sources
            if source in self._provings and ported_classes(self._project.draft(source))
        ]
        if self._verify is not None:
            self._ask(self._verify, asked, "verify", "verified")
        for source, _ in asked:
            if not self._at_once(asked):
                self._note(f"port and verify {source}")
            with self._timed(source):
                proving = self._provings[source]
                self._proofs[source] = prove_classes(self._project, source, proving)

    def _prove_training(self, sources: tuple[Path, ...]) -> None:
        asked = [
            (source, script_request(self._project, source, self._provings[source]))
            for source in sources
            if source in self._provings
            and is_script(self._project, source, self._provings[source])
        ]
        if self._script is not None:
            self._ask(self._script, asked, "run", "ran")
        for source, _ in asked:
            if not self._at_once(asked):
                self._note(f"run {source} before and after")
            with self._timed(source):
                proving, known = self._provings[source], self._proofs[source]
                self._proofs[source] = prove_training(self._project, source, proving, known)

    def _measure(self, sources: tuple[Path, ...]) -> None:
        """Measure one script after the other: several at once would slow each other."""
        for source in sources:
            if self._request.measure is None or source not in self._provings:
                continue
            self._note(f"measure the training step of {source}")
            with self._timed(source):
                proving, known = self._provings[source], self._proofs[source]
                self._proofs[source] = measure_training(self._project, source, proving, known)

    def _at_once(self, asked: Sequence[object]) -> bool:
        return self._request.jobs > 1 and len(asked) > 1

    def _ask(
        self, desk: VerifyPool[Q, A], asked: list[tuple[Path, Q]], verb: str, done: str
    ) -> None:
        """Find the first answers to several questions, and say how far this is."""
        if self._at_once(asked):
            at_once = min(self._request.jobs, len(asked))
            self._note(f"{verb} {len(asked)} files, {at_once} at once")
        names = {question.original: source for source, question in asked}
        for number, question in enumerate(desk.ask([question for _, question in asked]), 1):
            self._note(f"{done} {names[question.original]}: {number} of {len(asked)}")

    @contextmanager
    def _timed(self, source: Path) -> Iterator[None]:
        """Count the time of a file, the answers included that were found before."""
        desks = [desk for desk in (self._verify, self._script) if desk is not None]
        started, saved = time.monotonic(), sum(desk.saved_s for desk in desks)
        yield
        saved = sum(desk.saved_s for desk in desks) - saved
        self._seconds[source] += time.monotonic() - started + saved

    def _finish(self, source: Path) -> None:
        asked = source in self._provings
        with self._timed(source):
            outcome = outcome_of(self._project, source, self._proofs[source], asked=asked)
            made = self._project.draft(source).data
            data = self._contents.restore(source, outcome.text, made)
        self._results[source] = Result(outcome=outcome, data=data, seconds=self._seconds[source])

    def _fail(self, source: Path, error: FileError) -> None:
        if not self._request.several:
            raise UsageError(
                error_id=error.id,
                message=error.message,
                hint=error.hint,
                file=str(source),
                line=error.line,
            )
        data = self._contents.raw[source]
        self._results[source] = Result(outcome=failed(error), data=data, seconds=0.0)

    def _is_stale(self, source: Path) -> bool:
        return self._results[source].outcome.text != self._project.draft(source).text

    def _make_provings(self, sources: tuple[Path, ...]) -> dict[Path, Proving]:
        """Say how each file is proved; each has a separate working folder."""
        if self._verify is None:
            return {}
        found = {}
        for number, source in enumerate(sources):
            workdir = self._workdir / str(number)
            workdir.mkdir()
            in_package = (source.parent / "__init__.py").is_file()
            found[source] = Proving(
                verify=self._verify,
                prove_script=self._script,
                workdir=workdir,
                examples=self._request.examples,
                python=self._request.python,
                timeout_s=self._request.timeout_s,
                # A module of a package is found through the package; its folder would shadow names.
                search_path=() if in_package else (source.parent,),
                workspace=self._bench,
                drawings=self._request.html is not None,
                measure=self._request.measure,
            )
        return found
