"""Findings of a port: reasons, the outcome of each class and of each file."""

from dataclasses import dataclass
from typing import Literal, final

from flodl_verify.protocol import ClassEvidence, Equality

ClassStatus = Literal["graph", "partial", "kept"]
VerifyStatus = Literal["equal", "close", "different", "not-run"]
VerifyReason = Literal["time", "no-inputs", "not-asked", "does-not-run", "not-compared"]
# A fused optimizer is faster; it gains nothing; it is not known to come to the same weights; or it was
# not measured.
SpeedStatus = Literal["faster", "no-gain", "different", "not-measured"]
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

    `reasons` say why a loop was not moved as far as requested; `offer` names a gain that was not asked for.
    """

    kind: str
    line: int
    action: str
    name: str
    reasons: tuple[Reason, ...] = ()
    offer: str = ""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedFinding:
    """The gain of a fused optimizer over the script's own step, as `--fast` measured it.

    `own_ms` and `fused_ms` are medians of a step in milliseconds, on `threads` threads of the CPU; `ratio` is
    the median of own to fused. `equality` compares the weights after `steps` steps of both: `difference` is
    their distance in relation to their size (roots of sums of squares), and `rounding` that of weights which
    were rounded once more in each step. Each is None where it was not measured.
    `detail`, `proof`, `action` and `compiled` are sentences: the gain, the comparison, what was written or is
    to be done, and why no compiled step was measured. `written` is whether the port uses the fused kernel.
    """

    status: SpeedStatus
    detail: str
    proof: str = ""
    action: str = ""
    compiled: str = ""
    optimizer: str = ""
    own_ms: float | None = None
    fused_ms: float | None = None
    ratio: float | None = None
    equality: Equality | None = None
    difference: float | None = None
    rounding: float | None = None
    steps: int = 0
    threads: int | None = None
    written: bool = False


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
    speed: SpeedFinding | None = None
