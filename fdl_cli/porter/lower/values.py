"""Module-level `model = nn.Sequential(...)`: values that can be graphs as they are."""

import ast

from fdl_cli.porter.ir.symbols import ValueFact
from fdl_cli.porter.lower.names import Names, module_level
from fdl_cli.porter.parse.reader import SourceFile

# Container operations that a graph does not offer.
_CONTAINER_METHODS = frozenset({"append", "insert", "extend", "add_module"})


def sequential_values(source: SourceFile, names: Names) -> tuple[ValueFact, ...]:
    """Return the names bound once, at module level, to a new `nn.Sequential`."""
    found: dict[str, ValueFact] = {}
    bound: list[str] = []
    for node in module_level(source.tree.body):
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            continue
        target, value = node.targets[0], node.value
        if not isinstance(target, ast.Name):
            continue
        bound.append(target.id)
        if isinstance(value, ast.Call) and names.dotted(value.func) == "torch.nn.Sequential":
            span = source.span(value)
            found[target.id] = ValueFact(name=target.id, span=span, stages=len(value.args))
    if not found:
        return ()
    spoiled = _used_as_container(source.tree) | _used_in_classes(source.tree)
    return tuple(
        fact for name, fact in found.items() if bound.count(name) == 1 and name not in spoiled
    )


def _used_as_container(tree: ast.Module) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(value=ast.Name(id=name)):
                found.add(name)
            case ast.Attribute(value=ast.Name(id=name), attr=attribute):
                if attribute in _CONTAINER_METHODS:
                    found.add(name)
            case ast.For(iter=ast.Name(id=name)) | ast.comprehension(iter=ast.Name(id=name)):
                found.add(name)
            case ast.Starred(value=ast.Name(id=name)):
                found.add(name)
            case ast.Call(func=ast.Name(id="len" | "isinstance" | "enumerate"), args=arguments):
                found |= {item.id for item in arguments if isinstance(item, ast.Name)}
            case _:
                pass
    return found


def _used_in_classes(tree: ast.Module) -> set[str]:
    # A value that a class takes over becomes part of that class's structure.
    return {
        inner.id
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for inner in ast.walk(node)
        if isinstance(inner, ast.Name)
    }
