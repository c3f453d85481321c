"""The report of a port as Markdown, as the golden cases keep it."""

from fdl_cli.porter.ir.findings import ClassOutcome, FileOutcome
from fdl_cli.porter.knowledge.reasons import REASONS
from fdl_cli.porter.report.proofs import state_words, totals


def markdown(outcome: FileOutcome) -> str:
    """Return the report of one file: a table of the classes, then the reasons with advice."""
    if outcome.error is not None:
        return (
            f"Failed, line {outcome.error.line}: {outcome.error.message}\n\n{outcome.error.hint}\n"
        )
    lines = [f"Status: {outcome.status}", ""]
    if outcome.classes:
        lines += ["| class | line | status | operations |", "|---|---|---|---|"]
        lines += [
            f"| {item.name} | {item.line} | {_state(item)} "
            f"| {item.ops_in_graph} of {item.ops_total} |"
            for item in outcome.classes
        ]
    if any(item.verify.reason not in {None, "not-asked"} for item in outcome.classes):
        lines += ["", f"{totals(outcome.classes, outcome.sufficient_timeout)}."]
    for item in outcome.classes:
        for reason in item.reasons:
            lines += ["", f"{item.name}, line {reason.line}: {reason.code} {reason.message}."]
            lines.append(f"To do: {REASONS[reason.code].advice}.")
    return "\n".join(lines) + "\n"


def _state(item: ClassOutcome) -> str:
    """Return the state of a class in words, or its bare status where no proof was requested."""
    return item.status if item.verify.reason == "not-asked" else state_words(item)
