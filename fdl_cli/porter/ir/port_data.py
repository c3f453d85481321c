"""The payload of `fdl port --json`: one entry per file, with every class, reason and proof."""

from dataclasses import dataclass
from pathlib import Path
from typing import final

from fdl_cli.porter.ir.findings import (
    ClassOutcome,
    FileError,
    FileStatus,
    FileWarning,
    ScriptFinding,
    SpeedFinding,
    TrainingFinding,
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FileData:
    """The outcome of one file; `output` is where the port was (or would be) written, if anywhere.

    `on_flodl` are the classes that were on the runtime already, and are left as they are.
    `sufficient_timeout` are seconds for `--timeout` that are enough, where the given ones were not.
    `text` is the program to print, where it came from standard input. `speed` is the measurement of `--fast`.
    """

    file: Path
    output: Path | None
    status: FileStatus
    classes: tuple[ClassOutcome, ...]
    on_flodl: tuple[str, ...]
    training: tuple[TrainingFinding, ...]
    script: ScriptFinding | None
    warnings: tuple[FileWarning, ...]
    error: FileError | None
    seconds: float
    diff: str | None
    plan: str | None
    summary: tuple[str, ...]
    sufficient_timeout: int | None = None
    text: str | None = None
    speed: SpeedFinding | None = None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The meaning of a reason code, and the remedy for a person or an assistant."""

    code: str
    title: str
    advice: str
    scope: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PortData:
    """The outcome of every file, in the order of their paths; or the reasons that `--explain` names.

    `totals` count over all files how far the classes are proved, and say what to type for the rest.
    """

    files: tuple[FileData, ...]
    explanations: tuple[Explanation, ...] = ()
    totals: tuple[str, ...] = ()

    def exit_code(self, *, check: bool, strict: bool, verified: bool) -> int:
        """Return 0, 1 when something was found, 2 when an input cannot be read.

        A class that was different and is kept now is no difference any more: it is as it was.
        """
        if any(file.status == "failed" for file in self.files):
            return 2
        classes = [item for file in self.files for item in file.classes]
        if any(item.verify.status == "different" for item in classes):
            return 1
        if any(
            file.script is not None and file.script.status == "different" for file in self.files
        ):
            return 1
        if check and any(file.status != "unchanged" for file in self.files):
            return 1
        if strict and any(item.status != "graph" for item in classes):
            return 1
        proved = all(item.verify.status == "equal" for item in classes)
        return 1 if strict and verified and not check and not proved else 0
