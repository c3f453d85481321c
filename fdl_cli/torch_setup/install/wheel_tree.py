"""Wheels unpacked into a tree shaped like an environment: lib/pythonX.Y/site-packages, bin, ...

Before: torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl
After:  TREE/lib/python3.11/site-packages/torch/..., and a list of what is in it

The tree is complete in itself, so it can be proved before any environment is touched.
"""

import configparser
import re
import shutil
import sys
import zipfile
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path, PurePosixPath
from typing import Final, final

from fdl_cli.errors import OperationFailedError

_THREADS: Final = 4
_BLOCK: Final = 1 << 20
# The names of programs by the specification of entry points, and what they start.
_PROGRAM: Final = re.compile(r"[\w.-]+", re.ASCII)
_ENTRY: Final = re.compile(r"[^\W\d][\w.]*\s*:\s*[^\W\d][\w.]*\s*(\[[\w\s,.-]*\])?")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Dist:
    """One unpacked distribution; `scripts` are `name = module:function`.

    Raises:
        ValueError: a script is no plain name of a program, or not of that form.
    """

    name: str
    version: str
    info: str
    scripts: tuple[tuple[str, str], ...]
    requires: tuple[str, ...]

    def __post_init__(self) -> None:
        """Check a text that becomes the path or the body of a program."""
        for name, entry in self.scripts:
            if _PROGRAM.fullmatch(name) is None or not name.strip("."):
                raise ValueError(f"its program `{name}` has no plain name")
            if _ENTRY.fullmatch(entry) is None:
                raise ValueError(f"its program `{name}` is `{entry}`, not module:function")


def packages_folder(python: str) -> PurePosixPath:
    """Return where packages lie inside an environment of a Python such as `3.14t`."""
    if sys.platform == "win32":
        return PurePosixPath("Lib/site-packages")
    return PurePosixPath(f"lib/python{python}/site-packages")


def scripts_folder() -> PurePosixPath:
    """Return where programs lie inside an environment."""
    return PurePosixPath("Scripts" if sys.platform == "win32" else "bin")


def unpack_all(wheels: Sequence[Path], tree: Path, python: str) -> tuple[Dist, ...]:
    """Unpack wheels into a tree and return their descriptions; nothing of them is run.

    Raises:
        OperationFailedError: a wheel is broken or wants to write outside the tree.
    """
    return tuple(_unpack(wheel, tree, python) for wheel in wheels)


def _unpack(wheel: Path, tree: Path, python: str) -> Dist:
    try:
        with zipfile.ZipFile(wheel) as archive:
            entries = [item for item in archive.infolist() if not item.is_dir()]
            info = _info_folder(wheel, entries)
            targets = [(item, tree / _place(wheel, item, python)) for item in entries]
            for folder in {target.parent for _, target in targets}:
                folder.mkdir(parents=True, exist_ok=True)
            dist = _describe(archive, info)
        _extract_in_threads(wheel, targets)
    except (
        zipfile.BadZipFile, zlib.error, configparser.Error, KeyError, EOFError, ValueError,
        NotImplementedError, RuntimeError,
    ) as problem:  # fmt: skip
        raise _broken(wheel, str(problem)) from problem
    site = tree / packages_folder(python)
    (site / info / "INSTALLER").write_text("fdl\n", encoding="utf-8")
    return dist


def _extract_in_threads(wheel: Path, targets: list[tuple[zipfile.ZipInfo, Path]]) -> None:
    # Unpacking lets other threads run; the largest files go first so that all end together.
    ordered = sorted(targets, key=lambda pair: -pair[0].file_size)
    shares = [ordered[start::_THREADS] for start in range(_THREADS)]

    def extract(share: list[tuple[zipfile.ZipInfo, Path]]) -> None:
        with zipfile.ZipFile(wheel) as archive:
            for item, target in share:
                with archive.open(item) as source, target.open("wb") as out:
                    shutil.copyfileobj(source, out, _BLOCK)
                mode = item.external_attr >> 16
                if mode & 0o111:
                    target.chmod(0o755)

    with ThreadPoolExecutor(_THREADS) as pool:
        for done in [pool.submit(extract, share) for share in shares if share]:
            done.result()


def place_of(name: str, python: str) -> PurePosixPath:
    """Return where a file that a wheel names belongs, relative to the environment.

    Raises:
        ValueError: the name points outside, or to a part that wheels do not have.
    """
    path = PurePosixPath(name)
    drive = sys.platform == "win32" and ":" in name
    if path.is_absolute() or ".." in path.parts or "\\" in name or drive or not path.parts:
        raise ValueError(f"it wants to write to `{name}`")
    site = packages_folder(python)
    first = path.parts[0]
    if not first.endswith(".data") or len(path.parts) < 3:
        return site / path
    kind, rest = path.parts[1], PurePosixPath(*path.parts[2:])
    match kind:
        case "purelib" | "platlib":
            return site / rest
        case "scripts":
            return scripts_folder() / rest
        case "data":
            return rest
        case "headers":
            project = first.partition("-")[0]
            return PurePosixPath("include/site") / f"python{python}" / project / rest
        case _:
            raise ValueError(f"it has an unknown part `{kind}`")


def _place(wheel: Path, item: zipfile.ZipInfo, python: str) -> PurePosixPath:
    try:
        return place_of(item.filename, python)
    except ValueError as problem:
        raise _broken(wheel, str(problem)) from problem


def _info_folder(wheel: Path, entries: list[zipfile.ZipInfo]) -> str:
    for item in entries:
        first, _, rest = item.filename.partition("/")
        if first.endswith(".dist-info") and rest == "RECORD":
            return first
    raise _broken(wheel, "it has no RECORD")


def _describe(archive: zipfile.ZipFile, info: str) -> Dist:
    metadata = HeaderParser().parsestr(archive.read(f"{info}/METADATA").decode("utf-8"))
    scripts: tuple[tuple[str, str], ...] = ()
    if f"{info}/entry_points.txt" in archive.namelist():
        parser = configparser.ConfigParser(delimiters=("=",), interpolation=None)
        parser.optionxform = str  # type: ignore[method-assign,assignment] # names keep their case
        parser.read_string(archive.read(f"{info}/entry_points.txt").decode("utf-8"))
        if parser.has_section("console_scripts"):
            scripts = tuple(parser.items("console_scripts"))
    return Dist(
        name=str(metadata["Name"]),
        version=str(metadata["Version"]),
        info=info,
        scripts=scripts,
        requires=tuple(str(item) for item in metadata.get_all("Requires-Dist") or ()),
    )


def _broken(wheel: Path, reason: str) -> OperationFailedError:
    return OperationFailedError(
        error_id="wheel-broken",
        message=f"`{wheel.name}` cannot be unpacked: {reason}",
        hint=f"remove it and run the command again: `rm {wheel}`",
    )
