"""Training loops of a script for several processes, moved to a builder for all devices.

Example: the loop of a `torchrun` script gets `.devices("all")` and `.policy(ApplyPolicy.Sync)`. Each
update of `DistributedDataParallel` has one batch of every process, and their gradients are averaged.
So the builder averages `.accumulate(n)` batches, with n as the launcher says it.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, final

from fdl_cli.porter.ir.findings import Reason
from fdl_cli.porter.ir.training import BuiltIR, LoopIR
from fdl_cli.porter.parse.reader import SourceFile
from fdl_cli.porter.trainer.loops import training_loops
from fdl_cli.porter.trainer.team_script import (
    epoch_loops,
    is_team_script,
    plain_script,
    refuse_hidden,
)
from fdl_cli.porter.trainer.training_step import NotMovedError, is_method

_CALLS: Final = (
    "# An update of DistributedDataParallel averages one batch of each process.",
    '.accumulate(int(os.environ.get("WORLD_SIZE", "1")))',
    '.devices("all")',
    ".policy(ApplyPolicy.Sync)",
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TeamPort:
    """The script that is written to, and its loops; `original` are these with the lines they had."""

    source: SourceFile
    loops: tuple[LoopIR, ...]
    original: tuple[LoopIR, ...]
    moved: bool


def team_port(source: SourceFile) -> TeamPort | None:
    """Return how a script for several processes moves to builders; nothing for other scripts.

    Either all of its loops move or it stays as it is: a half would train in one process.
    """
    if not is_team_script(source):
        return None
    found = training_loops(source)
    try:
        refuse_hidden(source)
        epochs = epoch_loops(source)
        _refuse_steps(source, found)
        plain = plain_script(source)
        loops = tuple(_on_all(loop) for loop in training_loops(plain))
        _refuse_rest(loops, found, len(epochs))
    except NotMovedError as problem:
        stays = tuple(_staying(loop, problem) for loop in found)
        return TeamPort(source=source, loops=stays, original=stays, moved=False)
    original = tuple(
        replace(loop, built=replace(new.built, taken=old.taken), not_built=None)
        for loop, new in zip(found, loops, strict=True)
        if new.built is not None
        for old in [loop.setup or new.built]
    )
    return TeamPort(source=plain, loops=loops, original=original, moved=True)


def _staying(loop: LoopIR, problem: NotMovedError) -> LoopIR:
    line = problem.line or loop.line
    reason = Reason(line=line, code=problem.code, message=problem.message)
    return replace(loop, setup=None, not_set_up=reason, built=None, not_built=reason)


def _on_all(loop: LoopIR) -> LoopIR:
    if loop.built is None:
        return loop
    return replace(loop, built=replace(loop.built, calls=tuple(_calls(loop.built))))


def _calls(built: BuiltIR) -> Iterator[str]:
    for call in built.calls:
        # Each process trains on the device of its number, so the script's device goes away.
        if call.startswith(".device("):
            yield from _CALLS
        else:
            yield call


def _refuse_rest(loops: tuple[LoopIR, ...], found: tuple[LoopIR, ...], epochs: int) -> None:
    """Refuse a script with a loop that would stay, or whose epochs the builder does not count."""
    if not loops or len(loops) != len(found):
        raise NotMovedError("FDL428", "a training loop of it is not found again")
    for old, loop in zip(found, loops, strict=True):
        if loop.built is None:
            first = loop.not_built
            assert first is not None
            problem = NotMovedError(first.code, first.message)
            problem.line = old.line
            raise problem
        if epochs and ".num_epochs(1)" in loop.built.calls:
            problem = NotMovedError("FDL428", "the loop over epochs around it is not plain")
            problem.line = old.line
            raise problem


def _refuse_steps(source: SourceFile, found: tuple[LoopIR, ...]) -> None:
    """Refuse another step in the turns: an update has the batches of several turns now."""
    lines = {loop.line: set(loop.taken("setup")) for loop in found}
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.For | ast.While) or node.lineno not in lines:
            continue
        for inner in ast.walk(node):
            if is_method(inner, "step") and vars(inner)["lineno"] not in lines[node.lineno]:
                message = "something else steps in every turn; step it after the epoch"
                raise NotMovedError("FDL428", message, inner)
