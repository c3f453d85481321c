"""Questions and results of a verification, as plain values that cross the process border.

The parent (`fdl_cli.porter.verify`) turns a `VerifyRequest` into a task for a server of proofs
(`flodl_verify.verify_session`), which knows torch, and reads the answer back as a `VerifyOutcome`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

from flodl_verify.protocol import ClassEvidence, Equality, Status

if TYPE_CHECKING:
    from pathlib import Path


def digest_of(data: bytes) -> str:
    """Return the digest by which the text of a port is known."""
    return hashlib.sha256(data).hexdigest()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyRequest:
    """One ported file to be compared with its original.

    `classes` are top-level names of the original: classes, or module-level values to be ported.
    `search_path` are folders where sibling modules are found besides the two files' own folders;
    `ported_search_path` comes before it on the port's side, and holds ported siblings.
    With `drawings` on, the evidence comes with pictures.
    `workdir` is an existing folder for what the tool itself keeps; the programs cannot write there.
    `ported_sha256` is the digest of the text that is to be proved: a file with another text is not run.
    """

    original: Path
    ported: Path
    classes: tuple[str, ...]
    examples: tuple[str, ...]
    python: str
    timeout_s: float
    workdir: Path
    search_path: tuple[Path, ...]
    ported_search_path: tuple[Path, ...] = ()
    drawings: bool = False
    ported_sha256: str = ""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyOutcome:
    """One `ClassEvidence` for every requested name, in that order.

    `source_runs` is False when the original itself cannot be imported; `error` is then its own.
    `sufficient_s` is a limit of time that is enough for all classes, where the given one was not.
    """

    classes: tuple[ClassEvidence, ...]
    source_runs: bool
    error: str | None
    seconds: float
    sufficient_s: int | None = None

    @property
    def different(self) -> tuple[str, ...]:
        """Names of the classes whose port computes something else than the original."""
        return tuple(item.name for item in self.classes if item.status == "different")

    @property
    def differs(self) -> bool:
        """Whether there is such a class."""
        return bool(self.different)

    def unproved(self, error: str, code: str) -> VerifyOutcome:
        """Return an outcome that proves nothing, for a reason that concerns all classes."""
        return replace(
            self,
            classes=tuple(
                ClassEvidence(
                    name=item.name,
                    status="not-run",
                    detail=error,
                    checks=(),
                    example="",
                    error_code=code,
                    line=None,
                    reason="not-compared",
                )
                for item in self.classes
            ),
            error=error,
        )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptRequest:
    """A script and its port, to be run as wholes; the folders are as in a `VerifyRequest`.

    With `rounding` on, losses that differ by last bits are `close`, not `different`.
    """

    original: Path
    ported: Path
    python: str
    timeout_s: float
    workdir: Path
    search_path: tuple[Path, ...]
    ported_search_path: tuple[Path, ...] = ()
    ported_sha256: str = ""
    rounding: bool = False


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptOutcome:
    """The result of two runs under one seed: the losses of `steps` optimizer steps, and the weights.

    `source_runs` is False when the original itself ends with an error before it trains.
    """

    status: Status
    detail: str
    steps: int
    losses: tuple[float, ...]
    source_runs: bool
    seconds: float

    @property
    def differs(self) -> bool:
        """Whether the port trains differently."""
        return self.status == "different"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedOutcome:
    """The seconds of a script's own steps and of those with fused optimizers, taken by turns.

    `equality` compares the weights after `steps` steps of both; None means that they were not compared.
    `difference` is their distance in relation to their size, `rounding` that of weights which were rounded
    once more in each step. `kernels` say for each optimizer what it used: `fused AdamW`, `already AdamW` or
    `none RMSprop`. `threads` are those of the CPU. `trouble` is empty, or what kept the steps from being
    measured: `time`, `finished` (it trains nothing), `copy: ...` (an error after the first step) or the
    error of the script, with its `line`.
    """

    own: tuple[float, ...] = ()
    fused: tuple[float, ...] = ()
    equality: Equality | None = None
    difference: float = 0.0
    rounding: float = 0.0
    steps: int = 0
    kernels: tuple[str, ...] = ()
    threads: int = 1
    stubs: str = ""
    trouble: str = ""
    line: int | None = None
    limit_s: float = 0.0
