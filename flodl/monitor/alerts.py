"""Alerts on the course of a training: a value that is no number, a plateau, a stall."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from flodl.monitor.store.frames import Note
from flodl.monitor.store.records import record_from

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flodl.monitor.store.frames import Rows


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRules:
    """The conditions for an alert.

    Attributes:
        plateau_epochs: a loss that did not fall for so many epochs is on a plateau; 0 for never.
        plateau_tolerance: the share of its best value by which it must fall to count.
        stall_seconds: silence of so many seconds is a stall; 0 for never.
        stall_factor: and it is so many times longer than silences used to be.

    Example:
        >>> from flodl import AlertRules, Monitor
        >>> monitor = Monitor(100, quiet=True, alerts=AlertRules(plateau_epochs=20))
    """

    plateau_epochs: int = 10
    plateau_tolerance: float = 1e-3
    stall_seconds: float = 60.0
    stall_factor: float = 10.0


@final
class Alerts:
    """Watches what is recorded and makes a note once per trouble, until the trouble is over."""

    def __init__(self, rules: AlertRules) -> None:
        self._rules = rules
        self._not_finite: set[str] = set()
        self._losses: dict[str, list[float]] = {}
        self._plateaus: set[str] = set()
        self._last_sign = -1.0
        self._longest_silence = 0.0
        self._stalled = False

    def rows(self, rows: Rows) -> list[Note]:
        """Look at recorded values."""
        found: list[Note] = []
        for name, column in zip(rows.names, rows.columns, strict=True):
            if all(map(math.isfinite, column)):
                self._not_finite.discard(name)
                continue
            bad = next((at for at, value in enumerate(column) if not math.isfinite(value)), None)
            if bad is not None and name not in self._not_finite:
                self._not_finite.add(name)
                where = f"at step {rows.steps[bad]:.0f}"
                found.append(alert("nan", f"{name} is {column[bad]} {where}", metric=name))
        return found

    def epoch(self, data: Mapping[str, Any]) -> list[Note]:
        """Look at an epoch."""
        record = record_from(data)
        found: list[Note] = []
        for name, value in record.metrics.items():
            if not math.isfinite(value):
                if name not in self._not_finite:
                    self._not_finite.add(name)
                    text = f"{name} is {value} in epoch {record.epoch + 1}"
                    found.append(alert("nan", text, metric=name))
                continue
            self._not_finite.discard(name)
            if "loss" in name.lower():
                found += self._plateau(name, value)
        return found

    def sign_of_life(self, now: float) -> list[Note]:
        """Note that something was recorded at a time."""
        if self._last_sign >= 0 and not self._stalled:
            self._longest_silence = max(self._longest_silence, now - self._last_sign)
        self._last_sign = now
        if not self._stalled:
            return []
        self._stalled = False
        return [Note("event", {"kind": "stall", "message": "it goes on", "time": time.time()})]

    def silence(self, now: float) -> list[Note]:
        """Look whether nothing was recorded for too long."""
        rules = self._rules
        limit = max(rules.stall_seconds, rules.stall_factor * self._longest_silence)
        quiet = now - self._last_sign
        if not rules.stall_seconds or self._stalled or self._last_sign < 0 or quiet < limit:
            return []
        self._stalled = True
        return [alert("stall", f"nothing was recorded for {quiet:.0f} s")]

    def _plateau(self, name: str, value: float) -> list[Note]:
        window = self._rules.plateau_epochs
        history = self._losses.setdefault(name, [])
        history.append(value)
        if not window or len(history) <= window:
            return []
        before, recent = min(history[:-window]), min(history[-window:])
        if recent < before - self._rules.plateau_tolerance * abs(before):
            self._plateaus.discard(name)
            return []
        if name in self._plateaus:
            return []
        self._plateaus.add(name)
        return [alert("plateau", f"{name} did not fall for {window} epochs", metric=name)]


def alert(kind: str, message: str, metric: str = "") -> Note:
    """Return the note of an alert."""
    data = {"kind": kind, "message": message, "metric": metric, "time": time.time()}
    return Note("alert", data)
