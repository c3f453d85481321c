"""What is to be fetched, how patiently, and where progress is reported."""

from dataclasses import dataclass
from typing import Protocol, final


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Artefact:
    """One file: its name, the addresses that serve the same bytes, checksum and size if known."""

    name: str
    urls: tuple[str, ...]
    sha256: str | None = None
    size: int | None = None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to wait and how often to try again.

    The count of tries starts anew whenever `reset_bytes` have arrived. A connection that brings
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
        """Count bytes; negative when a server made us start a file anew."""

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
