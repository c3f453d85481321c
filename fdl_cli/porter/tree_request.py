"""Request of a run of `fdl port`."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import final

from fdl_cli.porter.ir.training import TrainingLevel
from fdl_cli.porter.port_loop import Measure, ProveScript, Verify


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TreeRequest:
    """The files to port and where to put them; without `output` and `in_place`, beside each source.

    `jobs` is how many files are compared with their ports at once, `python` runs both. `installed` are the
    folders of its packages, in which bases of classes are looked for. `measure` is given where the gain of
    fused optimizers is requested.
    """

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
    jobs: int = 1
    python: str = sys.executable
    installed: tuple[Path, ...] = ()
    measure: Measure | None = None

    @property
    def several(self) -> bool:
        """Whether a folder or more than one file is ported."""
        return len(self.paths) != 1 or self.paths[0].is_dir()

    @property
    def linked(self) -> bool:
        """Whether the ports find each other; beside their sources, they import the sources."""
        return self.several and (self.in_place or self.output is not None)


def common_folder(paths: tuple[Path, ...]) -> Path:
    """Return the folder that holds everything which is ported."""
    folders = [path if path.is_dir() else path.parent for path in paths]
    top = folders[0]
    while not all(folder.is_relative_to(top) for folder in folders):
        top = top.parent
    return top
