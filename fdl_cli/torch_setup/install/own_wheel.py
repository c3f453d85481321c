"""The wheel of this very tool, for a project whose indexes do not have it.

Example:
    `pip install './flodl-0.1.0-py3-none-any.whl[cli]'` was how fdl came to this machine. A project needs
    flodl too, and so do its image and its CI: they install it from `vendor/` of the project, where
    a copy of that wheel lies. If the wheel is gone, one is packed from the files that it has left
    behind, which are the same bytes.

An index serves the project where it served the tool. pip and uv write the origin of a tool to
`direct_url.json`, and no such file for an index.
"""

import base64
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final
from urllib.parse import unquote, urlsplit

from fdl_cli.console import Console
from fdl_cli.errors import EnvironmentLackingError, OperationFailedError
from fdl_cli.system.process import run
from fdl_cli.torch_setup.install.pip_tool import pip_causes

PROJECT: Final = "flodl"
VENDOR: Final = "vendor"
SECONDS: Final = 600.0
_PACKAGES: Final = ("fdl_cli", "flodl", "flodl_verify")
# Files that an installer adds to those of a wheel.
_ADDED: Final = frozenset({"RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json"})
_LONG_AGO: Final = (1980, 1, 1, 0, 0, 0)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OwnInstallation:
    """The installation of this tool: its metadata, and its origin; no origin is an index."""

    distribution: importlib.metadata.Distribution
    origin: dict[str, Any] | None

    @property
    def from_index(self) -> bool:
        """Return True if an index has this tool."""
        return self.origin is None

    @property
    def sources(self) -> Path | None:
        """Return the checkout that runs in place, if it is one."""
        if self.origin is None or not self.origin.get("dir_info", {}).get("editable"):
            return None
        return _path_of(self.origin)

    @property
    def digest(self) -> str:
        """Return a digest that differs between two installations of one version."""
        sources = self.sources
        if sources is None:
            return record_digest(self.distribution.read_text("RECORD") or "")
        # The record of a checkout that runs in place does not name its modules.
        files = sorted(path for name in _PACKAGES for path in (sources / name).rglob("*.py"))
        state = [(str(path), path.stat().st_mtime_ns) for path in files]
        return hashlib.sha256(repr(state).encode()).hexdigest()[:16]


def own_installation() -> OwnInstallation | None:
    """Return how this tool is installed; nothing for a checkout that is only on the path."""
    try:
        distribution = importlib.metadata.distribution(PROJECT)
    except importlib.metadata.PackageNotFoundError:
        return None
    text = distribution.read_text("direct_url.json")
    own = OwnInstallation(
        distribution=distribution, origin=None if text is None else json.loads(text)
    )
    place = own.sources or Path(str(distribution.locate_file("")))
    ours = Path(__file__).resolve().parents[2]
    return own if (place / ours.name).resolve() == ours else None


def record_digest(record: str) -> str:
    """Return a digest of the modules that a RECORD lists; programs differ with each installation."""
    other = ("../", "__pycache__/", ".dist-info/", ".data/")
    lines = [line for line in record.splitlines() if not any(part in line for part in other)]
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:16]


def wheel_digest(wheel: Path) -> str:
    """Return the digest of the modules in a wheel: that of an installation from it."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.endswith(".dist-info/RECORD")]
        return record_digest("".join(archive.read(name).decode() for name in names))


def vendored(root: Path) -> Path | None:
    """Return the wheel of flodl that a project holds."""
    found = sorted((root / VENDOR).glob(f"{PROJECT}-*.whl"))
    return found[-1] if found else None


def put_wheel(root: Path, own: OwnInstallation, console: Console | None = None) -> Path:
    """Put the wheel of this tool into `vendor/` of a project, in place of an older one.

    The wheel of a checkout is built, which takes seconds.

    Raises:
        FdlError: the wheel cannot be built, or the installation has no record of its files.
    """
    folder = root / VENDOR
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".") as draft:
        made = _wheel(Path(draft), own, console)
        target = folder / made.name
        if not target.is_file() or target.read_bytes() != made.read_bytes():
            made.replace(target)
    for other in folder.glob(f"{PROJECT}-*.whl"):
        if other != target:
            other.unlink()
    return target


def _wheel(folder: Path, own: OwnInstallation, console: Console | None) -> Path:
    sources = own.sources
    if sources is not None:
        return _built(sources, folder, console)
    original = None if own.origin is None else _path_of(own.origin)
    if original is not None and _is_that_wheel(original, own):
        copy = folder / original.name
        copy.write_bytes(original.read_bytes())
        return copy
    return repack(own.distribution, folder)


def _path_of(origin: dict[str, Any]) -> Path | None:
    address = urlsplit(str(origin.get("url", "")))
    if address.scheme != "file":
        return None
    from urllib.request import url2pathname

    return Path(url2pathname(address.path) if os.name == "nt" else unquote(address.path))


def _is_that_wheel(path: Path, own: OwnInstallation) -> bool:
    """Return True if a file is still the wheel that was installed."""
    if path.suffix != ".whl" or not path.is_file():
        return False
    archive = (own.origin or {}).get("archive_info", {})
    noted = archive.get("hashes", {}).get("sha256") or archive.get("hash", "").partition("=")[2]
    return bool(noted) and hashlib.sha256(path.read_bytes()).hexdigest() == noted


def _built(sources: Path, folder: Path, console: Console | None) -> Path:
    """Build the wheel of a checkout."""
    command: list[str | Path] = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    command += ["--disable-pip-version-check", "--wheel-dir", folder, sources]
    if importlib.util.find_spec("hatchling") is not None:
        command.insert(4, "--no-build-isolation")
    done = run(
        command,
        timeout=SECONDS,
        check=False,
        echo=None if console is None else console.echo,
    )
    found = sorted(folder.glob(f"{PROJECT}-*.whl"))
    if done.returncode != 0 or not found:
        raise OperationFailedError(
            error_id="wheel-not-built",
            message=f"the wheel of flodl cannot be built from {sources}",
            hint=f"see the causes, or put a wheel of flodl into `{VENDOR}/` of the project",
            causes=pip_causes(done.stderr),
        )
    return found[-1]


def repack(distribution: importlib.metadata.Distribution, folder: Path) -> Path:
    """Pack a wheel from the files of an installation; it installs the same files.

    Raises:
        EnvironmentLackingError: the installation does not say which files it consists of.
    """
    if distribution.files is None:
        raise EnvironmentLackingError(
            error_id="own-files-unknown",
            message="this installation of fdl has no list of its files, so no wheel can be made of it",
            hint=f"put a wheel of flodl into `{VENDOR}/` of the project",
        )
    target = folder / f"{PROJECT}-{distribution.version}-{_tag(distribution)}.whl"
    lines: list[str] = []
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in _packed(distribution):
            data = path.read_bytes()
            lines.append(f"{name},sha256={_checksum(data)},{len(data)}")
            archive.writestr(_entry(name), data)
        name = f"{PROJECT}-{distribution.version}.dist-info/RECORD"
        archive.writestr(_entry(name), "\n".join([*lines, f"{name},,", ""]))
    return target


def _packed(distribution: importlib.metadata.Distribution) -> Iterator[tuple[str, Path]]:
    """Yield the files of a wheel; every installer makes the programs in `bin/` itself."""
    for file in sorted(distribution.files or (), key=str):
        inside = ".." not in file.parts and "__pycache__" not in file.parts
        added = file.parts[0].endswith(".dist-info") and file.name in _ADDED
        if inside and not added:
            yield file.as_posix(), Path(str(distribution.locate_file(file)))


def _tag(distribution: importlib.metadata.Distribution) -> str:
    text = distribution.read_text("WHEEL") or ""
    tags = [line.partition(":")[2].strip() for line in text.splitlines() if "Tag:" in line]
    return tags[0] if tags else "py3-none-any"


def _checksum(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, date_time=_LONG_AGO)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    return entry
