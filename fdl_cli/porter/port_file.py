"""The whole port of one file: draft, verify, keep what is not proved, draft again, and report."""

from collections.abc import Mapping
from pathlib import Path

from fdl_cli.porter.faster import measure_training
from fdl_cli.porter.ir.edits import ClassPlan
from fdl_cli.porter.ir.findings import (
    ClassOutcome,
    FileError,
    FileOutcome,
    FileStatus,
    VerifyFinding,
)
from fdl_cli.porter.ir.pretty import script_text
from fdl_cli.porter.pipeline import Draft
from fdl_cli.porter.port_loop import Proof, Proving, prove_classes, prove_training
from fdl_cli.porter.project import Project
from fdl_cli.porter.trainer.intents import training_blocks
from fdl_cli.porter.training_report import loop_findings
from flodl_verify.protocol import NO_FORWARD, ClassEvidence

_ABSTRACT = "it has no forward of its own; it is proved with the classes that extend it"


# The proofs of a file end after some rounds, in each of which something changed.
_UNSETTLED = "it changed after the last proof: port the file again"


def port_file(data: bytes, path: Path, proving: Proving | None) -> tuple[FileOutcome, bytes]:
    """Port the bytes of one file; the second value is the bytes to write.

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
    proof = Proof() if proving is None else prove_classes(project, path, proving)
    project.move_training(path)
    if proving is not None:
        proof = prove_training(project, path, proving, proof)
        proof = measure_training(project, path, proving, proof)
    return outcome_of(project, path, proof, asked=proving is not None), project.draft(path).data


def outcome_of(project: Project, path: Path, proof: Proof, *, asked: bool) -> FileOutcome:
    """Report on the present port of a file; `asked` is whether a proof was requested."""
    made = project.draft(path)
    loops = loop_findings(made, project.training, proof.script, proof.differed)
    return FileOutcome(
        status=_status(made),
        text=made.text,
        classes=tuple(_outcome(item, proof.evidence, asked=asked) for item in made.plan.classes),
        on_flodl=made.script.on_flodl,
        training=training_blocks(made.source, loops.findings, loops.taken),
        warnings=proof.warnings,
        error=None,
        plan="\n".join(item.reading for item in made.plan.classes),
        ir=script_text(made.script),
        script=proof.script,
        source=made.source.text,
        evidence=tuple(proof.evidence.values()),
        sufficient_timeout=proof.sufficient_timeout,
        speed=proof.speed,
    )


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


def _outcome(
    item: ClassPlan, evidence: Mapping[str, ClassEvidence], *, asked: bool
) -> ClassOutcome:
    found = evidence.get(item.name)
    if item.status == "kept":
        verify = VerifyFinding(status="not-run", detail="kept as it was")
    elif found is not None and found.error_code == NO_FORWARD:
        verify = VerifyFinding(status="not-run", detail=_ABSTRACT)
    elif found is not None:
        detail = found.detail or found.example
        verify = VerifyFinding(status=found.status, detail=detail, reason=found.reason)
    elif not asked:
        verify = VerifyFinding(status="not-run", detail="not asked for", reason="not-asked")
    else:
        verify = VerifyFinding(status="not-run", detail=_UNSETTLED, reason="not-compared")
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
