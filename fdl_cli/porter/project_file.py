"""One file among those that are ported together."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import final

from fdl_cli.porter.ir.findings import Reason
from fdl_cli.porter.ir.symbols import ScriptIR
from fdl_cli.porter.ir.training import TrainingLevel
from fdl_cli.porter.lower.class_hierarchy import ClassHierarchy, Survey
from fdl_cli.porter.parse.reader import SourceFile
from fdl_cli.porter.pipeline import Draft

Class = tuple[Path, str]


@final
@dataclass(slots=True)
class PortedFile:
    """One file of the project and the decisions about it so far; `draft` is its last one.

    `fused` are the optimizers whose fused kernels its builders may use.
    """

    source: SourceFile
    survey: Survey
    relatives: dict[str, Class] = field(default_factory=dict)
    hierarchy: ClassHierarchy = field(default_factory=ClassHierarchy)
    script: ScriptIR | None = None
    cautious: frozenset[str] = frozenset()
    demoted: dict[str, Reason] = field(default_factory=dict)
    draft: Draft | None = None
    kept: frozenset[str] = frozenset()
    extended: frozenset[str] = frozenset()
    level: TrainingLevel = "keep"
    fused: frozenset[str] = frozenset()
