"""A port is a flow and not a renamed forward: measured on real code by other means than the porter's."""

import ast
import importlib.util
from pathlib import Path

import pytest

from fdl_cli.porter.port_file import port_file

SKIP_NAMES = {"identity", "residual", "shortcut", "skip"}


def forwards(package):
    """Yield, for each described class, its name, forward, flow and the names of its methods."""
    spec = importlib.util.find_spec(package)
    files = sorted(Path(spec.submodule_search_locations[0]).rglob("*.py"))
    for file in files[:: 1 + len(files) // 30]:  # those of a large package are much alike
        data = file.read_bytes()
        outcome, made = port_file(data, file, None)
        described = {item.name for item in outcome.classes if item.status == "graph"}
        before, after = methods(data), methods(made)
        known = {name for own in after.values() for name in own}
        for name in sorted(described & set(before)):
            if "forward" in before[name]:
                yield (
                    f"{file.name}:{name}",
                    before[name]["forward"],
                    after[name]["flow"],
                    known,
                )


def methods(data):
    return {
        node.name: {item.name: item for item in node.body if isinstance(item, ast.FunctionDef)}
        for node in ast.parse(data).body
        if isinstance(node, ast.ClassDef)
    }


def called_directly(flow, own):
    """Yield calls such as `self.conv(x)` that are not calls of the class's own methods."""
    self_name = flow.args.args[0].arg
    for node in ast.walk(flow):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=name)):
                if owner == self_name and name not in own:
                    yield name
            case ast.Call(func=ast.Subscript(value=ast.Attribute(value=ast.Name(id=owner)))):
                if owner == self_name:
                    yield "[...]"


def is_residual(node):
    """Return True if a sum is that of a value, or a named skip, and a call of a layer, in this order."""
    match node:
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return is_pair(left, right)
    return False


def is_pair(name, other):
    if not isinstance(name, ast.Name):
        return False
    if isinstance(other, ast.Name):
        return name.id in SKIP_NAMES
    match other:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="self")), args=[first, *_]):
            return any(isinstance(n, ast.Name) and n.id == name.id for n in ast.walk(first))
    return False


@pytest.mark.parametrize(
    "package", ["perceiver_pytorch", pytest.param("pytorchcv", marks=pytest.mark.slow)]
)
def test_flows_speak_the_language(package):
    direct, residuals, written, count = [], 0, 0, 0
    for name, forward, flow, own in forwards(package):
        count += 1
        direct += [f"{name}.{attribute}" for attribute in called_directly(flow, own)]
        found = sum(is_residual(node) for node in ast.walk(forward))
        words = ast.unparse(flow).count(".also(") + ast.unparse(flow).count(".also_with(")
        residuals += found
        written += min(found, words)
    assert direct == []
    assert count >= 10
    assert written >= residuals * 0.95
