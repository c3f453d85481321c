"""Downloads: in parallel, resumable across runs, verified, and never a wrong file.

Every file goes through the store: lock, part, checksum, rename. A server's answer is
believed only as far as it can be checked.
"""

import queue
import random
import threading
import time
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, final
from urllib.parse import unquote, urlsplit

from fdl_cli.errors import EnvironmentLackingError, FdlError, OperationFailedError
from fdl_cli.net.artefact import Artefact, Patience, Progress
from fdl_cli.net.client import certificate_error, host_of, is_certificate_problem, make_client
from fdl_cli.net.digest import RunningDigest
from fdl_cli.net.locks import locked
from fdl_cli.net.store import Store, sha256_of
from fdl_cli.net.transfer import Ended, Transfer

if TYPE_CHECKING:
    import httpx

WORKERS: Final = 4


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """A complete file; `verified` is false when no checksum is published for it."""

    artefact: Artefact
    path: Path
    verified: bool
    from_cache: bool


def fetch_all(
    artefacts: Sequence[Artefact],
    store: Store,
    *,
    progress: Progress,
    patience: Patience | None = None,
    proxy: str | None = None,
    workers: int = WORKERS,
) -> tuple[Fetched, ...]:
    """Fetch all files, several at a time; the first failure stops the rest.

    Raises:
        FdlError: a file is not available; its finished part is kept for the next run.
    """
    patience = patience or Patience()
    progress.expect(sum(item.size or 0 for item in artefacts if not _is_here(item, store)))
    with make_client(patience, proxy) as client:
        fetcher = _Fetcher(client, store, patience, progress)
        try:
            return _in_parallel(fetcher, artefacts, workers)
        finally:
            fetcher.stop()


def _in_parallel(
    fetcher: "_Fetcher", artefacts: Sequence[Artefact], workers: int
) -> tuple[Fetched, ...]:
    """Fetch with several threads; Ctrl-C does not wait for a connection that hangs."""
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    answers: queue.SimpleQueue[tuple[int, Fetched | BaseException]] = queue.SimpleQueue()
    for number in range(len(artefacts)):
        waiting.put(number)

    def work() -> None:
        while True:
            try:
                number = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                answers.put((number, fetcher.fetch(artefacts[number])))
            except BaseException as problem:
                answers.put((number, problem))
                return

    # Daemon threads: the process may end while one of them waits for a dead connection.
    for _ in range(min(workers, len(artefacts))):
        threading.Thread(target=work, daemon=True).start()
    found: dict[int, Fetched] = {}
    while len(found) < len(artefacts):
        number, answer = answers.get()
        if isinstance(answer, BaseException):
            raise answer
        found[number] = answer
    return tuple(found[number] for number in range(len(artefacts)))


def local_path(artefact: Artefact) -> Path | None:
    """Return the file that a `file:` address names; None for every other address."""
    for url in artefact.urls:
        parts = urlsplit(url)
        if parts.scheme == "file":
            return Path(unquote(parts.path))
    return None


def _is_here(artefact: Artefact, store: Store) -> bool:
    return local_path(artefact) is not None or store.finished(artefact).is_file()


@final
class _Fetcher:
    """Fetches single files for one run."""

    def __init__(
        self, client: "httpx.Client", store: Store, patience: Patience, progress: Progress
    ) -> None:
        self._client = client
        self._store = store
        self._patience = patience
        self._progress = progress
        self._stopped = False

    def stop(self) -> None:
        """Let running transfers end at their next block."""
        self._stopped = True

    def fetch(self, artefact: Artefact) -> Fetched:
        """Return one file, from this machine, from the cache or from the network."""
        here = local_path(artefact)
        if here is not None:
            return self._local(artefact, here)
        finished = self._store.finished(artefact)
        try:
            if self._is_whole(artefact, finished):
                return self._done(artefact, finished, from_cache=True)
            with locked(
                self._store.lock(artefact),
                wait_seconds=self._patience.lock_seconds,
                say=self._progress.say,
            ):
                # Another process may have finished it while we waited.
                if self._is_whole(artefact, finished):
                    self._progress.advance(artefact.size or 0)
                    return self._done(artefact, finished, from_cache=True)
                return self._done(artefact, self._from_network(artefact), from_cache=False)
        except OSError as problem:
            raise _cannot_write(self._store.folder, artefact, problem) from problem

    def _is_whole(self, artefact: Artefact, finished: Path) -> bool:
        """Return True if the cache has the file; a damaged one is removed."""
        if not finished.is_file():
            return False
        if artefact.sha256 is None or sha256_of(finished) == artefact.sha256:
            return True
        self._progress.say(f"{artefact.name} in the cache is damaged; fetching it again")
        finished.unlink()
        return False

    def _done(self, artefact: Artefact, path: Path, *, from_cache: bool) -> Fetched:
        return Fetched(
            artefact=artefact,
            path=path,
            verified=artefact.sha256 is not None,
            from_cache=from_cache,
        )

    def _local(self, artefact: Artefact, path: Path) -> Fetched:
        if not path.is_file():
            raise EnvironmentLackingError(
                error_id="file-missing",
                message=f"`{path}` does not exist any more",
                hint="look at pip's find-links: `pip config list`",
            )
        if artefact.sha256 is not None and sha256_of(path) != artefact.sha256:
            raise _corrupt(artefact, str(path))
        return self._done(artefact, path, from_cache=True)

    def _from_network(self, artefact: Artefact) -> Path:
        """Try the addresses in turn; a wrong checksum gets exactly one more chance."""
        mismatches = 0
        digest = RunningDigest(self._store.part(artefact))
        urls = list(artefact.urls)
        while True:
            url = self._complete_part(artefact, urls, digest)
            if artefact.sha256 is None:
                self._progress.say(f"{artefact.name}: unverified, no checksum is published")
                self._require_archive(artefact, url)
                return self._store.finish(artefact)
            if self._verify(artefact, digest):
                return self._store.finish(artefact)
            self._progress.advance(-self._store.part(artefact).stat().st_size)
            self._store.discard_part(artefact)
            mismatches += 1
            if mismatches > 1:
                raise _corrupt(artefact, host_of(url))
            self._progress.say(f"{artefact.name}: wrong checksum from {host_of(url)}, once more")
            # Another host first: the same one may serve the same wrong bytes again.
            urls = [*(other for other in urls if other != url), url]

    def _verify(self, artefact: Artefact, digest: RunningDigest) -> bool:
        part = self._store.part(artefact)
        size = part.stat().st_size
        if artefact.size is not None and size != artefact.size:
            return False
        return (digest.of_size(size) or sha256_of(part)) == artefact.sha256

    def _require_archive(self, artefact: Artefact, url: str) -> None:
        """Without a checksum at least the archive must be whole."""
        if not artefact.name.endswith((".whl", ".zip")):
            return
        part = self._store.part(artefact)
        try:
            with zipfile.ZipFile(part) as archive:
                broken = archive.testzip()
        except (zipfile.BadZipFile, OSError) as problem:
            broken = str(problem)
        if broken is not None:
            self._store.discard_part(artefact)
            raise OperationFailedError(
                error_id="archive-broken",
                message=f"`{artefact.name}` from {host_of(url)} is no whole archive: {broken}",
                hint="try again later, or name another source with `--index-url`",
            )

    def _complete_part(self, artefact: Artefact, urls: list[str], digest: RunningDigest) -> str:
        """Transfer until the part is complete; return the address that ended it."""
        failures = 0
        furthest = 0
        refusals: list[str] = []
        left = list(urls)
        while left:
            url = left[failures % len(left)]
            transfer = Transfer(
                self._client, self._store, artefact, url, self._patience, self._progress,
                lambda: self._stopped, digest,
            )  # fmt: skip
            ended = self._one_try(transfer, url)
            if ended.complete:
                return url
            if ended.refused:
                left.remove(url)
                refusals.append(f"{host_of(url)}: {ended.reason}")
                continue
            # Only bytes beyond all earlier tries count as progress: a server that restarts
            # each time and breaks off must not keep us forever.
            if transfer.position >= furthest + self._patience.reset_bytes:
                furthest = transfer.position
                failures = 0
            failures += 1
            refusals.append(f"{host_of(url)}: {ended.reason}")
            if failures >= self._patience.tries:
                break
            self._pause(failures, ended.wait_seconds, f"{artefact.name}: {ended.reason}")
        raise _unreachable(artefact, refusals)

    def _one_try(self, transfer: Transfer, url: str) -> Ended:
        import httpx

        try:
            return transfer.run()
        except httpx.ConnectError as problem:
            if is_certificate_problem(problem):
                raise certificate_error(url, problem) from problem
            return Ended(reason=f"cannot connect: {problem}")
        except httpx.ProxyError as problem:
            raise EnvironmentLackingError(
                error_id="proxy-refuses",
                message=f"the proxy refuses the connection to {host_of(url)}: {problem}",
                hint="check HTTPS_PROXY and NO_PROXY, or pass `--proxy`",
            ) from problem
        except (httpx.UnsupportedProtocol, httpx.InvalidURL, httpx.TooManyRedirects) as problem:
            return Ended(reason=str(problem), refused=True)
        except httpx.TransportError as problem:
            return Ended(reason=f"{type(problem).__name__}: {problem}".rstrip(": "))

    def _pause(self, failures: int, asked: float | None, reason: str) -> None:
        longest = min(
            self._patience.backoff_limit, self._patience.backoff_seconds * 2 ** (failures - 1)
        )
        # Jitter keeps many machines from coming back at the same moment.
        seconds = asked if asked is not None else longest * random.uniform(0.5, 1.0)
        seconds = min(seconds, self._patience.backoff_limit)
        self._progress.say(f"{reason}; trying again in {seconds:.1f} s")
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not self._stopped:
            time.sleep(min(0.1, max(0.0, deadline - time.monotonic())))


def _corrupt(artefact: Artefact, source: str) -> FdlError:
    return OperationFailedError(
        error_id="checksum-wrong",
        message=f"`{artefact.name}` from {source} is not the file that the index describes: "
        f"its sha256 is not {artefact.sha256}",
        hint="try again later, or name another source with `--index-url` or `--mirror`",
    )


def _unreachable(artefact: Artefact, refusals: list[str]) -> FdlError:
    return EnvironmentLackingError(
        error_id="download-failed",
        message=f"`{artefact.name}` could not be fetched",
        hint="run the same command again: what arrived is kept; behind a proxy set HTTPS_PROXY",
        causes=tuple(dict.fromkeys(refusals)),
    )


def _cannot_write(folder: Path, artefact: Artefact, problem: OSError) -> FdlError:
    import errno

    full = problem.errno in (errno.ENOSPC, errno.EDQUOT)
    return EnvironmentLackingError(
        error_id="disk-full" if full else "cache-not-writable",
        message=f"cannot write `{artefact.name}` below `{folder}`: {problem.strerror or problem}",
        hint="free some space, then run the same command again: what arrived is kept; or use "
        "another disk with `--cache-dir DIR`"
        if full
        else "name a folder that you may write with `--cache-dir DIR`",
    )
