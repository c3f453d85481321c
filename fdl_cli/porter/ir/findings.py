"""Findings of a port: reasons, the outcome of each class and of each file."""

from dataclasses import dataclass
from typing import Literal, final

from flodl_verify.protocol import ClassEvidence

ClassStatus = Literal["graph", "partial", "kept"]
VerifyStatus = Literal["equal", "close", "different", "not-run"]
VerifyReason = Literal["time", "no-inputs", "not-asked", "does-not-run", "not-compared"]
FileStatus = Literal["ported", "partly", "unchanged", "failed"]


@final
@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Reason:
    """The reason why something was not ported: the line, a stable code and one sentence."""

    line: int
    code: str
    message: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyFinding:
    """The degree of proof of a class, and in words.

    `reason` says why the status is `not-run`. It is None for a class that was kept, and for one that has
    no own forward: it is proved with those that extend it.
    """

    status: VerifyStatus
    detail: str
    reason: VerifyReason | None = None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ClassOutcome:
    """The outcome of one class or module-level value."""

    name: str
    line: int
    status: ClassStatus
    ops_total: int
    ops_in_graph: int
    reasons: tuple[Reason, ...]
    verify: VerifyFinding


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingFinding:
    """One recognised block of training code (`name` is its call), and its outcome.

    `reasons` say why a loop was not moved as far as requested.
    """

    kind: str
    line: int
    action: str
    name: str
    reasons: tuple[Reason, ...] = ()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptFinding:
    """The result of running the whole script and its port: `losses` are those of its first steps.

    `source_runs` is False when the script itself ends with an error before it trains.
    """

    status: VerifyStatus
    detail: str
    steps: int
    losses: tuple[float, ...]
    source_runs: bool


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FileWarning:
    """Something about a file which does not change the outcome."""

    id: str
    message: str
    hint: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FileError:
    """The reason why a file could not be ported at all."""

    id: str
    message: str
    hint: str
    line: int | None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FileOutcome:
    """The outcome of one file; `text` is the port, equal to the input when nothing changed.

    `on_flodl` are the classes that were on the runtime already; `evidence` has every check.
    `sufficient_timeout` are seconds that are enough for the proof, where the given ones were not.
    """

    status: FileStatus
    text: str
    classes: tuple[ClassOutcome, ...]
    on_flodl: tuple[str, ...]
    training: tuple[TrainingFinding, ...]
    warnings: tuple[FileWarning, ...]
    error: FileError | None
    plan: str
    ir: str
    script: ScriptFinding | None = None
    source: str = ""
    evidence: tuple[ClassEvidence, ...] = ()
    sufficient_timeout: int | None = None
