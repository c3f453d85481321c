"""Detection of torch modules, and of classes that only look like them."""

import ast
from collections.abc import Mapping

from fdl_cli.porter.ir.symbols import BaseFact, ClassFacts
from fdl_cli.porter.knowledge import torch_names as torch
from fdl_cli.porter.lower.class_hierarchy import ClassHierarchy
from fdl_cli.porter.lower.names import Names

_NO_MODULES = ("torch.autograd.", "enum.")
_PLAIN = frozenset({"object", "abc.ABC", "typing.Generic", "typing.Protocol"})


def module_classes(
    names: Names, nodes: list[ast.ClassDef], hierarchy: ClassHierarchy
) -> frozenset[str]:
    """Return the names by which a file knows torch modules: its own classes and imported ones."""
    found: set[str] = set(hierarchy.module_names - {node.name for node in nodes})
    grown = True
    while grown:
        grown = False
        for node in nodes:
            if node.name in found:
                continue
            for base in node.bases:
                dotted = names.dotted(base)
                local = base.id if isinstance(base, ast.Name) else ""
                known = (
                    dotted.startswith("torch.nn.")
                    or torch.is_foreign_module(dotted)
                    or dotted in torch.FLOW_BASES
                    or dotted in hierarchy.module_names
                )
                if known or local in found:
                    found.add(node.name)
                    grown = True
                    break
    return frozenset(found)


def is_model(facts: ClassFacts, modules: frozenset[str], known: Mapping[str, ClassFacts]) -> bool:
    """Return True if a class of a file is to be ported."""
    if facts.name in modules:
        return True
    # A foreign base and a forward: most likely a module whose base is in another file.
    plain = all(_is_plain(base, known) for base in facts.bases)
    return "forward" in facts.methods and bool(facts.bases) and not plain


def _is_plain(
    base: BaseFact, known: Mapping[str, ClassFacts], below: frozenset[str] = frozenset()
) -> bool:
    """Return True if a base is no module for sure: an abstract class, a function with its own gradient."""
    above = known.get(base.name) if base.kind == "local" else None
    if above is not None and base.name not in below:  # `class Net(Net)` extends an earlier one
        inner = below | {base.name}
        return all(_is_plain(each, known, inner) for each in above.bases)
    return base.name in _PLAIN or base.name.startswith(_NO_MODULES)
