"""No modules import each other in a circle, imports inside functions included."""

import ast
from graphlib import CycleError, TopologicalSorter

import pytest

ROOTS = ("fdl_cli", "flodl", "flodl_verify")


def is_for_types(node):
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def imports(node):
    """Yield the dotted names that a tree imports while it runs."""
    for each in ast.iter_child_nodes(node):
        if is_for_types(each):
            for other in each.orelse:
                yield from imports(other)
        elif isinstance(each, ast.Import):
            yield from (alias.name for alias in each.names)
        elif isinstance(each, ast.ImportFrom):
            yield each.module
            yield from (f"{each.module}.{alias.name}" for alias in each.names)
        else:
            yield from imports(each)


def graph_of(trees):
    """Return the modules that each module imports; a package that only gives a module is none of them."""
    found = {}
    for name, tree in trees.items():
        wanted = {each for each in imports(tree) if each in trees and each != name}
        parents = {each.rpartition(".")[0] for each in wanted}
        found[name] = wanted - parents
    return found


def circle_in(trees):
    try:
        TopologicalSorter(graph_of(trees)).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def test_imports_of_the_three_roots_have_no_circle(sources):
    trees = {source.name: source.tree for source in sources}
    assert {name.partition(".")[0] for name in trees} == set(ROOTS)
    assert " -> ".join(circle_in(trees)) == ""


@pytest.mark.parametrize("inside", ["import a.b", "def f():\n    from a import b"])
def test_circle_rule_with_a_planted_circle_reports_it(inside):
    trees = {
        "a": ast.parse(""),
        "a.b": ast.parse("import a.c"),
        "a.c": ast.parse(inside),
    }
    assert set(circle_in(trees)) == {"a.b", "a.c"}


def test_circle_rule_with_imports_for_types_reports_nothing():
    text = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import a.b"
    assert circle_in({"a.b": ast.parse("import a.c"), "a.c": ast.parse(text)}) == []
