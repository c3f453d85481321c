"""The file to fetch, with its retry limits and its progress report."""

import re
from dataclasses import dataclass
from typing import Final, Protocol, final

_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_PLAIN_NAME: Final = re.compile(r"[^/\\\x00-\x1f\x7f]{1,255}")


def checked_sha256(value: object) -> str | None:
    """Return a checksum in lower case, or None for None; it becomes the name of a folder in the cache.

    Raises:
        ValueError: it is something else.
    """
    if value is None:
        return None
    if not isinstance(value, str) or _SHA256.fullmatch(value.lower()) is None:
        raise ValueError(f"{str(value)[:40]!r} is no sha256")
    return value.lower()


def checked_name(value: object) -> str:
    """Return the name of a file without folders.

    Raises:
        ValueError: it is something else.
    """
    if not isinstance(value, str) or value in (".", "..") or _PLAIN_NAME.fullmatch(value) is None:
        raise ValueError(f"{str(value)[:40]!r} is no name of a file")
    return value


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Artefact:
    """One file: its name, the addresses that serve the same bytes, checksum and size if known.

    Raises:
        ValueError: the name or the checksum would lead out of the cache.
    """

    name: str
    urls: tuple[str, ...]
    sha256: str | None = None
    size: int | None = None

    def __post_init__(self) -> None:
        """Check a text that becomes a part of a path."""
        checked_name(self.name)
        if self.sha256 != checked_sha256(self.sha256):
            raise ValueError("a sha256 is written in lower case")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """The time limits and the number of tries.

    The count of tries restarts whenever `reset_bytes` have arrived. A connection that brings
    less than `slowest_bytes` in `stall_seconds` is given up, however busy it looks.
    """

    connect_seconds: float = 5.0
    stall_seconds: float = 60.0
    slowest_bytes: int = 16 * 1024
    tries: int = 6
    backoff_seconds: float = 0.5
    backoff_limit: float = 30.0
    reset_bytes: int = 256 * 1024
    lock_seconds: float = 3600.0


class Progress(Protocol):
    """Is told how the download goes; methods are called from several threads."""

    def expect(self, total: int) -> None:
        """Learn how many bytes there are in all; cached files are not part of it."""

    def advance(self, delta: int) -> None:
        """Count bytes; negative when a server made us restart a file."""

    def say(self, message: str) -> None:
        """Hear something that a person may want to know."""


@final
class SilentProgress:
    """Hears everything and says nothing."""

    def expect(self, total: int) -> None:
        """Forget it."""

    def advance(self, delta: int) -> None:
        """Forget it."""

    def say(self, message: str) -> None:
        """Forget it."""
