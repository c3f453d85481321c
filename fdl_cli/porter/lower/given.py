"""Parameters of helper methods by the arguments in the calls of a family of classes.

    def forward(self, x):
        return self.clamp(self.beta, 2)     # a raw parameter, and a number

    def clamp(self, value, bound): ...      # so `value` is no traced value for sure, and has no `through`

A helper is traced where it is called, so its parameters are what it is given there. The forward of a base is
traced in place as well, where a class below calls `super().forward(...)`.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import final

from fdl_cli.porter.ir.expressions import Kind
from fdl_cli.porter.lower.environment import FLOWING, join
from fdl_cli.porter.lower.names import FunctionNode

_PLAIN: frozenset[Kind] = frozenset({"python", "size", "none"})


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCall:
    """One call of a method: the kinds of its arguments, each with its label.

    Attributes:
        owner: the class of the part of the object that is called; empty for the object itself.
        name: the method.
        above: whether it is that of a base, `super().forward(x)`.
        arguments: the labels and kinds.
    """

    name: str
    above: bool
    owner: str = ""
    arguments: tuple[tuple[str, Kind], ...]


def given_kinds(
    calls: Iterable[OwnCall], nodes: Mapping[str, FunctionNode], unknown: frozenset[str]
) -> dict[str, dict[str, Kind]]:
    """Return the kinds of parameters by method; methods in `unknown` are called from elsewhere, too."""
    found: dict[str, dict[str, Kind]] = {}
    for call in calls:
        node = nodes.get(call.name)
        if node is not None:
            known = found.setdefault(call.name, {})
            for name, written in _bound(node, call).items():
                # From elsewhere it may be a tensor; a flag and None are no traced values.
                kind = "maybe" if call.owner and written in _PLAIN else written
                known[name] = join(known[name], kind) if name in known else kind
    for name in unknown & nodes.keys():
        found[name] = dict.fromkeys((each.arg for each in _parameters(nodes[name])), "maybe")
    return found


def narrowed_kind(declared: Kind, given: Kind | None) -> Kind:
    """Return the kind of a parameter, from its signature and from the arguments of its calls."""
    match declared:
        case "flow":
            return "maybe" if given == "none" else given or declared
        case "python" if given is not None and given not in _PLAIN:
            return "result" if given in {"flow", "result"} else given
        case "maybe" if given in FLOWING and given not in {"flow", "result"}:
            return "maybe"
        case _:
            return declared


def written_calls(node: FunctionNode) -> Iterator[OwnCall]:
    """Yield the calls of methods of the object in a method of another file, as far as its text tells."""
    own = node.args.args[0].arg if node.args.args else ""
    optional = {each.arg for each in _default_none(node)}
    for each in ast.walk(node):
        match each:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=name)) if owner == own:
                arguments = [("*" if isinstance(a, ast.Starred) else "", a) for a in each.args]
                arguments += [(word.arg or "**", word.value) for word in each.keywords]
                kinds = tuple(
                    (label, _written(value, own, optional)) for label, value in arguments
                )
                yield OwnCall(name=name, above=False, arguments=kinds)
            case _:
                pass


def _written(value: ast.expr, own: str, optional: set[str]) -> Kind:
    root = value
    while isinstance(root, ast.Attribute | ast.Subscript):
        root = root.value
    match value:
        case ast.Constant():
            return "none" if value.value is None else "python"
        case ast.List() | ast.Tuple() | ast.Dict():
            return "flows"
        case _:
            unknown = isinstance(root, ast.Name) and root.id in {own, *optional}
            return "maybe" if unknown else "flow"


def _bound(node: FunctionNode, call: OwnCall) -> dict[str, Kind]:
    """Return the kind of one call's argument for each parameter, defaults included."""
    parameters = _parameters(node)
    positional = parameters[: len(parameters) - len(node.args.kwonlyargs)]
    if any(label in {"*", "**"} for label, _ in call.arguments):
        return {each.arg: "maybe" for each in parameters}
    found: dict[str, Kind] = {each.arg: "python" for each in parameters}
    found |= {each.arg: "none" for each in _default_none(node)}
    for position, (label, kind) in enumerate(call.arguments):
        if label:
            found[label] = kind
        elif position < len(positional):
            found[positional[position].arg] = kind
    return found


def _parameters(node: FunctionNode) -> list[ast.arg]:
    """Return the parameters of a method without the object."""
    static = any(ast.unparse(each) == "staticmethod" for each in node.decorator_list)
    positional = [*node.args.posonlyargs, *node.args.args][0 if static else 1 :]
    return [*positional, *node.args.kwonlyargs]


def _default_none(node: FunctionNode) -> list[ast.arg]:
    arguments = [*node.args.posonlyargs, *node.args.args]
    last = arguments[len(arguments) - len(node.args.defaults) :]
    pairs = [
        *zip(last, node.args.defaults, strict=True),
        *zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True),
    ]
    return [
        each
        for each, default in pairs
        if isinstance(default, ast.Constant) and default.value is None
    ]
