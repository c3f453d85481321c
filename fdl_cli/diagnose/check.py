"""One answered question of `fdl diagnose`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, final

Severity = Literal["ok", "info", "warning", "error"]
Plain = str | int | float | bool | None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One answered question; `id` is stable, `remedy` is the command to type when it is not ok."""

    id: str
    group: str
    severity: Severity
    ok: bool
    message: str
    remedy: str
    fixable: bool
    data: Mapping[str, Plain]


def check(
    check_id: str,
    severity: Severity,
    message: str,
    remedy: str = "",
    *,
    fixable: bool = False,
    **data: Plain,
) -> Check:
    """Return a check; its group is the first word of its id."""
    return Check(
        id=check_id,
        group=check_id.partition(".")[0],
        severity=severity,
        ok=severity in ("ok", "info"),
        message=message,
        remedy=remedy,
        fixable=fixable,
        data=data,
    )
