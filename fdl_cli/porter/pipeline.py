"""The order of the stages for one file: read, analyse, plan, emit, check; and nothing else."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from fdl_cli.porter.analyse.script import analyse
from fdl_cli.porter.emit.write import Written, write
from fdl_cli.porter.ir.edits import PortPlan
from fdl_cli.porter.ir.findings import Reason
from fdl_cli.porter.ir.symbols import ScriptIR
from fdl_cli.porter.parse.reader import SourceFile, read
from fdl_cli.porter.plan.decide import decide, only


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A port that is not verified yet; `text` equals the source when there is nothing to port."""

    source: SourceFile
    script: ScriptIR
    plan: PortPlan
    text: str
    data: bytes


def understand(data: bytes) -> tuple[SourceFile, ScriptIR]:
    """Read and analyse one file.

    Raises:
        UnreadableError: the bytes are not Python.
    """
    source = read(data)
    return source, analyse(source)


def draft(source: SourceFile, script: ScriptIR, demoted: Mapping[str, Reason]) -> Draft:
    """Plan and write the port; a class whose edits would damage the file is kept instead."""
    plan = decide(script, demoted)
    made = write(source, script, plan)
    if isinstance(made, Written):
        return Draft(source=source, script=script, plan=plan, text=made.text, data=made.data)
    broken = dict(demoted)
    for item in plan.classes:
        alone = write(source, script, only(plan, item.name))
        if not isinstance(alone, Written):
            broken[item.name] = Reason(line=item.line, code="FDL209", message=alone.fault)
    assert len(broken) > len(demoted), "a fault of the file is a fault of one of its classes"
    return draft(source, script, broken)
