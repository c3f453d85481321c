"""One request for one file: its headers, and how far to believe the answer."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final, final

from fdl_cli.net.artefact import Artefact, Patience, Progress
from fdl_cli.net.blocks import Blocks
from fdl_cli.net.digest import RunningDigest
from fdl_cli.net.store import PartNote, Store

if TYPE_CHECKING:
    import httpx

_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")
_UNSATISFIED = re.compile(r"bytes \*/(\d+)")
_RETRY_STATUS: Final = frozenset({408, 425, 429, 500, 502, 503, 504})


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The end of a transfer: complete, refused by this host, or worth another try."""

    reason: str = ""
    complete: bool = False
    refused: bool = False
    wait_seconds: float | None = None


@final
class Transfer:
    """Requests the missing part of a file from one address and appends it to the part."""

    def __init__(
        self,
        client: "httpx.Client",
        store: Store,
        artefact: Artefact,
        url: str,
        patience: Patience,
        progress: Progress,
        stopped: Callable[[], bool],
        digest: RunningDigest,
    ) -> None:
        self.received = 0
        self.position = 0
        self._client = client
        self._store = store
        self._artefact = artefact
        self._url = url
        self._patience = patience
        self._progress = progress
        self._stopped = stopped
        self._digest = digest

    def run(self) -> Ended:
        """Make the request; transport errors are left to the caller."""
        have = self._usable_prefix()
        size = self._known_size()
        if size is not None and have == size and have > 0:
            self._progress.advance(have)
            return Ended(complete=True)
        headers = {"Accept-Encoding": "identity"}
        if have:
            headers["Range"] = f"bytes={have}-"
            validator = self._validator_here()
            if validator is not None:
                headers["If-Range"] = validator
        with self._client.stream("GET", self._url, headers=headers) as response:
            return self._answer(response, have)

    def _answer(self, response: "httpx.Response", have: int) -> Ended:
        match response.status_code:
            case 200:
                return self._receive(response, 0)
            case 206 if have:
                return self._continue(response, have)
            case 416 if have:
                return self._beyond_the_end(response, have)
            case status if status in _RETRY_STATUS:
                return Ended(reason=f"HTTP {status}", wait_seconds=_retry_after(response))
            case status:
                # 403 and 404 alike mean: not on this host.
                return Ended(reason=f"HTTP {status}", refused=True)

    def _continue(self, response: "httpx.Response", have: int) -> Ended:
        """Accept a 206 only if it continues exactly where the part ends."""
        found = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
        size = self._known_size()
        encoded = _is_encoded(response)
        if (
            found is None
            or int(found.group(1)) != have
            or encoded
            or (size is not None and found.group(3) not in (str(size), "*"))
        ):
            self._store.discard_part(self._artefact)
            said = response.headers.get("Content-Range", "no Content-Range")
            return Ended(reason=f"the server continues elsewhere ({said})")
        return self._receive(response, have)

    def _beyond_the_end(self, response: "httpx.Response", have: int) -> Ended:
        found = _UNSATISFIED.fullmatch(response.headers.get("Content-Range", ""))
        size = self._known_size() or (int(found.group(1)) if found else None)
        if size is not None and have == size:
            self._progress.advance(have)
            return Ended(complete=True)
        self._store.discard_part(self._artefact)
        return Ended(reason="the server has fewer bytes than arrived before")

    def _receive(self, response: "httpx.Response", start: int) -> Ended:
        """Append the body from `start` on; the part is cut there first."""
        total = self._total(response, start)
        known = self._known_size()
        if known is not None and total is not None and total != known and start == 0:
            return Ended(reason=f"the server's file has {total} bytes, not {known}", refused=True)
        part = self._store.part(self._artefact)
        part.parent.mkdir(parents=True, exist_ok=True)
        self._store.write_note(
            self._artefact,
            PartNote(url=self._url, validator=_validator(response), size=known or total),
        )
        with part.open("r+b" if part.exists() else "w+b") as file:
            file.truncate(start)
            file.seek(start)
            self._progress.advance(start)
            self._digest.start_at(start)
            ended = self._copy(response, file, known or total, start)
            self.position = start + self.received
        if not ended.complete:
            self._progress.advance(-(start + self.received))
        return ended

    def _copy(
        self, response: "httpx.Response", file: BinaryIO, total: int | None, start: int
    ) -> Ended:
        import httpx

        watch = _Watch(self._patience)
        blocks = Blocks(file, self._digest)
        try:
            for count in blocks.receive(response, decoded=_is_encoded(response)):
                self._count(count)
                if self._stopped():
                    return Ended(reason="stopped")
                if total is not None and start + self.received > total:
                    self._store.note(self._artefact).unlink(missing_ok=True)
                    return Ended(reason=f"the server sends more than {total} bytes")
                if watch.stalled(count):
                    return Ended(reason="the connection is too slow")
        except (httpx.TransportError, httpx.DecodingError) as problem:
            name = type(problem).__name__
            return Ended(reason=f"{name} after {start + blocks.received} bytes: {problem}")
        finally:
            blocks.flush()
            self._count(blocks.received - self.received)
        if total is not None and start + self.received < total:
            return Ended(reason=f"the server ended after {start + self.received} bytes")
        return Ended(complete=True)

    def _count(self, count: int) -> None:
        self.received += count
        self._progress.advance(count)

    def _total(self, response: "httpx.Response", start: int) -> int | None:
        if _is_encoded(response):
            return None
        text = response.headers.get("Content-Length", "")
        # A missing or senseless length is no information, not an error.
        return start + int(text) if text.isdecimal() else None

    def _known_size(self) -> int | None:
        if self._artefact.size is not None:
            return self._artefact.size
        note = self._store.read_note(self._artefact)
        return note.size if note is not None and self._usable_prefix() else None

    def _usable_prefix(self) -> int:
        """Return how many bytes of the part may be kept.

        Without a checksum only a strong validator from the same address allows it: nothing else
        would notice that two different files were glued together.
        """
        try:
            have = self._store.part(self._artefact).stat().st_size
        except FileNotFoundError:
            return 0
        if self._artefact.size is not None and have > self._artefact.size:
            return 0
        if self._artefact.sha256 is not None:
            return have
        return have if self._validator_here() is not None else 0

    def _validator_here(self) -> str | None:
        note = self._store.read_note(self._artefact)
        return note.validator if note is not None and note.url == self._url else None


@final
class _Watch:
    """Notices a connection that delivers next to nothing."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._since = time.monotonic()
        self._bytes = 0

    def stalled(self, count: int) -> bool:
        """Count bytes; true when a whole window brought too few."""
        self._bytes += count
        now = time.monotonic()
        if now - self._since < self._patience.stall_seconds:
            return False
        slow = self._bytes < self._patience.slowest_bytes
        self._since, self._bytes = now, 0
        return slow


def _is_encoded(response: "httpx.Response") -> bool:
    # Some servers compress although the request wants identity.
    return response.headers.get("Content-Encoding", "identity").lower() not in ("identity", "")


def _validator(response: "httpx.Response") -> str | None:
    """Return the value for If-Range: a strong ETag, else the date; never a weak ETag."""
    if _is_encoded(response):
        return None
    tag = response.headers.get("ETag")
    if tag is not None:
        return None if tag.startswith("W/") else str(tag)
    date = response.headers.get("Last-Modified")
    return None if date is None else str(date)


def _retry_after(response: "httpx.Response") -> float | None:
    text = response.headers.get("Retry-After", "")
    if text.isdecimal():
        return float(text)
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (TypeError, ValueError):
        return None
