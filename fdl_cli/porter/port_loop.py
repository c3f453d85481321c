"""Proof of one file's port: classes that turn out different are kept, and the rest proved again."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import final

from fdl_cli.porter.affected import affected_classes
from fdl_cli.porter.ir.evidence import (
    ScriptOutcome,
    ScriptRequest,
    SpeedOutcome,
    VerifyOutcome,
    VerifyRequest,
    digest_of,
)
from fdl_cli.porter.ir.findings import FileWarning, Reason, ScriptFinding, SpeedFinding
from fdl_cli.porter.pipeline import Draft
from fdl_cli.porter.project import Project
from fdl_cli.porter.training_report import put_back
from fdl_cli.porter.workspace import Placement, Workspace
from flodl_verify.protocol import NO_MODULE, PLAIN_VALUE, PORT_RAISES, ClassEvidence

Verify = Callable[[VerifyRequest], VerifyOutcome]
ProveScript = Callable[[ScriptRequest], ScriptOutcome]
Measure = Callable[[ScriptRequest], SpeedOutcome]

# Each round keeps at least one class more, so this only bounds the time of odd files.
_MAX_ROUNDS = 6


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Proving:
    """The settings of a verification: its Python, its folders, and the user's hints about inputs.

    On a `workspace` the ports of a project lie beside each other; without one, the port is written
    to `workdir` and finds the originals of its neighbours. `measure` is given where a gain is requested.
    """

    verify: Verify
    workdir: Path
    examples: tuple[str, ...]
    python: str
    timeout_s: float
    search_path: tuple[Path, ...]
    workspace: Workspace | None = None
    prove_script: ProveScript | None = None
    drawings: bool = False
    measure: Measure | None = None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """The evidence for one port: class by class, and by its whole script.

    `differed` says what was wrong with each level that the training loops were moved to;
    `sufficient_timeout` are seconds that are enough for all classes, where the given ones were not.
    """

    evidence: Mapping[str, ClassEvidence] = field(default_factory=dict)
    warnings: tuple[FileWarning, ...] = ()
    script: ScriptFinding | None = None
    differed: tuple[Reason, ...] = ()
    sufficient_timeout: int | None = None
    speed: SpeedFinding | None = None


def ported_classes(made: Draft) -> tuple[str, ...]:
    """Return the names of the classes that are graphs, at least in part."""
    return tuple(item.name for item in made.plan.classes if item.status != "kept")


def prove_classes(project: Project, path: Path, proving: Proving) -> Proof:
    """Verify a draft; classes which turn out different are kept.

    The evidence for the others holds, unless they reach one that changed: those are verified again.
    """
    if not ported_classes(project.draft(path)):
        return Proof()
    demoted: set[str] = set()
    warnings: tuple[FileWarning, ...] = ()
    evidence: dict[str, ClassEvidence] = {}
    sufficient: int | None = None
    for _ in range(_MAX_ROUNDS):
        made = project.draft(path)
        request = class_request(project, path, proving)
        pending = tuple(name for name in request.classes if name not in evidence)
        outcome = _verified(replace(request, classes=pending), proving)
        evidence.update((item.name, item) for item in outcome.classes)
        warnings = _warnings(outcome)
        sufficient = outcome.sufficient_s
        different = [name for name in outcome.different if name not in demoted]
        if not different:
            break
        blamed = _innermost(made, different)
        doubtful = frozenset(
            name
            for name in blamed
            if evidence[name].error_code == PLAIN_VALUE and not project.is_cautious(path, name)
        )
        if doubtful:
            project.caution(path, doubtful)
        else:
            lines = {item.name: item.line for item in made.plan.classes}
            project.demote(path, {n: _demotion(evidence[n], lines[n]) for n in blamed})
            demoted.update(blamed)
        evidence = _still_valid(project, path, proving, made, evidence)
        if not set(ported_classes(project.draft(path))) - evidence.keys():
            break
    return Proof(evidence=evidence, warnings=warnings, sufficient_timeout=sufficient)


def _still_valid(
    project: Project,
    path: Path,
    proving: Proving,
    before: Draft,
    evidence: Mapping[str, ClassEvidence],
) -> dict[str, ClassEvidence]:
    """Return the evidence for classes that are unchanged, and whose parts are."""
    if proving.workspace is not None:  # beside ports of other files, which may have changed
        return {}
    void = affected_classes(before, project.draft(path))
    kept = set(ported_classes(project.draft(path))) - void
    # One that was late may be in time now that fewer are left.
    return {
        name: item
        for name, item in evidence.items()
        if name in kept and item.status != "different" and item.reason != "time"
    }


def _verified(request: VerifyRequest, proving: Proving) -> VerifyOutcome:
    """Verify a draft; a result with another text of a neighbour proves nothing."""
    outcome = proving.verify(request)
    changed = () if proving.workspace is None else proving.workspace.put_back()
    if not changed:
        return outcome
    names = ", ".join(source.name for source in changed)
    return outcome.unproved(f"{names} changed in the copy while it was verified", "port-changed")


def prove_training(project: Project, path: Path, proving: Proving, proof: Proof) -> Proof:
    """Run a training script as a whole; loops and classes are put back until it trains as it did.

    The loops of the project were moved before.
    """
    if not is_script(project, path, proving):
        return proof
    made, evidence = project.draft(path), proof.evidence
    differed: list[Reason] = []
    unproved = {
        name
        for name in ported_classes(made)
        if name not in evidence or evidence[name].status != "equal"
    }
    found = _run_lowering(project, path, proving, differed)
    # First those that nothing else has proved, then all of this file.
    for blamed in (unproved, set(ported_classes(made))):
        if found.status != "different" or not blamed:
            break
        message = f"the whole script trains differently: {found.detail}"
        lines = {item.name: item.line for item in made.plan.classes}
        project.demote(
            path, {n: Reason(line=lines[n], code="FDL321", message=message) for n in blamed}
        )
        # The loops may have been put back because of a class.
        differed.clear()
        project.move_training(path)
        found = _run_lowering(project, path, proving, differed)
    return replace(proof, script=found, differed=tuple(differed))


def _run_lowering(
    project: Project, path: Path, proving: Proving, differed: list[Reason]
) -> ScriptFinding:
    """Run a training script as a whole; its loops move less far until it trains as it did."""
    found = run_script(project, path, proving)
    while found.status == "different" and project.draft(path).level != "keep":
        differed.append(put_back(project.draft(path), found.detail))
        project.lower_training(path)
        found = run_script(project, path, proving)
    return found


def is_script(project: Project, path: Path, proving: Proving) -> bool:
    """Return True if a file is run as a whole: it trains, and meets something that is ported."""
    if proving.prove_script is None or not project.draft(path).script.starts:
        return False
    return _concerned(project, path, proving) and project.trains(path)


def _concerned(project: Project, path: Path, proving: Proving) -> bool:
    if project.draft(path).loops:
        return True
    if proving.workspace is None:
        return bool(ported_classes(project.draft(path)))
    return any(ported_classes(made) for _, made in project.drafts())


def run_script(
    project: Project, path: Path, proving: Proving, *, rounding: bool = False
) -> ScriptFinding:
    """Run a script and its port as wholes; with `rounding`, losses may differ by last bits."""
    assert proving.prove_script is not None
    request = replace(script_request(project, path, proving), rounding=rounding)
    outcome = proving.prove_script(request)
    return ScriptFinding(
        status=outcome.status,
        detail=outcome.detail,
        steps=outcome.steps,
        losses=outcome.losses,
        source_runs=outcome.source_runs,
    )


def _innermost(made: Draft, different: list[str]) -> list[str]:
    """Return the classes to blame: one that holds another different class may be innocent."""
    facts = {model.facts.name: model.facts for model in made.script.models}
    blamed = []
    for name in different:
        attributes = facts[name].attributes if name in facts else ()
        held = {fact.constructor for fact in attributes}
        if not held & (set(different) - {name}):
            blamed.append(name)
    return blamed or different


def _demotion(item: ClassEvidence, line: int) -> Reason:
    if item.error_code == NO_MODULE:
        return Reason(line=line, code="FDL203", message=f"{item.detail} when it runs")
    code = "FDL322" if item.error_code in {PORT_RAISES, PLAIN_VALUE} else "FDL321"
    detail = " ".join(item.detail.split())
    message = f"its flow was not equal: {detail}"
    return Reason(line=line, code=code, message=message)


def class_request(project: Project, path: Path, proving: Proving) -> VerifyRequest:
    """Write the present port of a file where its classes can be compared."""
    place = _placement(project, path, proving)
    made = project.draft(path)
    return VerifyRequest(
        original=place.original,
        ported=place.ported,
        classes=ported_classes(made),
        examples=proving.examples,
        python=proving.python,
        timeout_s=proving.timeout_s,
        workdir=proving.workdir,
        search_path=place.search_path,
        ported_search_path=place.ported_search_path,
        drawings=proving.drawings,
        ported_sha256=digest_of(made.data),
    )


def script_request(project: Project, path: Path, proving: Proving) -> ScriptRequest:
    """Write the present port of a script where it can be run as a whole."""
    place = _placement(project, path, proving)
    return ScriptRequest(
        original=place.original,
        ported=place.ported,
        python=proving.python,
        timeout_s=proving.timeout_s,
        workdir=proving.workdir,
        search_path=place.search_path,
        ported_search_path=place.ported_search_path,
        ported_sha256=digest_of(project.draft(path).data),
    )


def _placement(project: Project, path: Path, proving: Proving) -> Placement:
    made = project.draft(path)
    if proving.workspace is not None and path.suffix == ".py":
        for neighbour, its in project.drafts():
            proving.workspace.place(neighbour, its.data)
        return proving.workspace.placement(path)
    original, ported = path, proving.workdir / f"{path.stem}_flodl.py"
    if path.suffix != ".py":
        # The Python text of a notebook.
        original = proving.workdir / f"{path.stem}.py"
        original.write_bytes(made.source.module.bytes)
    ported.write_bytes(made.data)
    return Placement(
        original=original,
        ported=ported,
        search_path=proving.search_path,
        ported_search_path=(),
    )


def _warnings(outcome: VerifyOutcome) -> tuple[FileWarning, ...]:
    if outcome.error is None:
        return ()
    if not outcome.source_runs:
        compared = any(item.status != "not-run" for item in outcome.classes)
        but = "; what it defines all the same was compared" if compared else ""
        return (
            FileWarning(
                id="source-does-not-run",
                message=f"the original does not run here: {outcome.error}{but}",
                hint="install what it imports, or see --no-verify",
            ),
        )
    return (
        FileWarning(
            id="not-verified",
            message=f"the port could not be verified: {outcome.error}",
            hint=(
                "mend the --example, or leave it out"
                if outcome.classes
                else "run `fdl setup` for torch, or see --no-verify"
            ),
        ),
    )
