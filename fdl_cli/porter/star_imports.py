"""Names that `from x import *` brings from other files of the project, which imported them."""

from collections.abc import Callable
from pathlib import Path

from fdl_cli.porter.lower.names import Names
from fdl_cli.porter.module_map import ModuleMap

NamesOf = Callable[[Path], Names | None]


def brought_by_stars(path: Path, names_of: NamesOf, modules: ModuleMap) -> dict[str, str]:
    """Return the names that a file has by stars of its project, such as `nn` for `torch.nn`.

    Only what comes from outside of the project; its own classes and functions are found otherwise.
    A name that two stars bring differently is left out: their order decides, and which files exist.
    """
    found: dict[str, set[str]] = {}
    for home, names in _offering(path, names_of, modules).items():
        for name, dotted in names.aliases.items():
            local = dotted.startswith(".") or modules.find(home, dotted) is not None
            if not name.startswith("_") and not local and not names.is_own(name):
                found.setdefault(name, set()).add(dotted)
    return {name: min(dotted) for name, dotted in found.items() if len(dotted) == 1}


def _offering(path: Path, names_of: NamesOf, modules: ModuleMap) -> dict[Path, Names]:
    """Return the files to which stars lead from a file, also by way of others."""
    found: dict[Path, Names] = {}
    pending = [path]
    while pending:
        current = pending.pop()
        names = names_of(current)
        for star in names.stars if names is not None else ():
            target = modules.find(current, star)
            if target is None or target[1] or target[0] in found or target[0] == path:
                continue
            offered = names_of(target[0])
            if offered is not None and "__all__" not in offered.assigned:
                found[target[0]] = offered
                pending.append(target[0])
    return found
