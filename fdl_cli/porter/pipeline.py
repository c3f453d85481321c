"""The order of the stages for one file: read, analyse, plan, emit, check; and nothing else."""

import codecs
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import final

from fdl_cli.porter.emit.training import with_policy, with_training
from fdl_cli.porter.emit.write import Written, write
from fdl_cli.porter.ir.edits import ClassPlan, PortPlan
from fdl_cli.porter.ir.findings import Reason
from fdl_cli.porter.ir.symbols import ScriptIR
from fdl_cli.porter.ir.training import LOWER, LoopIR, TrainingLevel
from fdl_cli.porter.lower.file_facts import import_place
from fdl_cli.porter.lower.script import analyse
from fdl_cli.porter.parse.reader import SourceFile, read
from fdl_cli.porter.plan.decide import decide, only
from fdl_cli.porter.trainer.loops import training_loops
from fdl_cli.porter.trainer.team_loops import team_port


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A port that is not verified yet; `text` equals the source when there is nothing to port."""

    source: SourceFile
    script: ScriptIR
    plan: PortPlan
    text: str
    data: bytes
    loops: tuple[LoopIR, ...] = ()
    level: TrainingLevel = "keep"


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
    broken = {
        item.name: Reason(line=item.line, code="FDL209", message=fault)
        for item, fault in _faulty(source, script, plan, plan.classes)
    }
    if not broken:  # each half is sound alone: only all of them together are to blame
        broken = {
            item.name: Reason(line=item.line, code="FDL209", message=made.fault)
            for item in plan.classes
            if item.status != "kept"
        }
    return draft(source, script, {**demoted, **broken})


def _faulty(
    source: SourceFile, script: ScriptIR, plan: PortPlan, classes: tuple[ClassPlan, ...]
) -> Iterator[tuple[ClassPlan, str]]:
    """Yield the classes whose edits damage the file: by halves, as a file may have hundreds."""
    made = write(source, script, only(plan, frozenset(item.name for item in classes)))
    if isinstance(made, Written):
        return
    if len(classes) == 1:
        yield classes[0], made.fault
        return
    middle = len(classes) // 2
    for half in (classes[:middle], classes[middle:]):
        yield from _faulty(source, script, plan, half)


def move_training(
    made: Draft, level: TrainingLevel, *, fused: frozenset[str] = frozenset()
) -> Draft:
    """Move the training loops of a drafted port onto `Trainer`, as far as they can.

    `fused` are the optimizers whose fused kernels builders may use, with other last bits.
    """
    if level == "keep":
        return made
    source = read(made.data)
    team = team_port(source) if level == "builder" else None
    loops = training_loops(source) if team is None else team.loops
    loops = _fused(loops, fused)
    target = source if team is None else team.source
    text = with_training(target, loops, import_place(target), level)
    if team is not None and team.moved:
        text = with_policy(text)
    bom = codecs.BOM_UTF8 if made.data.startswith(codecs.BOM_UTF8) else b""
    data = bom + text.removeprefix("\ufeff").encode(source.module.encoding.removesuffix("-sig"))
    try:
        # Not only parsed: the compiler decides the scope of a name.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, "port", "exec", dont_inherit=True)
    except SyntaxError:
        return move_training(made, LOWER[level], fused=fused)
    return replace(made, text=text, data=data, loops=loops, level=level)


def _fused(loops: tuple[LoopIR, ...], kernels: frozenset[str]) -> tuple[LoopIR, ...]:
    """Let builders use fused kernels; of several loops, those whose optimizer is one of them."""
    built = [loop.built for loop in loops if loop.built is not None]
    if not kernels:
        return loops
    alone = len(built) == 1
    return tuple(
        loop.fused()
        if loop.built is not None and (alone or loop.built.kernel in kernels)
        else loop
        for loop in loops
    )
