"""The port of one file as bytes: new text for each edit, the new tree, and the checks."""

from dataclasses import dataclass
from typing import final

from fdl_cli.porter.emit.apply import Patch, patches_of
from fdl_cli.porter.emit.assemble import UnsoundError, assemble
from fdl_cli.porter.emit.soundness import find_faults
from fdl_cli.porter.ir.edits import PortPlan
from fdl_cli.porter.ir.symbols import ScriptIR
from fdl_cli.porter.parse.reader import SourceFile


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A port that passed the checks, as text and as the bytes of a file."""

    text: str
    data: bytes
    patches: tuple[Patch, ...]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Unsound:
    """The reason why a plan must not be written as it is."""

    fault: str


def write(source: SourceFile, script: ScriptIR, plan: PortPlan) -> Written | Unsound:
    """Write a port; the bytes outside its edits are those of the source."""
    patches = patches_of(source, script, plan)
    try:
        made = assemble(source, patches)
    except UnsoundError as problem:
        return Unsound(fault=str(problem))
    text = made.code
    faults = find_faults(source, made, text, patches) if patches else ()
    if faults:
        return Unsound(fault=faults[0])
    return Written(text=text, data=text.encode(made.encoding), patches=patches)
