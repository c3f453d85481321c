"""Kinds of bound names: targets of assignments, loops and comprehensions."""

from fdl_cli.porter.ir.expressions import Expr, Kind
from fdl_cli.porter.lower.environment import Environment

_ELEMENTS: dict[Kind, Kind] = {
    "flow": "flow",
    "result": "result",
    "flows": "flow",
    "maybe": "maybe",
    "parameter": "flow",
    "parameters": "parameter",
    "module": "module",
    "modules": "module",
    "size": "size",
    "python": "python",
    "none": "maybe",
}


_LISTS: dict[Kind, Kind] = {"flow": "flows", "result": "flows", "parameter": "parameters"}


def element_kind(kind: Kind) -> Kind:
    """Return the kind of an element of a value."""
    return _ELEMENTS[kind]


def bind(env: Environment, target: Expr, value: Expr) -> None:
    """Bind a target of an assignment to a value."""
    if target.op == "name":
        env.bind(target.name, value.kind)
    elif target.op == "attribute" and env.is_self(target.parts[0]):
        env.kinds[f"self.{target.name}"] = value.kind
    elif target.op == "starred":
        bind_kind(env, target.parts[0], "flows" if value.kind != "python" else "python")
    elif target.op in {"tuple", "list"}:
        same = value.op in {"tuple", "list"} and len(value.parts) == len(target.parts)
        starred = any(part.op == "starred" for part in (*target.parts, *value.parts))
        kind = element_kind(value.kind)
        if env.cautious and kind == "flow" and value.op == "call":
            kind = "maybe"
        for index, part in enumerate(target.parts):
            if same and not starred:
                bind(env, part, value.parts[index])
            else:
                bind_kind(env, part, kind)


def bind_kind(env: Environment, target: Expr, kind: Kind) -> None:
    """Bind a target to a value of which only the kind is known."""
    if target.op == "name":
        env.bind(target.name, kind)
    elif target.op == "attribute" and env.is_self(target.parts[0]):
        env.kinds[f"self.{target.name}"] = kind
    elif target.op == "starred":
        bind_kind(env, target.parts[0], _LISTS.get(kind, kind))
    elif target.op in {"tuple", "list"}:
        for part in target.parts:
            bind_kind(env, part, element_kind(kind))


def bind_loop(env: Environment, target: Expr, iterable: Expr) -> None:
    """Bind the target of a loop to the elements of its iterable."""
    kinds = _element_kinds(iterable)
    if kinds is not None and target.op in {"tuple", "list"} and len(kinds) == len(target.parts):
        for part, kind in zip(target.parts, kinds, strict=True):
            if part.op == "tuple" and iterable.parts[-1].op == "call":
                bind_loop(env, part, iterable.parts[-1])
            else:
                bind_kind(env, part, kind)
        return
    if _callee_name(iterable) == "range":
        bind_kind(env, target, "size" if iterable.kind == "size" else "python")
        return
    bind_kind(env, target, _element_of(iterable))


def _element_kinds(iterable: Expr) -> list[Kind] | None:
    name = _callee_name(iterable)
    arguments = iterable.parts[1:]
    if name == "enumerate" and arguments:
        return ["python", element_kind(arguments[0].kind)]
    if name == "zip":
        return [_element_of(argument) for argument in arguments]
    if name == "items" and iterable.parts[0].parts:
        return ["python", element_kind(iterable.parts[0].parts[0].kind)]
    if name in {"named_children", "named_modules"}:
        return ["python", "module"]
    if name in {"named_parameters", "named_buffers"}:
        return ["python", "parameter"]
    return None


def _element_of(iterable: Expr) -> Kind:
    """Return the kind of a value's elements."""
    if _callee_name(iterable) in {"parameters", "buffers"} and iterable.parts[0].op == "attribute":
        return "parameter"
    return element_kind(iterable.kind)


def _callee_name(expr: Expr) -> str:
    if expr.op == "call" and expr.parts[0].op in {"name", "attribute"}:
        return expr.parts[0].name
    return ""
