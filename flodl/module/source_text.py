"""The text of a function: where it is written, and its code compiled again with another body.

    place = place_of(function.__code__, function.__globals__)
    place.node.body                                        # the statements, as `ast` has them
    compiled(place, place.node.body, function.__code__, free)   # equals the code that the function has

The text is trusted only if it compiles to what the function runs, see `same_code`: a file may have been
edited since it was imported, and a tool such as pytest may have changed the code.
"""

from __future__ import annotations
import __future__

import ast
import copy
import linecache
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType
from typing import TYPE_CHECKING, Any, Final, final

if TYPE_CHECKING:
    from collections.abc import Iterator

_OUTER: Final = "_flodl_outer"
_FUTURES: Final = sum(
    vars(__future__)[name].compiler_flag for name in __future__.all_feature_names
)


def codes(code: CodeType) -> Iterator[CodeType]:
    """Yield a code object and those inside it."""
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from codes(each)


@final
@dataclass(frozen=True, slots=True)
class Place:
    """Where a function is written.

    Attributes:
        node: the function.
        owner: the class around it, which spells names such as `self.__scale`; `None` outside of classes.
        imported: names that its module imports: Python compiles calls of their attributes another way.
    """

    node: ast.FunctionDef
    owner: str | None
    imported: frozenset[str]


@lru_cache(maxsize=8)
def _functions(text: str) -> dict[tuple[str, int], Place]:
    """Return the functions of a file by name and first line."""
    found: dict[tuple[str, int], Place] = {}
    tree = ast.parse(text)
    imported = frozenset(_imported(tree))

    def walk(node: ast.AST, owner: str | None) -> None:
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            found[node.name, first] = Place(node, owner, imported)
        inside = node.name if isinstance(node, ast.ClassDef) else owner
        for child in ast.iter_child_nodes(node):
            walk(child, inside)

    walk(tree, None)
    return found


def _imported(node: ast.AST) -> Iterator[str]:
    """Yield the names that a module imports outside of its functions and classes."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from ((each.asname or each.name).partition(".")[0] for each in node.names)
    elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.expr)):
        for child in ast.iter_child_nodes(node):
            yield from _imported(child)


def place_of(code: CodeType, namespace: dict[str, Any]) -> Place | None:
    """Return where a function is written, `None` if its file is not there or has no such function."""
    text = "".join(linecache.getlines(code.co_filename, namespace))
    try:
        return _functions(text).get((code.co_name, code.co_firstlineno))
    except SyntaxError:
        return None


def compiled(
    place: Place, body: list[ast.stmt], code: CodeType, free: set[str]
) -> CodeType | None:
    """Compile a function with another body, and return its code without a closure.

    Args:
        place: where the function is written.
        body: its statements.
        code: its code as Python has compiled it.
        free: names that are to be free variables.
    """
    imports = "".join(f"import {name}\n" for name in sorted(place.imported - {"*"}))
    around = "    pass\n"
    if place.owner:
        # The class itself is no variable of the function around it, unless the flow has it as one.
        own = "" if place.owner in free else f"    global {place.owner}\n"
        around = f"{own}    class {place.owner}:\n        pass\n"
    outer = ", ".join(sorted(free - {"__class__"}))
    tree = ast.parse(f"{imports}def {_OUTER}({outer}):\n{around}")
    node = copy.copy(place.node)
    node.body, node.decorator_list = body, []
    scope: Any = tree.body[-1]
    (scope.body[-1] if place.owner else scope).body = [node]
    ast.fix_missing_locations(tree)
    flags = code.co_flags & _FUTURES
    module = compile(tree, code.co_filename, "exec", flags=flags, dont_inherit=True)
    found = (each for each in codes(module) if each.co_name == code.co_name)
    return next((each for each in found if each.co_firstlineno == node.lineno), None)


def same_code(one: CodeType, other: CodeType) -> bool:
    """Return True if two code objects do the same, wherever they stand."""
    if len(one.co_consts) != len(other.co_consts):
        return False
    same = all(
        same_code(a, b)
        if isinstance(a, CodeType) and isinstance(b, CodeType)
        else type(a) is type(b) and a == b
        for a, b in zip(one.co_consts, other.co_consts, strict=True)
    )
    return same and all(
        getattr(one, name) == getattr(other, name)
        for name in (
            "co_code",
            "co_names",
            "co_varnames",
            "co_freevars",
            "co_cellvars",
            "co_argcount",
        )
    )
