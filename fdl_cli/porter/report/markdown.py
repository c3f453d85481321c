"""The report of a port as Markdown, as the golden cases keep it."""

from fdl_cli.porter.ir.findings import FileOutcome
from fdl_cli.porter.knowledge.reasons import REASONS


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
            f"| {item.name} | {item.line} | {item.status} "
            f"| {item.ops_in_graph} of {item.ops_total} |"
            for item in outcome.classes
        ]
    for item in outcome.classes:
        for reason in item.reasons:
            lines += ["", f"{item.name}, line {reason.line}: {reason.code} {reason.message}."]
            lines.append(f"To do: {REASONS[reason.code].advice}.")
    return "\n".join(lines) + "\n"
