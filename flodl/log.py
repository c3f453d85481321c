"""One switch for what the runtime prints: quiet, normal, verbose, debug or trace.

    FLODL_VERBOSITY=verbose python train.py      # from the shell; a name or a number from 0 to 4
    flodl.set_verbosity("quiet")                 # in a program; it wins over the variable

Lines of epochs, the monitor and `log.normal` appear unless it is quiet. `verbose` adds decisions, such as
where a data set is kept; `debug` the recording of plans; `trace` every epoch of a loader. Normal and verbose
lines go to standard output, debug and trace to standard error. Warnings and errors are no matter of
verbosity.

The lines go through the logger `flodl` of Python's `logging`; VERBOSE (15) and TRACE (5) are new levels
beside INFO and DEBUG. Add a handler to that logger to keep the lines elsewhere too.
"""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Mapping
from enum import IntEnum
from typing import Final, final

VARIABLE: Final = "FLODL_VERBOSITY"


@final
class Verbosity(IntEnum):
    """The amount that the runtime prints.

    Example:
        >>> from flodl.log import Verbosity
        >>> Verbosity.QUIET < Verbosity.NORMAL < Verbosity.VERBOSE
        True
    """

    QUIET = 0
    NORMAL = 1
    VERBOSE = 2
    DEBUG = 3
    TRACE = 4


# The levels of `logging` at which lines of a verbosity are logged.
_LEVELS: Final = {
    Verbosity.QUIET: logging.WARNING,
    Verbosity.NORMAL: logging.INFO,
    Verbosity.VERBOSE: 15,
    Verbosity.DEBUG: logging.DEBUG,
    Verbosity.TRACE: 5,
}
_LOGGER: Final = logging.getLogger("flodl")


def set_verbosity(level: Verbosity | int | str) -> Verbosity:
    """Set how much the runtime prints from now on; return the level before.

    Args:
        level: a `Verbosity`, its number from 0 to 4, or its name.

    Raises:
        ValueError: there is no such level.

    Example:
        >>> import flodl
        >>> before = flodl.set_verbosity("debug")
        >>> flodl.log.verbosity().name
        'DEBUG'
        >>> _ = flodl.set_verbosity(before)
    """
    before = verbosity()
    chosen = _read(level)
    _LOGGER.setLevel(_LEVELS[chosen])
    return before


def verbosity() -> Verbosity:
    """Return how much the runtime prints."""
    level = _LOGGER.level
    return max((each for each in Verbosity if _LEVELS[each] >= level), default=Verbosity.QUIET)


def enabled(level: Verbosity) -> bool:
    """Return True if lines of a level are printed."""
    return verbosity() >= level


def normal(line: str, *values: object) -> None:
    """Print a line unless it is quiet; `values` fill its `%s` only if it is printed."""
    _LOGGER.log(_LEVELS[Verbosity.NORMAL], line, *values)


def verbose(line: str, *values: object) -> None:
    """Print a line from `VERBOSE` on."""
    _LOGGER.log(_LEVELS[Verbosity.VERBOSE], line, *values)


def debug(line: str, *values: object) -> None:
    """Print a line from `DEBUG` on."""
    _LOGGER.log(_LEVELS[Verbosity.DEBUG], line, *values)


def trace(line: str, *values: object) -> None:
    """Print a line at `TRACE`."""
    _LOGGER.log(_LEVELS[Verbosity.TRACE], line, *values)


def _read(level: Verbosity | int | str) -> Verbosity:
    text = str(int(level)) if isinstance(level, int) else level.strip()
    for each in Verbosity:
        if text == str(each.value) or text.upper() == each.name:
            return each
    names = ", ".join(each.name.lower() for each in Verbosity)
    raise ValueError(f"there is no verbosity {level!r}: use 0 to 4, or {names}")


@final
class _Printer(logging.Handler):
    """Prints lines on the standard stream of the moment, which a program may have exchanged."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a line; a terminal that is gone is no reason to stop."""
        loud = record.levelno >= _LEVELS[Verbosity.VERBOSE]
        is_line = loud and record.levelno < logging.WARNING
        stream = sys.stdout if is_line else sys.stderr
        try:
            print(self.format(record), file=stream, flush=True)
        except (OSError, ValueError, AttributeError):
            return


def _begin(environ: Mapping[str, str]) -> None:
    """Take the level of the environment, once; a wrong one is reported and means normal."""
    for level, number in _LEVELS.items():
        if level in (Verbosity.VERBOSE, Verbosity.TRACE):
            logging.addLevelName(number, level.name)
    if not any(isinstance(each, _Printer) for each in _LOGGER.handlers):
        _LOGGER.addHandler(_Printer())
    # The printer prints; the handlers of the root logger would print the line again.
    _LOGGER.propagate = False
    given = environ.get(VARIABLE, "").strip()
    _LOGGER.setLevel(_LEVELS[Verbosity.NORMAL])
    if given:
        try:
            set_verbosity(given)
        except ValueError as problem:
            warnings.warn(f"{VARIABLE}: {problem}", stacklevel=2)


_begin(os.environ)
