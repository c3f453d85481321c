"""Port one file to the end: draft, verify, keep what is not proved, draft again, and report."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import final

from fdl_cli.porter.analyse.intents import training_blocks
from fdl_cli.porter.bench import Bench, Placement
from fdl_cli.porter.ir.edits import ClassPlan
from fdl_cli.porter.ir.evidence import (
    ClassEvidence,
    ScriptOutcome,
    ScriptRequest,
    VerifyOutcome,
    VerifyRequest,
)
from fdl_cli.porter.ir.findings import (
    ClassOutcome,
    FileError,
    FileOutcome,
    FileStatus,
    FileWarning,
    Reason,
    ScriptFinding,
    VerifyFinding,
)
from fdl_cli.porter.ir.pretty import script_text
from fdl_cli.porter.pipeline import Draft
from fdl_cli.porter.project import Project
from fdl_cli.porter.training_report import loop_findings, put_back

Verify = Callable[[VerifyRequest], VerifyOutcome]
ProveScript = Callable[[ScriptRequest], ScriptOutcome]

# Each round keeps at least one class more, so this only bounds the time of odd files.
_MAX_ROUNDS = 6
_NO_FORWARD = 'is missing the required "forward"'
_ABSTRACT = "it has no forward of its own; it is proved with the classes that extend it"
# A residual connection adds in an order of its own: of two memory formats the other one may win.
_SUM = "· also"
_CONTAINERS = ("list", "tuple", "dict", "NoneType", "int", "float")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Proving:
    """How to verify: with what, where, and what the user said about inputs.

    On a `bench` the ports of a project stand beside each other; without one, the port is written
    to `workdir` and finds the originals of its neighbours.
    """

    verify: Verify
    workdir: Path
    examples: tuple[str, ...]
    python: str
    timeout_s: float
    search_path: tuple[Path, ...]
    bench: Bench | None = None
    prove_script: ProveScript | None = None
    drawings: bool = False


def port_file(data: bytes, path: Path, proving: Proving | None) -> tuple[FileOutcome, bytes]:
    """Port the bytes of one file; the second value is what to write.

    Nothing is raised for what the file contains: an unreadable file is an outcome.
    """
    outcome, made = port_member(Project({path: data}), path, proving)
    return outcome, data if made is None else made


def port_member(
    project: Project, path: Path, proving: Proving | None
) -> tuple[FileOutcome, bytes | None]:
    """Port one file of a project; no bytes when it cannot be read."""
    error = project.error(path)
    if error is not None:
        return failed(error), None
    evidence: Mapping[str, ClassEvidence] = {}
    warnings: tuple[FileWarning, ...] = ()
    if proving is not None and _ported(project.draft(path)):
        evidence, warnings = _prove(project, path, proving)
    script = None
    project.move_training(path)
    differed: list[Reason] = []
    if proving is not None and proving.prove_script is not None:
        script = _prove_script(project, path, proving, evidence, differed)
    made = project.draft(path)
    loops = loop_findings(made, project.training, script, differed)
    outcome = FileOutcome(
        status=_status(made),
        text=made.text,
        classes=tuple(_outcome(item, evidence, proving) for item in made.plan.classes),
        on_flodl=made.script.on_flodl,
        training=training_blocks(made.source, loops.findings, loops.taken),
        warnings=warnings,
        error=None,
        plan="\n".join(item.reading for item in made.plan.classes),
        ir=script_text(made.script),
        script=script,
        source=made.source.text,
        evidence=tuple(evidence.values()),
    )
    return outcome, made.data


def failed(error: FileError) -> FileOutcome:
    """Return the outcome of a file that cannot be read."""
    return FileOutcome(
        status="failed",
        text="",
        classes=(),
        on_flodl=(),
        training=(),
        warnings=(),
        error=error,
        plan="",
        ir="",
    )


def _ported(made: Draft) -> tuple[str, ...]:
    return tuple(item.name for item in made.plan.classes if item.status != "kept")


def _prove(
    project: Project, path: Path, proving: Proving
) -> tuple[Mapping[str, ClassEvidence], tuple[FileWarning, ...]]:
    """Verify a draft; classes which turn out different are kept, and the rest verified again."""
    demoted: set[str] = set()
    warnings: tuple[FileWarning, ...] = ()
    evidence: dict[str, ClassEvidence] = {}
    for _ in range(_MAX_ROUNDS):
        made = project.draft(path)
        outcome = _verify(project, path, proving)
        evidence = {item.name: item for item in outcome.classes}
        warnings = _warnings(outcome)
        different = [name for name in outcome.different if name not in demoted]
        if not different:
            break
        blamed = _innermost(made, different)
        plans = {item.name: item for item in made.plan.classes}
        doubtful = frozenset(
            name
            for name in blamed
            if (_takes_lists(evidence[name]) or _SUM in plans[name].reading)
            and not project.is_cautious(path, name)
        )
        if doubtful:
            project.caution(path, doubtful)
        else:
            lines = {item.name: item.line for item in made.plan.classes}
            project.demote(path, {n: _demotion(evidence[n], lines[n]) for n in blamed})
            demoted.update(blamed)
        evidence = {}
        if not _ported(project.draft(path)):
            break
    return evidence, warnings


def _prove_script(
    project: Project,
    path: Path,
    proving: Proving,
    evidence: Mapping[str, ClassEvidence],
    differed: list[Reason],
) -> ScriptFinding | None:
    """Run a training script as a whole; loops and classes are put back until it trains as it did.

    `differed` receives what was wrong with each level that its loops were moved to.
    """
    made = project.draft(path)
    if not made.script.starts or not _concerned(project, path, proving):
        return None
    if not project.trains(path):
        return None
    unproved = {n for n in _ported(made) if n not in evidence or evidence[n].status != "equal"}
    found = _run_lowering(project, path, proving, differed)
    # First those that nothing else has proved, then all of this file.
    for blamed in (unproved, set(_ported(made))):
        if found.status != "different" or not blamed:
            break
        message = f"the whole script trains differently: {found.detail}"
        lines = {item.name: item.line for item in made.plan.classes}
        project.demote(
            path, {n: Reason(line=lines[n], code="FDL321", message=message) for n in blamed}
        )
        # The loops may have been put back for what a class did.
        differed.clear()
        project.move_training(path)
        found = _run_lowering(project, path, proving, differed)
    return found


def _run_lowering(
    project: Project, path: Path, proving: Proving, differed: list[Reason]
) -> ScriptFinding:
    """Run a training script as a whole; its loops move less far until it trains as it did."""
    found = _run_script(project, path, proving)
    while found.status == "different" and project.draft(path).level != "keep":
        differed.append(put_back(project.draft(path), found.detail))
        project.lower_training(path)
        found = _run_script(project, path, proving)
    return found


def _concerned(project: Project, path: Path, proving: Proving) -> bool:
    """Say whether a run of the file meets anything that is ported."""
    if project.draft(path).loops:
        return True
    if proving.bench is None:
        return bool(_ported(project.draft(path)))
    return any(_ported(made) for _, made in project.drafts())


def _run_script(project: Project, path: Path, proving: Proving) -> ScriptFinding:
    assert proving.prove_script is not None
    place = _placement(project, path, proving)
    outcome = proving.prove_script(
        ScriptRequest(
            original=place.original,
            ported=place.ported,
            python=proving.python,
            timeout_s=proving.timeout_s,
            workdir=proving.workdir,
            search_path=place.search_path,
            ported_search_path=place.ported_search_path,
        )
    )
    return ScriptFinding(
        status=outcome.status,
        detail=outcome.detail,
        steps=outcome.steps,
        losses=outcome.losses,
        source_runs=outcome.source_runs,
    )


def _takes_lists(item: ClassEvidence) -> bool:
    """Say whether a value that was taken for a tensor is a container, or nothing, at run time."""
    return any(
        f"'{kind}' object has no attribute 'through'" in item.detail for kind in _CONTAINERS
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
    raised = "rais" in (item.error_code or "")
    code = "FDL322" if raised else "FDL321"
    detail = " ".join(item.detail.split())
    message = f"its flow was not equal: {detail}"
    return Reason(line=line, code=code, message=message)


def _verify(project: Project, path: Path, proving: Proving) -> VerifyOutcome:
    made = project.draft(path)
    place = _placement(project, path, proving)
    return proving.verify(
        VerifyRequest(
            original=place.original,
            ported=place.ported,
            classes=_ported(made),
            examples=proving.examples,
            python=proving.python,
            timeout_s=proving.timeout_s,
            workdir=proving.workdir,
            search_path=place.search_path,
            ported_search_path=place.ported_search_path,
            drawings=proving.drawings,
        )
    )


def _placement(project: Project, path: Path, proving: Proving) -> Placement:
    made = project.draft(path)
    if proving.bench is not None and path.suffix == ".py":
        for neighbour, its in project.drafts():
            proving.bench.place(neighbour, its.data)
        return proving.bench.placement(path)
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


def _outcome(
    item: ClassPlan, evidence: Mapping[str, ClassEvidence], proving: Proving | None
) -> ClassOutcome:
    found = evidence.get(item.name)
    if found is not None and _NO_FORWARD in found.detail:
        verify = VerifyFinding(status="not-run", detail=_ABSTRACT)
    elif found is not None and item.status != "kept":
        verify = VerifyFinding(status=found.status, detail=found.detail or found.example)
    elif item.status == "kept":
        verify = VerifyFinding(status="not-run", detail="kept as it was")
    elif proving is None:
        verify = VerifyFinding(status="not-run", detail="not asked for")
    else:
        verify = VerifyFinding(status="not-run", detail="the verification did not reach it")
    return ClassOutcome(
        name=item.name,
        line=item.line,
        status=item.status,
        ops_total=item.ops_total,
        ops_in_graph=item.ops_in_graph,
        reasons=item.reasons,
        verify=verify,
    )


def _status(made: Draft) -> FileStatus:
    states = {item.status for item in made.plan.classes}
    if made.text == made.source.text:
        return "unchanged"
    return "partly" if states - {"graph"} else "ported"
