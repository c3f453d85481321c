"""Classes in other files: the facts that a file needs about the bases that it imports."""

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import final

from fdl_cli.porter.ir.expressions import Kind
from fdl_cli.porter.ir.symbols import ClassFacts
from fdl_cli.porter.lower.classes import class_facts, class_nodes
from fdl_cli.porter.lower.effects.random_calls import drawing_functions
from fdl_cli.porter.lower.layer_properties import layer_properties
from fdl_cli.porter.lower.names import FunctionNode, Names, collect
from fdl_cli.porter.parse.reader import SourceFile


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyedClass:
    """A class that can be imported: its facts, and the syntax of its methods."""

    facts: ClassFacts
    methods: Mapping[str, FunctionNode]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """The exports of one file to others, before any of its methods is understood.

    `drawing` are its functions that draw random numbers, and what they return.
    """

    names: Names
    classes: Mapping[str, SurveyedClass]
    drawing: Mapping[str, Kind]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Relative:
    """A class of another file, under the name by which this file, or a class above it, knows it.

    `facts` carries that name, and so do the bases in it. `on_flodl`: it is on the runtime already.
    """

    facts: ClassFacts
    methods: Mapping[str, FunctionNode]
    results: Mapping[str, Kind]
    on_flodl: bool


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ClassHierarchy:
    """All that a file knows of other files.

    `module_names` are the imported names that stand for torch modules of the project;
    `reached` are, per class of this file, the methods that forwards in other files reach;
    `drawing` are imported functions, in full, that draw random numbers, and what they return;
    `brought` are names from outside of the project which relative imports and stars of other files bring.
    """

    relatives: tuple[Relative, ...] = ()
    module_names: frozenset[str] = frozenset()
    reached: Mapping[str, frozenset[str]] = field(default_factory=dict)
    drawing: Mapping[str, Kind] = field(default_factory=dict)
    brought: Mapping[str, str] = field(default_factory=dict)


ALONE = ClassHierarchy()


def survey(source: SourceFile, brought: Mapping[str, str] = MappingProxyType({})) -> Survey:
    """Look at the classes of a file; `brought` are its names from outside of the project."""
    names = collect(source.tree, brought)
    found: dict[str, SurveyedClass] = {}
    for node, top in class_nodes(source.tree):
        if top:
            facts = class_facts(source, names, frozenset(), node, top)
            found[node.name] = SurveyedClass(facts=facts, methods=method_nodes(node))
    return Survey(names=names, classes=found, drawing=drawing_functions(names, {}))


def method_nodes(node: ast.ClassDef, *, module: bool = False) -> dict[str, FunctionNode]:
    """Return the methods of a class by name; the `__call__` of a `module` may be its forward."""
    layers = layer_properties(node)
    methods = (item for item in node.body if isinstance(item, FunctionNode))
    found = {
        item.name: item for item in methods if item.name not in layers and not _is_left_out(item)
    }
    if module and "__call__" in found and "forward" not in found:
        names = {
            inner.attr for inner in ast.walk(found["__call__"]) if isinstance(inner, ast.Attribute)
        }
        if not names & {"forward", "__call__"}:
            return {
                "forward" if name == "__call__" else name: each for name, each in found.items()
            }
    return found


def is_placeholder(node: FunctionNode | None) -> bool:
    """Return True for a method that only hands on to `super()`, or only raises `NotImplementedError`.

    The forward of `LightningModule` is one: every class below it has its own.
    """
    if node is None:
        return False
    body = [item for item in node.body if not _is_text(item)]
    match body:
        case [
            ast.Return(
                value=ast.Call(
                    func=ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr=name)
                )
            )
        ]:
            return name == node.name
        case [ast.Raise(exc=ast.Name(id=name) | ast.Call(func=ast.Name(id=name)))]:
            return name == "NotImplementedError"
        case _:
            return False


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_left_out(node: FunctionNode) -> bool:
    """Return True if a function is no step of a forward: a setter, or the text of a context manager."""
    return any(
        (isinstance(each, ast.Attribute) and each.attr in {"setter", "deleter", "contextmanager"})
        or (isinstance(each, ast.Name) and each.id == "contextmanager")
        for each in node.decorator_list
    )
