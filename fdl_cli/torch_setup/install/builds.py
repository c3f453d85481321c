"""The torch builds that are kept side by side, each a complete tree with a description.

A folder is a build only with its `build.json`, which is written last; everything else in the
store is rubbish of an interrupted run and is removed.
"""

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, final

from fdl_cli.errors import ConflictError, NotFoundError, UsageError
from fdl_cli.torch_setup.install.wheel_tree import Dist
from fdl_cli.torch_setup.project_files import write_atomically

DESCRIPTION: Final = "build.json"
UNFINISHED: Final = ".new-"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class KeptBuild:
    """One build in a store; `proved` is the time of its last good proof, as ISO text."""

    name: str
    torch: str
    variant: str
    python: str
    folder: str
    source: str
    bytes: int
    proved: str
    sm: tuple[str, ...]
    dists: tuple[Dist, ...]

    @property
    def tree(self) -> Path:
        """Return the folder shaped like an environment."""
        return Path(self.folder) / "tree"

    @property
    def labelled(self) -> bool:
        """Return True if the version that pip knows carries the variant."""
        return any(dist.name == "torch" and "+" in dist.version for dist in self.dists)


def build_name(torch: str, variant: str, python: str) -> str:
    """Return the name of a build, which differs between any two that can be side by side.

    Example:
        >>> build_name("2.14.1", "cu126", "3.12")
        '2.14.1+cu126-py3.12'
    """
    return f"{torch}+{variant}-py{python}"


def list_builds(store: Path) -> tuple[KeptBuild, ...]:
    """Return the builds of a store, oldest version first."""
    found = (read_build(folder) for folder in _folders(store))
    return tuple(
        sorted((build for build in found if build is not None), key=lambda build: build.name)
    )


def read_build(folder: Path) -> KeptBuild | None:
    """Read the description of a build; None when the folder is none."""
    try:
        value = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
        return _decode(value, folder)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_build(build: KeptBuild) -> None:
    """Write the description: from now on the folder is a build."""
    text = json.dumps(asdict(build), indent=1)
    write_atomically(Path(build.folder) / DESCRIPTION, text.encode())


def find_build(stores: tuple[Path, ...], wish: str) -> KeptBuild:
    """Return the one build that a name, or the beginning of a name, means.

    Raises:
        NotFoundError: there is none.
        UsageError: there are several.
    """
    builds = [build for store in stores for build in list_builds(store)]
    exact = [build for build in builds if build.name == wish]
    near = exact or [build for build in builds if build.name.startswith(wish)]
    if len(near) == 1:
        return near[0]
    names = ", ".join(f"`{build.name}`" for build in near or builds) or "none"
    if near:
        raise UsageError(
            error_id="build-ambiguous",
            message=f"`{wish}` may mean {names}",
            hint="write the whole name; `fdl libtorch list` shows them",
        )
    raise NotFoundError(
        error_id="build-unknown",
        message=f"there is no torch build `{wish}`; kept are {names}",
        hint="get one with `fdl libtorch download --torch VERSION --variant VARIANT`",
    )


def remove_build(build: KeptBuild, stores: tuple[Path, ...]) -> None:
    """Delete a build; only a folder that is really inside a store and really a build.

    Raises:
        ConflictError: the folder is not where builds are, for instance through a link.
    """
    folder = Path(build.folder)
    roots = [store.resolve() for store in stores if store.is_dir()]
    if folder.is_symlink() or folder.resolve().parent not in roots or read_build(folder) is None:
        raise ConflictError(
            error_id="build-outside-store",
            message=f"`{folder}` is not a build inside a store of fdl, so it stays",
            hint="remove it by hand if it is yours",
        )
    # Without its description it is no build any more, whatever happens next.
    (folder / DESCRIPTION).unlink()
    shutil.rmtree(folder)


def unfinished(store: Path, name: str) -> Path:
    """Return a fresh folder for a build in the making, and remove those of dead processes."""
    store.mkdir(parents=True, exist_ok=True)
    for folder in store.glob(f"{UNFINISHED}*"):
        pid = folder.name.removeprefix(UNFINISHED).partition("-")[0]
        if not pid.isdecimal() or not _is_alive(int(pid)):
            shutil.rmtree(folder, ignore_errors=True)
    folder = store / f"{UNFINISHED}{os.getpid()}-{name}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def tree_bytes(folder: Path) -> int:
    """Return how many bytes the files below a folder have."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


def _folders(store: Path) -> list[Path]:
    try:
        return [path for path in store.iterdir() if not path.name.startswith(UNFINISHED)]
    except OSError:
        return []


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _decode(value: Mapping[str, Any], folder: Path) -> KeptBuild:
    return KeptBuild(
        name=str(value["name"]),
        torch=str(value["torch"]),
        variant=str(value["variant"]),
        python=str(value["python"]),
        # Where it lies now, not where it was made: a project may be moved.
        folder=str(folder.absolute()),
        source=str(value["source"]),
        bytes=int(value["bytes"]),
        proved=str(value["proved"]),
        sm=tuple(str(item) for item in value["sm"]),
        dists=tuple(
            Dist(
                name=str(item["name"]),
                version=str(item["version"]),
                info=str(item["info"]),
                scripts=tuple((str(key), str(text)) for key, text in item["scripts"]),
                requires=tuple(str(text) for text in item["requires"]),
            )
            for item in value["dists"]
        ),
    )
