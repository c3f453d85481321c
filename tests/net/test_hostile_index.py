"""Indexes that answer with anything, and file names and checksums that would lead out of the cache."""

import json
import random
import string

import pytest
from faulty_server import Handler, serve

from fdl_cli.errors import EnvironmentLackingError
from fdl_cli.net import simple_index
from fdl_cli.net.artefact import Artefact, Patience
from fdl_cli.net.client import make_client
from fdl_cli.net.simple_index import read_page
from fdl_cli.net.store import Store
from fdl_cli.torch_setup.index import _held
from tests.mutation_bounds import Bounds

SHA = "a" * 64


@pytest.fixture
def answer(monkeypatch):
    """Return a function that reads a page with the given bytes and content type."""
    kind = ["application/json"]
    end = Handler.end_headers

    def with_type(self):
        self.send_header("Content-Type", kind[0])
        end(self)

    monkeypatch.setattr(Handler, "end_headers", with_type)

    def read(content, content_type="application/vnd.pypi.simple.v1+json"):
        kind[0] = content_type
        with serve({"/p/": content}) as site, make_client(Patience(connect_seconds=1)) as client:
            return read_page(client, f"{site.url}/p/")

    return read


def files(**changes):
    item = {
        "filename": "x-1.0-py3-none-any.whl",
        "url": "x.whl",
        "hashes": {"sha256": SHA},
        "size": 1,
    }
    return json.dumps({"files": [item | changes]}).encode()


@pytest.mark.parametrize(
    "content",
    [
        b"", b"nothing", b"5", b"[]", b"{}", b"null", b'{"files": 5}', b'{"files": [5]}',
        b'{"files": [{}]}', b'{"files": [{"filename": "x"}]}', b"[" * 100_000, b"\xff\xfe",
        files(filename=5), files(filename="../x"), files(filename=".."), files(filename=""),
        files(filename="a\x1b[2J"), files(url="http://[::1"), files(hashes=5), files(size="many"),
        files(size=-1), files(size=1.5), files(hashes={"sha256": "../.."}), files(hashes={"sha256": 5}),
        files(hashes={"sha256": "a" * 63}), files(hashes={"sha256": SHA[:62] + "/x"}),
    ],
)  # fmt: skip
def test_index_malformed_json_is_a_named_error(content, answer):
    with pytest.raises(EnvironmentLackingError) as caught:
        answer(content)
    assert caught.value.error_id == "index-malformed"
    assert "--index-url" in caught.value.hint


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b'<a href="http://[::1">x</a>', "text/html"),
        (b"<a href='x.whl'>x</a>" * 200_000, "text/html"),
    ],
)
def test_index_malformed_html_is_a_named_error(content, kind, answer, monkeypatch):
    monkeypatch.setattr(simple_index, "MOST_BYTES", 1_000_000)
    with pytest.raises(EnvironmentLackingError) as caught:
        answer(content, kind)
    assert caught.value.error_id == "index-malformed"


def test_index_html_of_an_unknown_charset_is_read(answer):
    page = answer(b"<a href='/a/x-1.0.whl'>x</a>", "text/html; charset=klingon")
    assert [link.name for link in page.links] == ["x-1.0.whl"]


def test_index_html_links_that_lead_up_are_no_files(answer):
    page = answer(
        b"<a href='/a/..%2F..%2Fx'>x</a><a href='../'>up</a><a href='/y'>y</a>", "text/html"
    )
    assert [link.name for link in page.links] == ["y"]


@pytest.mark.parametrize("sha256", ["../..", "", "/etc", "A" * 64, "a" * 63, "a" * 64 + "\n"])
def test_artefact_checksum_that_is_none_is_refused(sha256):
    with pytest.raises(ValueError, match="sha256"):
        Artefact(name="x.whl", urls=("http://h/x.whl",), sha256=sha256)


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "/etc/passwd", "a\\b", "a\nb"])
def test_artefact_name_with_folders_is_refused(name):
    with pytest.raises(ValueError, match="no name of a file"):
        Artefact(name=name, urls=("http://h/x.whl",))


def test_store_places_stay_in_its_folder(tmp_path):
    store = Store(tmp_path)
    for artefact in (
        Artefact(name="x.whl", urls=("u",), sha256=SHA),
        Artefact(name="...", urls=("../../u",)),
    ):
        for place in (store.finished(artefact), store.part(artefact), store.lock(artefact)):
            assert place.resolve().is_relative_to(tmp_path)


# ---- mutations -------------------------------------------------------------------------------------


def page():
    names = [
        f"torch-2.{minor}.0%2B{variant}-cp3{python}-cp3{python}-manylinux_2_28_x86_64.whl"
        for minor in (12, 13) for variant in ("cpu", "cu126") for python in (11, 12)
    ]  # fmt: skip
    html = "".join(f'<a href="/whl/{name}#sha256={SHA}">{name}</a>\n' for name in names).encode()
    document = {
        "files": [
            {
                "filename": name.replace("%2B", "+"),
                "url": name,
                "hashes": {"sha256": SHA},
                "size": 9,
            }
            for name in names
        ]
    }
    return html, json.dumps(document).encode()


PIECES = [b"..", b"/", b"%2F", b'"', b"<", b">", b"[", b"{", b"-1", b"null", b"9" * 5000, b"\xff", b"\x00",
          b"%", b"#", b"[::", b"1e999", b"\\ud800", b"cp", b"+"]  # fmt: skip


def mutated(data, generator):
    data = bytearray(data)
    for _ in range(generator.randrange(1, 5)):
        place = generator.randrange(len(data))
        match generator.randrange(4):
            case 0:
                data[place] = ord(generator.choice(string.printable))
            case 1:
                data[place:place] = generator.choice(PIECES)
            case 2:
                del data[place : place + generator.randrange(1, 30)]
            case 3:
                data[place] = generator.randrange(256)
    return bytes(data)


class Answer:
    """One answer of a server, and the client that gets it."""

    status_code = 200
    url = "http://host/whl/torch/"

    def __init__(self, kind, content):
        self.headers = {"Content-Type": kind}
        self._content = content

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def iter_bytes(self):
        yield self._content

    def stream(self, *_, **__):
        return self


def refused(answer):
    try:
        links = read_page(answer, answer.url).links
    except EnvironmentLackingError:
        return True
    for build in _held(links, "linux_x86_64", None):
        assert all(part.isdecimal() for part in build.version.split("."))
    for link in links:
        Artefact(name=link.name, urls=(link.url,), sha256=link.sha256, size=link.size)
    return False


def survives_mutations(count, seed):
    """Read mutated lists without a server; return the bounds of all."""
    generator = random.Random(seed)
    kinds = ("text/html", "application/json")
    bounds = Bounds(lambda: [refused(Answer(kinds[index], page()[index])) for index in (0, 1)])
    for index in range(count):
        answer = Answer(kinds[index % 2], mutated(page()[index % 2], generator))
        found = bounds.run(lambda answer=answer: refused(answer))
        bounds.outcomes["refused" if found else "accepted"] += 1
    bounds.check()
    return bounds


def test_index_mutated_answers_raise_named_errors_alone():
    assert survives_mutations(400, 1).outcomes["refused"] > 100


@pytest.mark.campaign("index", covers=("fdl_cli/net", "fdl_cli/torch_setup/index.py"))
def test_index_campaign_of_ten_thousand_mutations(campaign):
    bounds = survives_mutations(10_000, 2)
    assert bounds.outcomes["refused"] > 2_000
    campaign.write(seed=2, cases=10_000, outcomes=bounds.outcomes, worst=bounds.worst)
