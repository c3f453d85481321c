"""Relative imports that lead out of the ported files: their targets, and their text in a port elsewhere.

Example:
    `transformers/models/bert/modeling_bert.py` has `from ...modeling_layers import X`. Ported alone,
    `X` is `transformers.modeling_layers.X`. A port in another folder has no package around it, so
    there the line is `from transformers.modeling_layers import X`.
"""

import ast
import codecs
import re
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path

from fdl_cli.porter.lower.names import Names
from fdl_cli.porter.module_map import ModuleMap
from fdl_cli.porter.parse.reader import SourceFile, read
from fdl_cli.porter.pipeline import Draft
from fdl_cli.porter.workspace import package_root

# The dots may be apart, and a backslash may break the line.
_FROM = re.compile(r"(from[\s\\]*)((?:\.[\s\\]*)+)([\w.]*)")


def package_of(path: Path) -> str:
    """Return the full name of the package that a file is in; nothing where it is in none."""
    folder = path.absolute().parent
    return ".".join(folder.relative_to(package_root(folder)).parts)


def absolute_name(package: str, dotted: str) -> str:
    """Return the full name for a relative one; nothing where that leads out of the outermost package."""
    rest = dotted.lstrip(".")
    above = len(dotted) - len(rest) - 1
    parts = package.split(".") if package else []
    if above < 0 or above >= len(parts):
        return ""
    return ".".join([*parts[: len(parts) - above], *([rest] if rest else [])])


def imported_from_outside(
    path: Path, names: Names, modules: ModuleMap, ported: Collection[Path]
) -> dict[str, str]:
    """Return the full names that relative imports bring from files that are not ported."""
    package = package_of(path)
    found = {}
    for name, dotted in names.aliases.items():
        home = modules.find(path, dotted) if dotted.startswith(".") else None
        if dotted.startswith(".") and (home is None or home[0] not in ported):
            found[name] = absolute_name(package, dotted)
    return {name: dotted for name, dotted in found.items() if dotted}


def with_absolute_imports(made: Draft, package: str, stays: Callable[[str], bool]) -> Draft:
    """Return a port that can be imported from another folder.

    `stays` says of a relative module whether its file moves along; that import is left as it is.
    """
    if made.text == made.source.text:
        return made
    source = read(made.data)
    text = source.text
    for start, end, name in reversed(_changes(source, package, stays)):
        text = text[:start] + name + text[end:]
    if text == source.text:
        return made
    bom = codecs.BOM_UTF8 if made.data.startswith(codecs.BOM_UTF8) else b""
    encoding = source.module.encoding.removesuffix("-sig")
    data = bom + text.removeprefix("\ufeff").encode(encoding)
    return replace(made, text=text, data=data)


def _changes(
    source: SourceFile, package: str, stays: Callable[[str], bool]
) -> list[tuple[int, int, str]]:
    found = []
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.ImportFrom) or node.level == 0:
            continue
        module = "." * node.level + (node.module or "")
        name = absolute_name(package, module)
        match = _FROM.match(source.text, source.span(node).start)
        if name and match is not None and not stays(module):
            if node.module:
                found.append((match.start(2), match.end(3), name))
            else:  # `import` follows the dots
                found.append((match.start(2), match.end(2), f"{name} "))
    return sorted(found)
