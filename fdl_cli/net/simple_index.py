"""Reader of package indexes: the simple API as HTML or JSON, and flat listings of files."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any, Final, final
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from fdl_cli.errors import EnvironmentLackingError
from fdl_cli.net.artefact import checked_name, checked_sha256
from fdl_cli.net.client import certificate_error, host_of, is_certificate_problem

if TYPE_CHECKING:
    import httpx

# The longest list of PyPI has 40 MB.
MOST_BYTES: Final = 100_000_000
ACCEPT: Final = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"
_WHEEL = re.compile(
    r"(?P<name>[^-]+)-(?P<version>[^-]+)(-\d[^-]*)?-(?P<python>[^-]+)-(?P<abi>[^-]+)"
    r"-(?P<platform>[^-]+)\.whl"
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class IndexLink:
    """One file that an index offers; the file name is decoded (`%2B` is `+`)."""

    name: str
    url: str
    sha256: str | None
    size: int | None
    yanked: bool


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class WheelName:
    """The parts of a wheel's file name; `local` is the part after `+`."""

    project: str
    version: str
    local: str | None
    python: tuple[str, ...]
    abi: tuple[str, ...]
    platforms: tuple[str, ...]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class IndexPage:
    """One answer: the links, or None when nothing changed since `tag`."""

    links: tuple[IndexLink, ...] | None
    tag: str | None


def read_page(client: "httpx.Client", url: str, tag: str | None = None) -> IndexPage | None:
    """Read one page; None when the index does not have it (403 and 404 alike).

    Raises:
        EnvironmentLackingError: the index cannot be reached, or answers with something else.
    """
    import httpx

    headers = {"Accept": ACCEPT} | ({"If-None-Match": tag} if tag else {})
    try:
        with client.stream("GET", url, headers=headers) as response:
            body = _body(url, response)
    except httpx.ConnectError as problem:
        if is_certificate_problem(problem):
            raise certificate_error(url, problem) from problem
        raise _unreachable(url, str(problem)) from problem
    except (httpx.TransportError, httpx.InvalidURL, httpx.TooManyRedirects) as problem:
        raise _unreachable(url, str(problem) or type(problem).__name__) from problem
    if response.status_code == 304:
        return IndexPage(links=None, tag=tag)
    if response.status_code in (403, 404, 410):
        return None
    if response.status_code != 200:
        raise _unreachable(url, f"HTTP {response.status_code}")
    base = str(response.url)
    kind = response.headers.get("Content-Type", "")
    try:
        # The simple API is UTF-8; a charset that a server names is not looked up.
        read = (
            _from_json(json.loads(body), base)
            if "json" in kind
            else _from_html(body.decode("utf-8", "replace"), base)
        )
        links = tuple(read)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as problem:
        raise malformed(url, str(problem) or type(problem).__name__) from problem
    return IndexPage(links=links, tag=response.headers.get("ETag"))


def malformed(url: str, reason: str) -> EnvironmentLackingError:
    """Return the error for an index whose answer is no list of files."""
    return EnvironmentLackingError(
        error_id="index-malformed",
        message=f"the index at {host_of(url)} answered with something that is no list of files: {reason}",
        hint="check the address, name another index with `--index-url`, or plan without network: `--offline`",
    )


def _body(url: str, response: "httpx.Response") -> bytes:
    data = bytearray()
    for part in response.iter_bytes():
        data += part
        if len(data) > MOST_BYTES:
            raise malformed(url, f"it is longer than {MOST_BYTES:,} bytes")
    return bytes(data)


def parse_wheel_name(name: str) -> WheelName | None:
    """Split a wheel's file name.

    Example:
        >>> parse_wheel_name("torch-2.14.1%2Bcu126-cp312-cp312-win_amd64.whl").local
        'cu126'
    """
    found = _WHEEL.fullmatch(unquote(name))
    if found is None:
        return None
    version, _, local = found.group("version").partition("+")
    return WheelName(
        project=re.sub(r"[-_.]+", "-", found.group("name")).lower(),
        version=version,
        local=local or None,
        python=tuple(found.group("python").split(".")),
        abi=tuple(found.group("abi").split(".")),
        platforms=tuple(found.group("platform").split(".")),
    )


def _from_json(document: dict[str, Any], base: str) -> Iterator[IndexLink]:
    for item in document["files"]:
        size = item.get("size")
        if size is not None and (type(size) is not int or size < 0):
            raise ValueError(f"{str(size)[:40]!r} is no size")
        yield IndexLink(
            name=checked_name(item["filename"]),
            url=urljoin(base, str(item["url"])),
            sha256=checked_sha256((item.get("hashes") or {}).get("sha256")),
            size=size,
            yanked=bool(item.get("yanked")),
        )


def _from_html(text: str, base: str) -> Iterator[IndexLink]:
    parser = _Anchors()
    parser.feed(text)
    for attributes in parser.found:
        href = attributes.get("href") or ""
        address, fragment = urldefrag(urljoin(base, href))
        name = unquote(urlsplit(address).path.rsplit("/", maxsplit=1)[-1])
        try:
            checked_name(name)
        except ValueError:
            continue  # a link to a folder, or to no file
        checksum = re.search(r"sha256=([0-9a-f]{64})", fragment)
        yield IndexLink(
            name=name,
            url=address,
            sha256=checksum.group(1) if checksum else None,
            size=None,
            yanked="data-yanked" in attributes,
        )


@final
class _Anchors(HTMLParser):
    """Collects the attributes of all links."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[dict[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep the attributes of one link."""
        if tag == "a":
            self.found.append(dict(attrs))


def _unreachable(url: str, reason: str) -> EnvironmentLackingError:
    return EnvironmentLackingError(
        error_id="index-unreachable",
        message=f"the index at {host_of(url)} cannot be read: {reason}",
        hint="check the network and HTTPS_PROXY, name another index with `--index-url`, "
        "or plan without network: `--offline`",
    )
