"""Every fault of a server ends in the right file or in a clear error, never in a wrong file."""

import errno
import hashlib
import os
import random
import threading
from pathlib import Path

import pytest
from faulty_server import Faults, serve

from fdl_cli.errors import EnvironmentLackingError, OperationFailedError
from fdl_cli.net.artefact import Artefact, Patience
from fdl_cli.net.download import fetch_all
from fdl_cli.net.store import Store
from fdl_cli.net.transfer import Transfer

pytestmark = pytest.mark.slow

CONTENT = random.Random(7).randbytes(900_000)
SIZE = len(CONTENT)
SHA = hashlib.sha256(CONTENT).hexdigest()
NAME = "thing-1.0-py3-none-any.bin"
QUICK = Patience(
    connect_seconds=1, stall_seconds=0.4, backoff_seconds=0.01, backoff_limit=0.05, lock_seconds=5
)


class Counting:
    """Progress that remembers everything."""

    def __init__(self):
        self.total = 0
        self.done = 0
        self.messages = []
        self._lock = threading.Lock()

    def expect(self, total):
        self.total = total

    def advance(self, delta):
        with self._lock:
            self.done += delta

    def say(self, message):
        self.messages.append(message)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "cache")


def artefact(*sites, sha=SHA, size=SIZE, name=NAME):
    urls = tuple(f"{site.url}/{name}" for site in sites)
    return Artefact(name=name, urls=urls, sha256=sha, size=size)


def get(store, item, patience=QUICK):
    progress = Counting()
    (fetched,) = fetch_all([item], store, progress=progress, patience=patience)
    assert fetched.path.name == item.name
    if item.size is not None:
        assert progress.done == item.size or fetched.from_cache
    return fetched.path.read_bytes()


def leave_part(store, item, data, validator='"strong-1"'):
    from fdl_cli.net.store import PartNote

    store.part(item).parent.mkdir(parents=True, exist_ok=True)
    store.part(item).write_bytes(data)
    store.write_note(item, PartNote(url=item.urls[0], validator=validator, size=None))


def test_a_good_server(store):
    with serve({f"/{NAME}": CONTENT}) as site:
        assert get(store, artefact(site)) == CONTENT
        assert get(store, artefact(site)) == CONTENT
        assert len(site.log) == 1  # the second time it came from the cache
        assert site.log[0][1]["Accept-Encoding"] == "identity"


HEALED = {
    "truncated at 0": Faults(close_after=0),
    "truncated at 1": Faults(close_after=1),
    "truncated in the middle": Faults(close_after=400_000),
    "truncated before the end": Faults(close_after=len(CONTENT) - 1),
    "server error": Faults(status=500, times=3),
    "unavailable": Faults(status=503, headers={"Retry-After": "0"}),
    "too many requests": Faults(status=429, headers={"Retry-After": "0"}),
    "timeout answer": Faults(status=408),
    "flipped byte": Faults(flip_byte=True),
    "silent server": Faults(silent=1.0),
    "dripping server": Faults(drip=0.02),
    "compressed in spite of identity": Faults(gzip=True),
    "chunked, without a length": Faults(chunked=True),
    "breaks off several times": Faults(close_after=50_000, times=5),
}


@pytest.mark.parametrize("fault", HEALED.values(), ids=HEALED)
def test_a_fault_that_passes_is_survived(store, fault):
    fault = Faults(**{**vars(fault), "times": fault.times})
    with serve({f"/{NAME}": CONTENT}, faults=fault) as site:
        assert get(store, artefact(site)) == CONTENT


HALF = CONTENT[:450_000]
RESUMED = {
    "206": (Faults(times=0), "bytes=450000-"),
    "200 instead of 206": (Faults(ignore_range=True), "bytes=450000-"),
    "wrong Content-Range": (Faults(wrong_range=True), "bytes=450000-"),
    "changed ETag": (Faults(change_etag=True), "bytes=450000-"),
    "compressed 206": (Faults(gzip=True), "bytes=450000-"),
}


@pytest.mark.parametrize(("fault", "asked"), RESUMED.values(), ids=RESUMED)
@pytest.mark.parametrize("sha", [SHA, None], ids=["checksum", "no checksum"])
def test_resuming(store, fault, asked, sha):
    fault = Faults(**vars(fault))
    with serve({f"/{NAME}": CONTENT}, faults=fault) as site:
        item = artefact(site, sha=sha)
        leave_part(store, item, HALF)
        assert get(store, item) == CONTENT
        assert site.ranges()[0] == asked
        assert site.log[0][1]["If-Range"] == '"strong-1"'


def test_a_weak_etag_is_never_used(store):
    with serve({f"/{NAME}": CONTENT}, etag='W/"weak"') as site:
        site.faults = Faults(close_after=300_000)
        assert get(store, artefact(site)) == CONTENT
        assert all("If-Range" not in headers for _, headers in site.log)


def test_without_checksum_and_validator_nothing_is_glued_together(store):
    with serve({f"/{NAME}": CONTENT}, etag=None) as site:
        item = artefact(site, sha=None)
        leave_part(store, item, b"x" * 1000, validator=None)
        assert get(store, item) == CONTENT
        assert site.ranges() == [None]


def test_another_file_under_the_same_name_is_noticed(store):
    with serve({f"/{NAME}": CONTENT}) as site:
        item = artefact(site)
        leave_part(store, item, b"x" * 1000)
        assert get(store, item) == CONTENT  # the checksum failed once, then it began anew
        assert site.ranges() == ["bytes=1000-", None]


def test_416_with_everything_there(store):
    with serve({f"/{NAME}": CONTENT}) as site:
        item = artefact(site, size=None)
        leave_part(store, item, CONTENT)
        assert get(store, item) == CONTENT


def test_416_with_too_much_there(store):
    with serve({f"/{NAME}": CONTENT}) as site:
        item = artefact(site, size=None)
        leave_part(store, item, CONTENT + b"more")
        assert get(store, item) == CONTENT


REFUSED = {
    "forbidden": (Faults(status=403, times=99), "download-failed"),
    "not found": (Faults(status=404, times=99), "download-failed"),
    "always an error": (Faults(status=500, times=99), "download-failed"),
    "always truncated": (Faults(close_after=0, times=99), "download-failed"),
    "restarts and truncates": (
        Faults(close_after=300_000, ignore_range=True, times=99), "download-failed",
    ),
    "always corrupt": (Faults(flip_byte=True, times=99), "checksum-wrong"),
    "always silent": (Faults(silent=1.0, times=99), "download-failed"),
    "longer than promised": (Faults(wrong_length=500, times=99), "download-failed"),
}  # fmt: skip


@pytest.mark.parametrize(("fault", "error_id"), REFUSED.values(), ids=REFUSED)
def test_a_fault_that_stays_is_a_clear_error(store, fault, error_id):
    fault = Faults(**vars(fault))
    with serve({f"/{NAME}": CONTENT}, faults=fault) as site:
        item = artefact(site)
        with pytest.raises((EnvironmentLackingError, OperationFailedError)) as caught:
            get(store, item, Patience(**{**_fields(QUICK), "tries": 3}))
        assert caught.value.error_id == error_id
        assert caught.value.hint
        assert NAME in caught.value.message
        assert not store.finished(item).exists()


def _fields(patience):
    return {name: getattr(patience, name) for name in patience.__dataclass_fields__}


def test_forbidden_on_one_host_and_served_by_the_other(store):
    good = {f"/{NAME}": CONTENT}
    with serve({}) as empty, serve(good) as full:
        assert get(store, artefact(empty, full)) == CONTENT
        assert len(empty.log) == 1  # absent is final for a host


def test_a_wrong_checksum_is_tried_once_on_the_other_host(store):
    wrong = {f"/{NAME}": b"z" * len(CONTENT)}
    with serve(wrong) as bad, serve({f"/{NAME}": CONTENT}) as good:
        assert get(store, artefact(bad, good)) == CONTENT
        assert (len(bad.log), len(good.log)) == (1, 1)


def test_a_redirect_to_another_host_loses_credentials(store):
    with serve({f"/{NAME}": CONTENT}) as target, serve({}) as first:
        first.faults = Faults(redirect=target.url)
        with_secret = first.url.replace("http://", "http://ann:secret@")
        item = Artefact(
            name=NAME, urls=(f"{with_secret}/{NAME}",), sha256=SHA, size=len(CONTENT)
        )  # fmt: skip
        assert get(store, item) == CONTENT
        assert "Authorization" in first.log[0][1]
        # Same host, other port: another origin.
        assert "Authorization" not in target.log[0][1]


@pytest.mark.parametrize("scheme", ["file", "ftp", "gopher"])
def test_download_redirect_to_another_scheme_is_refused(scheme, store, tmp_path):
    (tmp_path / NAME).write_bytes(CONTENT)
    with serve({}) as site:
        site.faults = Faults(redirect=f"{scheme}://{tmp_path}", times=9)
        with pytest.raises(EnvironmentLackingError) as caught:
            get(store, artefact(site))
    assert caught.value.error_id == "download-failed"


def test_a_size_that_differs_from_the_index_is_refused(store):
    with serve({f"/{NAME}": CONTENT[:-5]}) as site:
        with pytest.raises(EnvironmentLackingError) as caught:
            get(store, artefact(site))
        assert "899995" in " ".join(caught.value.causes)


def test_a_full_disk_keeps_what_arrived(store, monkeypatch):
    with serve({f"/{NAME}": CONTENT}) as site:
        item = artefact(site)
        copy = Transfer._copy

        def full(self, response, file, total, start):
            file.write(b"")
            file.flush()
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(Transfer, "_copy", full)
        with pytest.raises(EnvironmentLackingError) as caught:
            get(store, item)
        assert caught.value.error_id == "disk-full"
        assert "--cache-dir" in caught.value.hint
        monkeypatch.setattr(Transfer, "_copy", copy)
        assert get(store, item) == CONTENT


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="needs a tmpfs that can be filled")
@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="mounting needs root")
def test_a_really_full_disk(tmp_path):
    import subprocess

    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(small)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("mounting a tmpfs is not allowed here")
    try:
        with serve({f"/{NAME}": CONTENT}) as site:
            item = artefact(site)
            with pytest.raises(EnvironmentLackingError) as caught:
                get(Store(small), item)
            assert caught.value.error_id == "disk-full"
            assert not Store(small).finished(item).exists()
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_a_cache_that_may_not_be_written_serves_what_it_has(store, monkeypatch):
    with serve({f"/{NAME}": CONTENT, "/other": CONTENT}) as site:
        item = artefact(site)
        assert get(store, item) == CONTENT
        other = Artefact(name="other", urls=(f"{site.url}/other",), sha256="0" * 64, size=5)

        def refuse(*args, **kwargs):
            raise PermissionError(errno.EACCES, "Permission denied")

        monkeypatch.setattr(os, "open", refuse)
        assert get(store, item) == CONTENT
        with pytest.raises(EnvironmentLackingError) as caught:
            get(store, other)
        assert caught.value.error_id == "cache-not-writable"


def test_a_damaged_file_in_the_cache_is_fetched_again(store):
    with serve({f"/{NAME}": CONTENT}) as site:
        item = artefact(site)
        assert get(store, item) == CONTENT
        store.finished(item).write_bytes(CONTENT[:-1] + b"?")
        assert get(store, item) == CONTENT
        assert len(site.log) == 2


def test_many_files_at_once(store):
    rng = random.Random(3)
    files = {f"/f{number}.bin": rng.randbytes(50_000) for number in range(20)}
    with serve(files, faults=Faults(close_after=10_000, times=7)) as site:
        items = [
            Artefact(
                name=path[1:], urls=(site.url + path,), size=len(data),
                sha256=hashlib.sha256(data).hexdigest(),
            )
            for path, data in files.items()
        ]  # fmt: skip
        progress = Counting()
        found = fetch_all(items, store, progress=progress, patience=QUICK)
        assert [item.path.read_bytes() for item in found] == list(files.values())
        assert progress.total == progress.done == 20 * 50_000


def test_the_first_failure_stops_the_rest(store):
    with serve({f"/{NAME}": CONTENT}) as site:
        missing = Artefact(name="missing", urls=(f"{site.url}/missing",), sha256=SHA, size=1)
        with pytest.raises(EnvironmentLackingError) as caught:
            fetch_all([missing, artefact(site)], store, progress=Counting(), patience=QUICK)
        assert "missing" in caught.value.message


def test_a_broken_archive_without_checksum_is_refused(store):
    with serve({"/a-1-py3-none-any.whl": CONTENT}) as site:
        item = artefact(site, sha=None, name="a-1-py3-none-any.whl")
        with pytest.raises(OperationFailedError) as caught:
            get(store, item)
        assert caught.value.error_id == "archive-broken"


def test_a_proxy_variable_is_used(store, monkeypatch):
    with serve({"http://files.invalid/" + NAME: CONTENT}) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.delenv("NO_PROXY", raising=False)
        item = Artefact(
            name=NAME, urls=(f"http://files.invalid/{NAME}",), sha256=SHA, size=len(CONTENT)
        )
        assert get(store, item) == CONTENT


def test_a_server_that_is_not_there(store):
    item = Artefact(name=NAME, urls=("http://127.0.0.1:9/x",), sha256=SHA, size=1)
    with pytest.raises(EnvironmentLackingError) as caught:
        get(store, item)
    assert caught.value.error_id == "download-failed"
    assert "127.0.0.1" in " ".join(caught.value.causes)


def test_a_file_of_this_machine_is_checked_too(store, tmp_path):
    local = tmp_path / NAME
    local.write_bytes(CONTENT)
    good = Artefact(name=NAME, urls=(local.as_uri(),), sha256=SHA)
    assert get(store, good) == CONTENT
    with pytest.raises(OperationFailedError) as caught:
        get(store, Artefact(name=NAME, urls=(local.as_uri(),), sha256="0" * 64))
    assert caught.value.error_id == "checksum-wrong"
