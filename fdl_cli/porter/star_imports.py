"""What `from x import *` brings from other files of the project: the names which those imported."""

from collections.abc import Mapping
from pathlib import Path

from fdl_cli.porter.analyse.names import Names
from fdl_cli.porter.module_map import ModuleMap

# Longer chains of stars than this are a circle.
_MAX_HOPS = 16


def brought_by_stars(
    path: Path, names: Mapping[Path, Names], modules: ModuleMap, hops: int = 0
) -> dict[str, str]:
    """Return what a file has by stars of its project, such as `nn` for `torch.nn`, by name.

    Only what comes from outside of the project; its own classes and functions are found otherwise.
    What two stars bring differently is left out: their order decides, and which files exist.
    """
    found: dict[str, set[str]] = {}
    for star in names[path].stars if hops < _MAX_HOPS else ():
        target = modules.find(path, star)
        if target is None or target[1] or "__all__" in names[target[0]].assigned:
            continue
        home = target[0]
        offered = {**brought_by_stars(home, names, modules, hops + 1), **names[home].aliases}
        for name, dotted in offered.items():
            local = dotted.startswith(".") or modules.find(home, dotted) is not None
            if not name.startswith("_") and not local and not names[home].is_own(name):
                found.setdefault(name, set()).add(dotted)
    return {name: min(dotted) for name, dotted in found.items() if len(dotted) == 1}
