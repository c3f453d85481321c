"""Report on every training loop of a file, and why one did not move as far as requested."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, final

from fdl_cli.porter.ir.findings import Reason, ScriptFinding, TrainingFinding
from fdl_cli.porter.ir.training import UNFUSED, LoopIR, TrainingLevel
from fdl_cli.porter.pipeline import Draft
from fdl_cli.porter.trainer.loops import training_loops
from fdl_cli.porter.trainer.team_loops import team_port

_ACTIONS: Final[dict[TrainingLevel, str]] = {
    "keep": "kept",
    "setup": "moved to Trainer.setup",
    "builder": "moved to Trainer.builder",
}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LoopReport:
    """The loops of a file, and the lines of their steps with the outcome of each."""

    findings: tuple[TrainingFinding, ...]
    taken: Mapping[int, str]


def put_back(made: Draft, detail: str) -> Reason:
    """Return the reason for loops that trained differently at the level of a draft."""
    line = next((loop.line for loop in made.loops if loop.reached(made.level) != "keep"), 1)
    message = f"{_ACTIONS[made.level]}, it did not train equally: {detail}"
    return Reason(line=line, code="FDL411", message=message)


def loop_findings(
    made: Draft, wanted: TrainingLevel, script: ScriptFinding | None, differed: Sequence[Reason]
) -> LoopReport:
    """Return the outcome of every training loop, by its line in the source."""
    moved = iter(made.loops)
    proved = script is not None and script.status in {"equal", "close"}
    findings: list[TrainingFinding] = []
    taken: dict[int, str] = {}
    team = team_port(made.source) if wanted == "builder" else None
    for loop in training_loops(made.source) if team is None else team.original:
        now = next(moved, None)
        reached: TrainingLevel = "keep" if now is None else now.reached(made.level)
        action = _ACTIONS[reached]
        if reached != "keep" and not proved:
            action += ", not verified"
        reasons = _reasons(loop, wanted, reached, differed)
        taken |= dict.fromkeys(loop.taken(reached), action)
        findings.append(
            TrainingFinding(
                kind="loop",
                line=loop.line,
                action=action,
                name=loop.model,
                reasons=reasons,
                offer=_offer(now, reached),
            )
        )
    return LoopReport(findings=tuple(findings), taken=taken)


def _offer(loop: LoopIR | None, reached: TrainingLevel) -> str:
    """Return what a builder leaves out to keep every bit, and the command that measures it."""
    if loop is None or loop.built is None or reached != "builder":
        return ""
    if not loop.built.kernel or UNFUSED not in loop.built.calls:
        return ""
    return (
        f"`{UNFUSED}` keeps every bit: {loop.built.kernel}'s fused kernel may be faster, and may round "
        "differently; `fdl port ... --fast` measures it"
    )


def _reasons(
    loop: LoopIR, wanted: TrainingLevel, reached: TrainingLevel, differed: Sequence[Reason]
) -> tuple[Reason, ...]:
    if reached == wanted:
        return ()
    known = loop.reasons(wanted)
    if loop.reached(wanted) != reached:  # it was moved further, and put back
        known += tuple(
            Reason(line=loop.line, code=item.code, message=item.message) for item in differed
        )
    return known
