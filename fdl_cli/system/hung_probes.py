"""Memory of probes that hung: each costs its whole time limit once, not in every command.

Example: `nvidia-smi` of a broken driver does not answer within 10 s. The next commands give it one
second, and say that it hung before. A program that answers, a restart of the machine, or an hour ends
the memory.
"""

import contextlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, final

from fdl_cli.folders import user_folder
from fdl_cli.system.atomic import write_whole
from fdl_cli.system.facts import ProbeReport
from fdl_cli.system.probe import Runner

KEPT_SECONDS: Final = 3600.0
SECOND_TRY_SECONDS: Final = 1.0
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


@final
class HungProbes:
    """The probes that hung on this machine since it started, in a file of the user's cache.

    Example:
        >>> probes = HungProbes({"FLODL_HOME": "/nowhere"})
        >>> probes.since(("nvidia-smi",)) is None
        True
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._path = Path(user_folder("cache", environ)) / "hung-probes.json"
        try:
            self._boot = _BOOT_ID.read_text(encoding="utf-8").strip()
        except OSError:
            self._boot = ""

    def since(self, argv: Sequence[str]) -> float | None:
        """Return how many seconds ago a program hung, or None."""
        then = self._read().get(" ".join(argv))
        ago = None if then is None else time.time() - then
        return ago if ago is not None and 0 <= ago < KEPT_SECONDS else None

    def note(self, argv: Sequence[str], *, hung: bool) -> None:
        """Remember or forget that a program hung; a cache that cannot be written changes nothing."""
        noted = self._read()
        name = " ".join(argv)
        if not hung and name not in noted:
            return
        noted.pop(name, None)
        if hung:
            noted[name] = time.time()
        text = json.dumps({"boot": self._boot, "hung": noted})
        with contextlib.suppress(OSError):
            write_whole(self._path, text.encode())

    def _read(self) -> dict[str, float]:
        try:
            known = json.loads(self._path.read_text(encoding="utf-8"))
            if known["boot"] != self._boot:
                return {}
            return {str(name): float(then) for name, then in known["hung"].items()}
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            return {}


def with_memory(run: Runner, hung: HungProbes) -> Runner:
    """Return a runner that gives a program which hung before only `SECOND_TRY_SECONDS`."""

    def remembering(source: str, argv: Sequence[str], seconds: float) -> tuple[ProbeReport, str]:
        ago = hung.since(argv)
        limit = seconds if ago is None else min(seconds, SECOND_TRY_SECONDS)
        report, text = run(source, argv, limit)
        if report.verdict != "timeout":
            hung.note(argv, hung=False)
        elif ago is None:
            hung.note(argv, hung=True)
        else:
            said = f"{report.said}; it hung {ago / 60:.0f} min ago too, so it got {limit:g} s"
            report = replace(report, said=said)
        return report, text

    return remembering
