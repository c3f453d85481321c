"""What `from x import *` brings from other files of the project: the names which those imported."""

from collections.abc import Mapping
from pathlib import Path

from fdl_cli.porter.analyse.names import Names
from fdl_cli.porter.module_map import ModuleMap


def brought_by_stars(
    path: Path, names: Mapping[Path, Names], modules: ModuleMap
) -> dict[str, str]:
    """Return what a file has by stars of its project, such as `nn` for `torch.nn`, by name.

    Only what comes from outside of the project; its own classes and functions are found otherwise.
    What two stars bring differently is left out: their order decides, and which files exist.
    """
    found: dict[str, set[str]] = {}
    for home in _offering(path, names, modules):
        for name, dotted in names[home].aliases.items():
            local = dotted.startswith(".") or modules.find(home, dotted) is not None
            if not name.startswith("_") and not local and not names[home].is_own(name):
                found.setdefault(name, set()).add(dotted)
    return {name: min(dotted) for name, dotted in found.items() if len(dotted) == 1}


def _offering(path: Path, names: Mapping[Path, Names], modules: ModuleMap) -> set[Path]:
    """Return the files to which stars lead from a file, also by way of others."""
    found: set[Path] = set()
    pending = [path]
    while pending:
        current = pending.pop()
        for star in names[current].stars:
            target = modules.find(current, star)
            if target is None or target[1] or target[0] in found or target[0] == path:
                continue
            if "__all__" not in names[target[0]].assigned:
                found.add(target[0])
                pending.append(target[0])
    return found
