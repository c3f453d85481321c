"""Switch of an environment to a build: prepared beside it, then exchanged in one short step.

Everything slow happens in a hidden folder of the environment. The exchange is a handful of
renames after a journal; if it is cut off, the next run finishes it, because the new tree is
complete and proved by then.
"""

import json
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final, final

from fdl_cli.errors import ConflictError
from fdl_cli.torch_setup.install.builds import KeptBuild
from fdl_cli.torch_setup.install.link_tree import Linker
from fdl_cli.torch_setup.install.site_packages import (
    SiteDist,
    belongs_to_torch,
    exclusive_entries,
    is_satisfied,
    normal_name,
    read_site,
)
from fdl_cli.torch_setup.install.wheel_tree import Dist, packages_folder
from fdl_cli.torch_setup.project_files import write_atomically

JOURNAL: Final = "fdl-switch.json"
NEW: Final = ".fdl-new"
OLD: Final = ".fdl-old"
KEPT: Final = ".fdl-kept"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchPlan:
    """The changes by distribution name: those that come, go, or may stay."""

    incoming: tuple[Dist, ...]
    outgoing: tuple[SiteDist, ...]
    kept: tuple[str, ...]


def plan_switch(build: KeptBuild, environment: Path) -> SwitchPlan:
    """Decide which distributions to exchange; an installed dependency that is good enough stays.

    Raises:
        ConflictError: something that must go was not installed by a package installer.
    """
    site = read_site(environment / packages_folder(build.python))
    incoming: list[Dist] = []
    kept: list[str] = []
    for dist in build.dists:
        existing = site.get(normal_name(dist.name))
        ours = belongs_to_torch(dist.name)
        if existing is not None and not ours and is_satisfied(existing, build.dists):
            kept.append(existing.name)
        else:
            incoming.append(dist)
    names = {normal_name(dist.name) for dist in incoming}
    outgoing = tuple(
        found for name, found in site.items() if name in names or belongs_to_torch(name)
    )
    for found in outgoing:
        if found.files is None:
            raise ConflictError(
                error_id="package-unmanaged",
                message=f"`{found.name}` in {environment} has no RECORD, so it cannot be replaced",
                hint=f"remove it with the tool that installed it (conda: `conda remove {found.name}`)",
            )
    return SwitchPlan(incoming=tuple(incoming), outgoing=outgoing, kept=tuple(kept))


def prepare(build: KeptBuild, environment: Path, interpreter: Path) -> None:
    """Link a build into the environment without using it yet: a switch is then only renames."""
    finish_interrupted(environment)
    plan = plan_switch(build, environment)
    place = environment / KEPT / build.name
    if _holds(place, build, plan):
        return
    shutil.rmtree(place, ignore_errors=True)
    draft = environment / NEW
    shutil.rmtree(draft, ignore_errors=True)
    _link(build, plan, draft, interpreter)
    place.parent.mkdir(exist_ok=True)
    draft.rename(place)


def forget(name: str, environment: Path) -> None:
    """Remove the prepared files of a build."""
    shutil.rmtree(environment / KEPT / name, ignore_errors=True)


def switch(
    build: KeptBuild, environment: Path, interpreter: Path, *, previous: str | None
) -> SwitchPlan:
    """Exchange the torch of an environment for a build.

    `previous` is the build that is there now; the files taken out of it are kept, so that
    switching back needs no linking. None throws it away.
    """
    finish_interrupted(environment)
    plan = plan_switch(build, environment)
    for name in (NEW, OLD):
        shutil.rmtree(environment / name, ignore_errors=True)
    kept = environment / KEPT / build.name
    if _holds(kept, build, plan):
        kept.rename(environment / NEW)
    else:
        _link(build, plan, environment / NEW, interpreter)
    site = read_site(environment / packages_folder(build.python))
    leaving = {dist.name for dist in plan.outgoing}
    staying = tuple(dist for name, dist in site.items() if name not in leaving)
    whole, single = exclusive_entries(plan.outgoing, staying)
    journal: dict[str, object] = {
        "phase": "removing",
        "site": str(packages_folder(build.python)),
        "remove": [*whole, *single],
        "keep": previous,
    }
    with _undisturbed():
        _write_journal(environment, journal)
        finish_interrupted(environment)
    return plan


def _link(build: KeptBuild, plan: SwitchPlan, target: Path, interpreter: Path) -> None:
    try:
        Linker(build, target, interpreter).link(plan.incoming)
    except BaseException:
        # Nothing of the environment itself was touched yet.
        shutil.rmtree(target, ignore_errors=True)
        raise


def _holds(folder: Path, build: KeptBuild, plan: SwitchPlan) -> bool:
    """Return True if a prepared folder holds exactly the distributions that are to come in."""
    wanted = {dist.info for dist in plan.incoming}
    found = {path.name for path in (folder / packages_folder(build.python)).glob("*.dist-info")}
    return bool(wanted) and found == wanted


def finish_interrupted(environment: Path) -> bool:
    """Finish an exchange that was cut off; every step may be repeated. True if there was one."""
    try:
        journal = json.loads((environment / JOURNAL).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return False
    if journal["phase"] == "removing":
        for entry in journal["remove"]:
            _move_out(environment, PurePosixPath(journal["site"]), entry)
        journal["phase"] = "placing"
        _write_journal(environment, journal)
    _merge(environment / NEW, environment)
    shutil.rmtree(environment / NEW, ignore_errors=True)
    if journal["keep"] is not None and (environment / OLD).is_dir():
        forget(journal["keep"], environment)
        (environment / KEPT).mkdir(exist_ok=True)
        (environment / OLD).rename(environment / KEPT / journal["keep"])
    shutil.rmtree(environment / OLD, ignore_errors=True)
    # Last: a run that is killed while it removes gigabytes leaves them to the next one.
    (environment / JOURNAL).unlink()
    return True


def _move_out(environment: Path, site: PurePosixPath, entry: str) -> None:
    source = Path(os.path.normpath(environment / site / entry))
    # A RECORD may name files anywhere; outside the environment nothing is touched.
    if not source.is_relative_to(environment) or not os.path.lexists(source):
        return
    target = environment / OLD / source.relative_to(environment)
    target.parent.mkdir(parents=True, exist_ok=True)
    source.replace(target)
    if not target.is_dir():
        _remove_empty_folders(source.parent, environment / site)


def _remove_empty_folders(folder: Path, stop: Path) -> None:
    while folder != stop and folder.is_relative_to(stop):
        cache = folder / "__pycache__"
        if set(folder.iterdir()) == {cache}:
            shutil.rmtree(cache)
        if any(folder.iterdir()):
            return
        folder.rmdir()
        folder = folder.parent


def _merge(source: Path, target: Path) -> None:
    """Move a tree into another: whole entries where the place is free, else file by file."""
    if not source.is_dir():
        return
    for entry in sorted(source.iterdir()):
        place = target / entry.name
        if entry.is_dir() and place.is_dir() and not place.is_symlink():
            _merge(entry, place)
        else:
            entry.replace(place)


def _write_journal(environment: Path, journal: dict[str, object]) -> None:
    write_atomically(environment / JOURNAL, json.dumps(journal).encode())


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Hold Ctrl-C and SIGTERM back for the moment of the exchange."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    caught: list[int] = []
    numbers: tuple[int, ...] = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda got, _frame: caught.append(got)) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
        for number in caught:
            signal.raise_signal(number)
