"""The report of a port as lines for a person."""

from collections.abc import Iterator

from fdl_cli.porter.ir.findings import ClassOutcome, FileOutcome, SpeedFinding
from fdl_cli.porter.knowledge.reasons import REASONS
from fdl_cli.porter.knowledge.training_names import KINDS
from fdl_cli.porter.report.proofs import detail_words, state_words


def summary_lines(name: str, outcome: FileOutcome, written: str | None) -> Iterator[str]:
    """Yield the report of one file: where it went, each class, and why a class was kept."""
    yield _headline(name, outcome, written)
    width = max((len(item.name) for item in outcome.classes), default=0)
    marks = max((len(state_words(item)) for item in outcome.classes), default=0)
    marks = max(marks, len("partial"))
    for item in outcome.classes:
        line = f"  {state_words(item):{marks}}  {item.name:{width}}  {_proof(item)}"
        yield line.rstrip()
        for reason in item.reasons:
            yield f"           line {reason.line}: {reason.code} {reason.message}"
            yield f"           hint: {REASONS[reason.code].advice}"
    if outcome.script is not None:
        yield f"  {_SCRIPT[outcome.script.status]}: {outcome.script.detail}"
    yield from _training(outcome)
    if outcome.speed is not None:
        yield from _speed(outcome.speed)


def _training(outcome: FileOutcome) -> Iterator[str]:
    loops = [item for item in outcome.training if item.kind == "loop"]
    for item in loops:
        if item.action != "kept" or item.reasons:
            yield f"  training loop, line {item.line}: {item.action}"
        for reason in item.reasons:
            yield f"           line {reason.line}: {reason.code} {reason.message}"
            yield f"           hint: {REASONS[reason.code].advice}"
        if item.offer and outcome.speed is None:
            yield f"           {item.offer}"
    kept = {item.kind for item in outcome.training if item.action == "kept"}
    kinds = [kind for kind in KINDS if kind in kept]
    if kinds:
        yield f"  training code kept: {', '.join(kinds)}"


def _speed(speed: SpeedFinding) -> Iterator[str]:
    first, *others = speed_lines(speed)
    yield f"  fast: {first}"
    yield from (f"        {line}" for line in others)


def speed_lines(speed: SpeedFinding) -> tuple[str, ...]:
    """Return the sentences of a measurement: the gain, its proof, what was done, and what is left out."""
    return tuple(
        each for each in (speed.detail, speed.proof, speed.action, speed.compiled) if each
    )


def _headline(name: str, outcome: FileOutcome, written: str | None) -> str:
    if outcome.status == "failed":
        assert outcome.error is not None
        place = name if outcome.error.line is None else f"{name}:{outcome.error.line}"
        return f"{place}: {outcome.error.message}"
    if outcome.on_flodl and not outcome.classes:
        return f"{name}: already on flodl: nothing to do"
    if outcome.status == "unchanged":
        return f"{name}: nothing to port"
    return f"{name} -> {written}" if written else name


def _proof(item: ClassOutcome) -> str:
    if item.status == "kept":
        return ""
    nodes = f"{item.ops_in_graph} of {item.ops_total} operations"
    words = detail_words(item)
    detail = f" ({words})" if words else ""
    if item.verify.status == "not-run":
        return f"{nodes}{detail}"  # that it is not verified, its state says
    return f"{nodes}, {item.verify.status}{detail}"


_SCRIPT = {
    "equal": "script trains equally",
    "close": "script trains closely",
    "different": "script trains DIFFERENTLY",
    "not-run": "script not compared as a whole",
}
