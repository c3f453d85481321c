"""Readable signature of a class or function, from its syntax tree."""

import ast

from fdl_cli.apiref.source_tree import Definition

# A signature longer than this is written with one parameter per line.
MOST_COLUMNS = 88


def function_signature(
    name: str, node: ast.FunctionDef | ast.AsyncFunctionDef, *, bound: bool
) -> str:
    """Return `name(a, b=1) -> C`; the first parameter of a bound method is left out."""
    arguments = node.args
    if bound:
        arguments = _without_first(arguments)
    returns = f" -> {_plain(node.returns)}" if node.returns is not None else ""
    short = f"{name}({ast.unparse(arguments)}){returns}"
    if len(short) <= MOST_COLUMNS:
        return short
    lines = ",\n    ".join(_pieces(arguments))
    return f"{name}(\n    {lines},\n){returns}"


def class_signature(name: str, node: ast.ClassDef) -> str:
    """Return how a class is called: from its `__init__`, or from its dataclass fields."""
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and item.name == "__init__":
            return function_signature(name, item, bound=True).removesuffix(" -> None")
    if _decorated(node, "dataclass"):
        fields = [
            ast.unparse(item)
            for item in node.body
            if isinstance(item, ast.AnnAssign) and "ClassVar" not in ast.unparse(item.annotation)
        ]
        keyword_only = any("kw_only=True" in ast.unparse(item) for item in node.decorator_list)
        text = ", ".join(["*"] * (keyword_only and bool(fields)) + fields)
        return f"{name}({text})"
    return name


def value_signature(name: str, node: Definition) -> str:
    """Return `NAME: int = 3`, as far as the source says it."""
    text = ast.unparse(node)
    return text if len(text) <= 4 * MOST_COLUMNS else name


def is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return True if a method is read like an attribute."""
    return any(_decorated(node, word) for word in ("property", "cached_property"))


def is_static(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return True if a method has neither `self` nor `cls`."""
    return _decorated(node, "staticmethod")


def is_setter(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return True if a function only sets or deletes a property, or is one of several overloads."""
    return any(_decorated(node, word) for word in ("setter", "deleter", "overload"))


def _decorated(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, word: str) -> bool:
    for item in node.decorator_list:
        target = item.func if isinstance(item, ast.Call) else item
        if ast.unparse(target).rpartition(".")[2] == word:
            return True
    return False


def _plain(node: ast.expr) -> str:
    # A quoted annotation is only quoted for the interpreter.
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return ast.unparse(node)


def _without_first(arguments: ast.arguments) -> ast.arguments:
    copy = ast.parse(f"def f({ast.unparse(arguments)}): ...").body[0]
    assert isinstance(copy, ast.FunctionDef)
    found = copy.args
    if found.posonlyargs:
        found.posonlyargs = found.posonlyargs[1:]
    else:
        found.args = found.args[1:]
    return found


def _pieces(arguments: ast.arguments) -> list[str]:
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + [*arguments.defaults]
    pieces = [_one(item, value) for item, value in zip(positional, defaults, strict=True)]
    if arguments.posonlyargs:
        pieces.insert(len(arguments.posonlyargs), "/")
    if arguments.vararg is not None:
        pieces.append(f"*{ast.unparse(arguments.vararg)}")
    elif arguments.kwonlyargs:
        pieces.append("*")
    pieces += [
        _one(item, value)
        for item, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    if arguments.kwarg is not None:
        pieces.append(f"**{ast.unparse(arguments.kwarg)}")
    return pieces


def _one(item: ast.arg, value: ast.expr | None) -> str:
    text = ast.unparse(item)
    if value is None:
        return text
    return f"{text} = {ast.unparse(value)}" if item.annotation else f"{text}={ast.unparse(value)}"
