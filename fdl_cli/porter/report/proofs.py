"""Degree of proof of the classes of a port: words for a class, the totals, and the next command."""

from collections.abc import Iterable, Iterator, Sequence

from fdl_cli.porter.ir.findings import ClassOutcome, VerifyReason
from fdl_cli.porter.ir.port_data import FileData

_WORDS: dict[VerifyReason, str] = {
    "time": "time",
    "no-inputs": "no inputs",
    "not-asked": "not asked",
    "does-not-run": "does not run",
    "not-compared": "not compared",
}
_COUNTED = {"close": "close", "different": "different"}


def reason_words(item: ClassOutcome) -> str:
    """Return why nothing is proved of a class, in a few words; nothing where that is no gap."""
    return "" if item.verify.reason is None else _WORDS[item.verify.reason]


def state_words(item: ClassOutcome) -> str:
    """Return the result of a class; a graph without any proof says so, and why."""
    reason = reason_words(item)
    return f"{item.status}, not verified ({reason})" if reason else item.status


def detail_words(item: ClassOutcome) -> str:
    """Return the facts of a proof besides its state; where none was wanted, the state says all."""
    return "" if item.verify.reason == "not-asked" else item.verify.detail


def totals(classes: Sequence[ClassOutcome], sufficient_timeout: int | None) -> str:
    """Return one sentence about all classes, such as `17 classes: 2 proved, 15 not verified: time`."""
    parts = [
        f"{count} {word}"
        for count, word in (
            (_count(classes, "equal"), "proved"),
            *((_count(classes, status), word) for status, word in _COUNTED.items()),
            (sum(item.status == "kept" for item in classes), "kept"),
            (sum(_is_base(item) for item in classes), "without a forward"),
        )
        if count
    ]
    gaps = _gaps(classes)
    if gaps:
        parts.append(f"{sum(gaps.values())} not verified{_reasons(gaps, sufficient_timeout)}")
    noun = "class" if len(classes) == 1 else "classes"
    return f"{len(classes)} {noun}: {', '.join(parts)}"


def hints(classes: Iterable[ClassOutcome], sufficient_timeout: int | None) -> Iterator[str]:
    """Yield the commands for the classes without any proof: one line for each reason."""
    late = _first(classes, "time")
    if late is not None:
        known = f"add `--timeout {sufficient_timeout}`" if sufficient_timeout else "add time"
        yield f"{known}, or save the search for inputs: `{example(late)}`"
    missing = _first(classes, "no-inputs")
    if missing is not None:
        yield f"say how a class is called: `{example(missing)}`"


def total_lines(files: Sequence[FileData]) -> tuple[str, ...]:
    """Return the last lines of a report: the degree of proof of all classes, and the next command.

    One class alone that is proved has said so already.
    """
    classes = [item for file in files for item in file.classes]
    if not classes or (len(classes) == 1 and classes[0].verify.status == "equal"):
        return ()
    timeout = max((file.sufficient_timeout or 0 for file in files), default=0) or None
    cures = (f"  hint: {line}" for line in hints(classes, timeout))
    return (totals(classes, timeout), *cures)


def example(item: ClassOutcome) -> str:
    """Return the option that says how a class is called."""
    return f'--example "{item.name}(...): torch.randn(...)"'


def _reasons(gaps: dict[VerifyReason, int], sufficient_timeout: int | None) -> str:
    cures: dict[VerifyReason, str] = {"no-inputs": "--example"}
    if sufficient_timeout is not None:
        cures["time"] = f"--timeout {sufficient_timeout}"
    if len(gaps) == 1:
        (reason,) = gaps
        cure = f" ({cures[reason]})" if reason in cures else ""
        return f": {_WORDS[reason]}{cure}"
    shown = (
        f"{count} {_WORDS[reason]}" + (f": `{cures[reason]}`" if reason in cures else "")
        for reason, count in gaps.items()
    )
    return f" ({', '.join(shown)})"


def _gaps(classes: Iterable[ClassOutcome]) -> dict[VerifyReason, int]:
    found: dict[VerifyReason, int] = {}
    for item in classes:
        if item.verify.reason is not None:
            found[item.verify.reason] = found.get(item.verify.reason, 0) + 1
    # Those with a cure first, in the order in which people meet them.
    order: tuple[VerifyReason, ...] = (
        "no-inputs",
        "time",
        "does-not-run",
        "not-compared",
        "not-asked",
    )
    return {reason: found[reason] for reason in order if reason in found}


def _count(classes: Iterable[ClassOutcome], status: str) -> int:
    return sum(item.status != "kept" and item.verify.status == status for item in classes)


def _is_base(item: ClassOutcome) -> bool:
    verify = item.verify
    return item.status != "kept" and verify.status == "not-run" and verify.reason is None


def _first(classes: Iterable[ClassOutcome], reason: VerifyReason) -> ClassOutcome | None:
    return next((item for item in classes if item.verify.reason == reason), None)
