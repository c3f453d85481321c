"""Properties that only name a layer: `norm1` of `add_module(self.norm1_name, ...)`."""

import ast
from collections.abc import Iterator

from fdl_cli.porter.lower.names import FunctionNode


def layer_properties(node: ast.ClassDef) -> frozenset[str]:
    """Return the properties of a class that give one of its submodules and do nothing else.

    They are read like the attribute that they stand for:

        self.add_module(self.norm1_name, norm1)

        @property
        def norm1(self):
            return getattr(self, self.norm1_name)
    """
    registered = frozenset(_registered(node))
    found = (item for item in node.body if isinstance(item, ast.FunctionDef))
    return frozenset(item.name for item in found if _key(item) in registered - {""})


def _registered(node: ast.ClassDef) -> Iterator[str]:
    """Yield the name expressions of a class's submodules: the texts of the first arguments."""
    for method in node.body:
        own = _own_name(method)
        for inner in ast.walk(method) if own else ():
            match inner:
                case ast.Call(
                    func=ast.Attribute(
                        value=ast.Name(id=name), attr="add_module" | "register_module"
                    ),
                    args=[key, _],
                ) if name == own:
                    yield _spelled(key, own)
                case _:
                    pass


def _key(method: ast.FunctionDef) -> str:
    """Return the name that a property looks up on the object, nothing if it does something else."""
    own = _own_name(method)
    decorated = [ast.unparse(item) for item in method.decorator_list]
    body = method.body[1:] if ast.get_docstring(method) is not None else method.body
    match body:
        case [
            ast.Return(
                value=ast.Call(
                    func=ast.Name(id="getattr"), args=[ast.Name(id=name), key], keywords=[]
                )
            )
        ] if decorated == ["property"] and name == own:
            return _spelled(key, own)
        case _:
            return ""


def _own_name(method: ast.stmt) -> str:
    if not isinstance(method, FunctionNode) or not method.args.args:
        return ""
    return method.args.args[0].arg


def _spelled(key: ast.expr, own: str) -> str:
    """Return a name in quotes, or an attribute of the object, as text."""
    match key:
        case ast.Constant(value=str()):
            return ast.unparse(key)
        case ast.Attribute(value=ast.Name(id=name)) if name == own:
            return f"self.{key.attr}"
        case _:
            return ""
