"""Available torch builds and their sources: the official index, another one, or pip's own.

All variants are read or none, so that a plan never mixes two states of an index.
"""

import re
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, final

from fdl_cli.errors import EnvironmentLackingError, FdlError, Notice
from fdl_cli.net.artefact import Patience
from fdl_cli.net.client import make_client
from fdl_cli.net.simple_index import IndexLink, IndexPage, WheelName, parse_wheel_name, read_page
from fdl_cli.torch_setup.choice.catalogue import Build, HeldBuild, PlatformKey
from fdl_cli.torch_setup.snapshot import Snapshot, load_snapshot, save_snapshot

OFFICIAL: Final = "https://download.pytorch.org/whl"
FRESH_SECONDS: Final = 24 * 3600.0

SourceKind = Literal["official", "index", "configured", "wheels", "table"]

_RELEASE: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9}){0,5}")
_CREDENTIALS: Final = re.compile(r"(?<=://)[^/@\s]+@")
_PLATFORM_TAGS: Final[dict[PlatformKey, tuple[str, ...]]] = {
    "linux_x86_64": ("manylinux", "linux_x86_64"),
    "linux_aarch64": ("manylinux", "linux_aarch64"),
    "windows_amd64": ("win_amd64",),
    "windows_arm64": ("win_arm64",),
    "macos_arm64": ("macosx",),
    "macos_x86_64": ("macosx",),
}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class IndexView:
    """The available builds; `held` is None when only the table's word is known.

    `address` is where a variant's packages are, with `{variant}` where it differs by variant.
    """

    kind: SourceKind
    address: str | None
    held: tuple[HeldBuild, ...] | None
    taken_at: float | None
    notices: tuple[Notice, ...] = ()

    def address_of(self, variant: str) -> str | None:
        """Return the index that holds a variant; None when pip's configuration is the source."""
        return None if self.address is None else self.address.replace("{variant}", variant)

    def public_address_of(self, variant: str) -> str | None:
        """Return the same address as it may be written down: without credentials."""
        address = self.address_of(variant)
        return None if address is None else without_credentials(address)


def without_credentials(address: str) -> str:
    """Return an address without user name and password.

    Example:
        >>> without_credentials("https://ann:secret@host/whl")
        'https://host/whl'
    """
    return _CREDENTIALS.sub("", address)


def read_live(
    base: str, key: PlatformKey, table: tuple[Build, ...], cache: Path, patience: Patience,
    proxy: str | None,
) -> IndexView:  # fmt: skip
    """Read all variants of an index, with conditional requests against the kept snapshot.

    Raises:
        EnvironmentLackingError: the index cannot be read, or holds no torch for this platform.
    """
    kept = load_snapshot(cache)
    source = f"{without_credentials(base)}|{key}"
    known = kept if kept is not None and kept.source == source else None
    variants = sorted({build.variant for build in table})
    with make_client(patience, proxy) as client:
        single = read_page(client, f"{base}/torch/")
        if single is not None and single.links:
            held = _held(single.links, key, None)
            address = base
            tags: tuple[tuple[str, str], ...] = ()
        else:
            address = f"{base}/{{variant}}"
            tags_before = dict(known.tags) if known is not None else {}
            with ThreadPoolExecutor(8) as pool:
                pages = list(
                    pool.map(
                        lambda name: read_page(
                            client, f"{base}/{name}/torch/", tags_before.get(name)
                        ),
                        variants,
                    )
                )
            held, tags = _combine(variants, pages, key, known)
    if not held:
        raise EnvironmentLackingError(
            error_id="index-without-torch",
            message=f"the index {base} holds no torch for this platform",
            hint="name another index with `--index-url`",
        )
    taken = time.time()
    save_snapshot(
        cache,
        Snapshot(
            source=source,
            address=without_credentials(address),
            taken_at=taken,
            held=held,
            tags=tags,
        ),
    )
    kind: SourceKind = "official" if base == OFFICIAL else "index"
    return IndexView(kind=kind, address=address, held=held, taken_at=taken)


def configured_source(key: PlatformKey, python: str) -> str:
    """Return the source name of pip's own configuration: pip lists files for one Python only."""
    return f"pip|{key}|{python}"


def read_kept(
    base: str,
    key: PlatformKey,
    cache: Path,
    *,
    python: str | None = None,
    longest: float | None = FRESH_SECONDS,
) -> IndexView | None:
    """Return the kept snapshot of an index, unless it is too old.

    Args:
        base: the address of the index, or `pip` for pip's own configuration.
        key: the platform.
        cache: where snapshots are kept.
        python: the version of the interpreter, such as `3.12` or `3.13t`; for pip's configuration.
        longest: the greatest age in seconds, None for any.
    """
    kept = load_snapshot(cache)
    public = without_credentials(base)
    source = configured_source(key, python or "") if base == "pip" else f"{public}|{key}"
    if kept is None or kept.source != source:
        return None
    if longest is not None and time.time() - kept.taken_at > longest:
        return None
    kind: SourceKind = (
        "configured" if base == "pip" else "official" if base == OFFICIAL else "index"
    )
    return IndexView(
        kind=kind,
        # The kept address has no credentials; the request brings them along again.
        address=None if kept.address is None else kept.address.replace(public, base),
        held=kept.held,
        taken_at=kept.taken_at,
        notices=(_pip_notice(""),) if kind == "configured" else (),
    )


def held_files(
    links: Iterable[IndexLink], key: PlatformKey, default: dict[str, str]
) -> tuple[HeldBuild, ...]:
    """Return the builds behind files whose names carry no variant: PyPI's, by the table."""
    return _held(links, key, default)


def fallback_notice(base: str, problem: FdlError) -> Notice:
    """Return the notice that pip's own configuration is used instead of an index."""
    return _pip_notice(f"{base} could not be read ({problem.message}); ")


def _pip_notice(reason: str) -> Notice:
    return Notice(
        id="index-unreachable" if reason else "index-configured",
        message=f"{reason}torch comes from the indexes that pip is configured with",
        hint="see them with `pip config list`; name another with `--index-url`",
    )


def _combine(
    variants: list[str],
    pages: list[IndexPage | None],
    key: PlatformKey,
    known: Snapshot | None,
) -> tuple[tuple[HeldBuild, ...], tuple[tuple[str, str], ...]]:
    held: list[HeldBuild] = []
    tags: list[tuple[str, str]] = []
    for variant, page in zip(variants, pages, strict=True):
        if page is None:
            continue
        if page.tag is not None:
            tags.append((variant, page.tag))
        if page.links is None:
            before = known.held if known is not None else ()
            held += [item for item in before if item.variant == variant]
        else:
            # An unknown name may answer with some other listing: the wheels' own tag decides.
            found = _held(page.links, key, None)
            held += [item for item in found if item.variant == variant]
    return tuple(held), tuple(tags)


def _held(
    links: Iterable[IndexLink], key: PlatformKey, default: dict[str, str] | None
) -> tuple[HeldBuild, ...]:
    pythons: dict[tuple[str, str, bool], set[str]] = {}
    for link in links:
        wheel = None if link.yanked else parse_wheel_name(link.name)
        if wheel is None or wheel.project != "torch" or not _fits(wheel, key):
            continue
        if _RELEASE.fullmatch(wheel.version) is None:
            continue  # release candidates and nightlies are never chosen
        variant = wheel.local or _untagged(wheel.version, key, default)
        if variant is None:
            continue
        key_of_build = (wheel.version, variant, wheel.local is not None)
        pythons.setdefault(key_of_build, set()).update(_pythons(wheel))
    return tuple(
        HeldBuild(version=version, variant=variant, pythons=tuple(sorted(names)), tagged=tagged)
        for (version, variant, tagged), names in sorted(pythons.items())
    )


def _untagged(version: str, key: PlatformKey, default: dict[str, str] | None) -> str | None:
    if key.startswith("macos"):
        return "cpu"
    return None if default is None else default.get(".".join(version.split(".")[:2]))


def _fits(wheel: WheelName, key: PlatformKey) -> bool:
    starts = _PLATFORM_TAGS[key]
    machine = key.partition("_")[2]
    for tag in wheel.platforms:
        if key.startswith("windows"):
            if tag in starts:
                return True
        elif tag.startswith(starts) and tag.endswith((machine, "universal2")):
            return True
    return False


def _pythons(wheel: WheelName) -> set[str]:
    found = set()
    for tag in wheel.python:
        digits = tag.removeprefix("cp")
        if digits.isascii() and digits.isdecimal() and len(digits) > 1:
            threaded = "t" if any(abi.endswith("t") for abi in wheel.abi) else ""
            found.add(f"{digits[0]}.{digits[1:]}{threaded}")
    return found
