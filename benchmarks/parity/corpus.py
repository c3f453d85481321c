"""The files of the corpus: which there are, which part they belong to, and where they are put."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

PARTS = ("development", "rest", "all")
HELPERS = Path(__file__).with_name("helpers.py")


def part_of(name: str) -> Any:
    """Return the part of a file: a fifth, chosen by its name, is there to be worked on."""
    number = int(hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest(), 16)
    return "development" if number % 5 == 0 else "rest"


def listing(checkout: Path) -> Any:
    """Return the names of all generated files: of a work tree, a bare repository or a folder."""
    checkout = Path(checkout)
    folder = checkout / "generated" if (checkout / "generated").is_dir() else checkout
    found = sorted(path.name for path in folder.glob("test_*.py"))
    if found:
        return found
    tree = _git(checkout, "ls-tree", "--name-only", "HEAD:generated").decode().split()
    return sorted(name for name in tree if name.startswith("test_") and name.endswith(".py"))


def materialise(checkout: Path, names: list[str], work: Path) -> None:
    """Put each wanted file into a folder of its own, with the helpers beside it."""
    missing = [name for name in names if not place(work, name).is_file()]
    checkout = Path(checkout)
    folder = checkout / "generated" if (checkout / "generated").is_dir() else checkout
    loose = [name for name in missing if (folder / name).is_file()]
    for name in loose:
        _put(work, name, (folder / name).read_bytes())
    packed = sorted(set(missing) - set(loose))
    if packed:
        paths = [f"generated/{name}" for name in packed]
        archive = _git(checkout, "archive", "--format=tar", "HEAD", *paths)
        with tarfile.open(fileobj=io.BytesIO(archive)) as bundle:
            for member in bundle.getmembers():
                if member.isfile():
                    _put(work, Path(member.name).name, bundle.extractfile(member).read())
    for name in names:
        shutil.copy(HELPERS, place(work, name).with_name("_paritybench_helpers.py"))


def place(work: Path, name: str) -> Any:
    """Return where a file of the corpus is put."""
    return Path(work) / "files" / Path(name).stem / name


def ported_place(work: Path, name: str) -> Any:
    """Return where the port of a file is put: a folder of its own, so that none hides another."""
    return Path(work) / "ports" / Path(name).stem / name


def _put(work: Path, name: str, data: Any) -> None:
    target = place(work, name)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)


def _git(checkout: Path, *words: list[str]) -> Any:
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    return subprocess.run(
        ["git", "-C", str(checkout), *words], check=True, capture_output=True, env=environment
    ).stdout
