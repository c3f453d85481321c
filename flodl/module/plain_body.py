"""The plain body of a flow: the function that a tool traces, with the words of the flow done at once.

Tools trace a module by calling it: Dynamo and `torch.export` read the bytecode of its forward, `torch.fx`
calls it with proxies, `torch.jit.trace` with traced tensors. A recording below them would read values that
they do not have, so they get the text of the flow with each word replaced by a function:

    def flow(self, x):                               def flow(self, x):
        x = x.through(self.conv).also(self.mix)          x = also(through(x, self.conv), self.mix)
        if (x.max() > 1).through(bool):                  if x.max() > 1:
            x = super().flow(x)                              x = super().forward(x)
        return x                                         return x

The names of the functions are free variables of the new function, beside those that the flow has. Line
numbers, file and globals stay, and a flow without words is its own plain body. The text must be the one that
Python has compiled: `same_code` compares both, so a file that was edited since gives no plain body rather
than a wrong one.
"""

from __future__ import annotations

import ast
import builtins
import copy
import re
from inspect import CO_VARARGS, CO_VARKEYWORDS, Parameter, getattr_static, unwrap
from types import (
    BuiltinFunctionType,
    BuiltinMethodType,
    CellType,
    CodeType,
    FunctionType,
    MethodType,
)
from typing import TYPE_CHECKING, Any, Final, final

import torch

from flodl.module.source_text import codes, compiled, place_of, same_code
from flodl.tracing.decorators import passed
from flodl.vocabulary.plain_words import FREE_WORDS, TAG_WORDS, PlainTags, call_flow

if TYPE_CHECKING:
    from collections.abc import Callable

    from flodl.tracing.call_inputs import Definition

_MARK: Final = "_flodl_"
_TAGS: Final = f"{_MARK}tags"
_WORDS: Final = FREE_WORDS | TAG_WORDS
# Words that no tensor has as a method: a function that uses one cannot run on plain values as it is.
_FOREIGN: Final = frozenset(_WORDS) - {"split", "map"}
# `previous` reads and writes what a module remembers from call to call; a trace must not do that.
_KEPT: Final = "previous"
_CALL: Final = ("flodl.builder.flow_builder", "call")
_POSITIONAL: Final = Parameter.POSITIONAL_OR_KEYWORD
# How the code of a function counts its parameters.
_ORDER: Final = (
    Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY,
    Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD,
)  # fmt: skip


def attribute_of(key: str) -> str:
    """Return the attribute of a class that has the plain body of a definition."""
    return f"{_MARK}plain_" + re.sub(r"\W", "_", key)


def plain_body(definition: Definition, kind: type) -> Callable[..., Any] | None:
    """Return `body(module, *inputs)` of a definition, `None` if its text is not to be had.

    Args:
        definition: the method that describes the flow.
        kind: the class whose objects will be called.
    """
    function = definition.function
    inner = unwrap(function)
    if not isinstance(inner, FunctionType):
        return None
    try:
        made = _Bodies(definition, kind).body(inner)
    except _NoTextError:
        return None
    body = _rewrapped(function, inner, made)
    return None if body is None else _with_inputs(body, definition)


def _with_inputs(body: Callable[..., Any], definition: Definition) -> Callable[..., Any]:
    """Let a body take one value per parameter, the module first."""
    parameters = definition.signature.parameters.values()
    kinds = {each.kind for each in parameters}
    if kinds <= {_POSITIONAL, Parameter.POSITIONAL_ONLY} and not definition.static:
        return body
    taken = ", ".join(["self", *definition.parameters])
    owner = [] if definition.static else ["self"]
    if isinstance(body, FunctionType) and "__wrapped__" not in vars(body):
        # `*rest` of torch.fx is one proxy, which cannot be spread: the body takes it as it is.
        body = _without_stars(body)
        inner = sorted(parameters, key=lambda each: _ORDER.index(each.kind))
        handed = ", ".join([*owner, *(each.name for each in inner)])
    else:
        handed = ", ".join([*owner, *map(passed, parameters)])
    namespace: dict[str, Any] = {"_body": body}
    # The text is made here, from a checked signature.
    exec(f"def body({taken}):\n    return _body({handed})\n", namespace)
    made: Callable[..., Any] = namespace["body"]
    return made


def _without_stars(function: FunctionType) -> FunctionType:
    """Return a function that takes all parameters by position: `*rest` as a tuple, `**named` as a dict."""
    code = function.__code__
    stars = code.co_flags & (CO_VARARGS | CO_VARKEYWORDS)
    count = code.co_argcount + code.co_kwonlyargcount + stars.bit_count()
    plain = code.replace(
        co_argcount=count,
        co_posonlyargcount=0,
        co_kwonlyargcount=0,
        co_flags=code.co_flags & ~stars,
    )
    return _copied(function, plain, function.__closure__ or ())


def _rewrapped(
    function: Callable[..., Any], inner: FunctionType, made: FunctionType
) -> Callable[..., Any] | None:
    """Return the decorators of a flow around another function: each one holds what it wraps in a cell."""
    if function is inner or made is inner:
        return made if function is inner else function
    if not isinstance(function, FunctionType):
        return None
    wrapped = vars(function).get("__wrapped__")
    within = _rewrapped(wrapped, inner, made) if wrapped is not None else None
    cells = function.__closure__ or ()
    if within is None or not any(_content(cell) is wrapped for cell in cells):
        return None
    closure = tuple(CellType(within) if _content(each) is wrapped else each for each in cells)
    return _copied(function, function.__code__, closure)


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing is in it yet
        return None


def _copied(function: FunctionType, code: CodeType, closure: tuple[CellType, ...]) -> FunctionType:
    made = FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, closure
    )
    made.__kwdefaults__ = function.__kwdefaults__
    made.__qualname__, made.__module__ = function.__qualname__, function.__module__
    return made


# ---- functions with words -----------------------------------------------------------------------


@final
class _NoTextError(Exception):
    """A function with words has no text that could be changed, or remembers values from call to call."""


@final
class _Bodies:
    """The plain bodies of one flow and of the methods and functions with words that it calls."""

    def __init__(self, definition: Definition, kind: type) -> None:
        self._definition = definition
        self._kind = kind
        self._cells: dict[FunctionType, CellType] = {}

    def body(self, function: FunctionType) -> FunctionType:
        """Return a function with its words done at once; itself if it has none.

        Raises:
            _NoTextError: it has words, and no text.
        """
        helpers = self._helpers(function)
        if not helpers and _names(function).isdisjoint({*_WORDS, _KEPT, "flow", "call"}):
            return function
        code = function.__code__
        place = place_of(code, function.__globals__)
        as_it_is = place and compiled(place, place.node.body, code, {*code.co_freevars})
        if place is None or as_it_is is None or not same_code(as_it_is, code):
            raise _NoTextError
        is_method = self._is_method(function)
        methods = {name for name, each in helpers.items() if self._is_method(each)}
        words = _Words(function, helpers, methods, code.co_varnames[:1] if is_method else ())
        statements: list[Any] = [words.visit(copy.deepcopy(each)) for each in place.node.body]
        if words.left:
            raise _NoTextError
        if words.has_tags:
            keeps = is_method and function is unwrap(self._definition.function)
            statements.insert(0, _start_of_tags(code.co_varnames[0] if keeps else None))
        free: dict[str, Any] = {f"{_MARK}{name}": word for name, word in _WORDS.items()}
        free |= {f"{_MARK}flow": call_flow, f"{_MARK}start": _starter(self._definition.key)}
        cells = {name: CellType(value) for name, value in free.items()}
        cells |= {_helper_name(name): self._cell(each) for name, each in helpers.items()}
        made = compiled(place, statements, code, {*code.co_freevars, *cells})
        if made is None:
            raise _NoTextError
        cells |= dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        return _copied(function, made, tuple(cells[name] for name in made.co_freevars))

    def _is_method(self, function: FunctionType) -> bool:
        """Return True if the first argument of a function is the module."""
        if function is unwrap(self._definition.function):
            return not self._definition.static
        return any(each is function for kind in self._kind.__mro__ for each in vars(kind).values())

    def _cell(self, helper: FunctionType) -> CellType:
        """Return the cell of a helper's body, which is filled last: a helper may call itself."""
        if helper not in self._cells:
            self._cells[helper] = CellType()
            self._cells[helper].cell_contents = self.body(helper)
        return self._cells[helper]

    def _helpers(self, function: FunctionType) -> dict[str, FunctionType]:
        """Return the methods and functions that a function may call, and that use words, by name.

        Raises:
            _NoTextError: one of them is a class method.
        """
        found = {}
        for name in sorted(_names(function)):
            each = _helper(function, self._kind, name)
            if each is not None and self._has_words(each):
                if isinstance(getattr_static(self._kind, name, None), classmethod):
                    raise _NoTextError
                found[name] = each
        return found

    def _has_words(self, function: FunctionType) -> bool:
        seen, waiting = {function}, [function]
        while waiting:
            each = waiting.pop()
            names = _names(each)
            if not names.isdisjoint(_FOREIGN):
                return True
            found = {_helper(each, self._kind, name) for name in names}
            fresh = {helper for helper in found if helper is not None} - seen
            seen |= fresh
            waiting += fresh
        return False


def _names(function: FunctionType) -> set[str]:
    return {name for code in codes(function.__code__) for name in code.co_names}


def _helper(function: FunctionType, kind: type, name: str) -> FunctionType | None:
    """Return the method or function of the user that a name in a function may mean."""
    if name in ("flow", "forward"):
        return None
    found = getattr_static(kind, name, None) or function.__globals__.get(name)
    if isinstance(found, (staticmethod, classmethod)):
        found = found.__func__
    if not isinstance(found, FunctionType) or "__flodl_subflow__" in vars(found):
        return None
    library = found.__module__.partition(".")[0] in ("torch", "flodl")
    return None if library else found


def _helper_name(name: str) -> str:
    return f"{_MARK}helper_{name}"


def _starter(key: str) -> Callable[..., Any]:
    def start(module: Any = None) -> PlainTags:
        """Return the tags of a new call; their values are kept for the user, but not in an export."""
        keeps = module is not None and not torch.compiler.is_exporting()
        return PlainTags(module._flodl_plans[key].watch if keeps else None)

    return start


def _start_of_tags(owner: str | None) -> ast.stmt:
    return ast.parse(f"{_TAGS} = {_MARK}start({owner or ''})").body[0]


@final
class _Words(ast.NodeTransformer):
    """Replaces the words of a flow by calls of functions.

    Attributes:
        has_tags: whether a word needs the tags of the call.
    """

    def __init__(
        self,
        function: FunctionType,
        helpers: dict[str, FunctionType],
        methods: set[str],
        owner: tuple[str, ...],
    ) -> None:
        """Take the function, its helpers by name, which of them take the module, and its name here."""
        self._helpers = helpers
        self._methods = methods
        self._unseen, self._refused = set(helpers), set[str]()
        self._self = owner
        inside = [*codes(function.__code__)]
        self._locals = {name for code in inside for name in (*code.co_varnames, *code.co_cellvars)}
        self._uses_using = any("using" in code.co_names for code in inside)
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        self._known = vars(builtins) | function.__globals__
        self._known |= {name: _content(cell) for name, cell in cells}
        self.has_tags = False

    @property
    def left(self) -> set[str]:
        """Names of helpers and words that are still there."""
        return self._unseen | self._refused

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Replace `x.word(...)`, `call(f, ...)`, and the flow of a base called by name."""
        self.generic_visit(node)
        called = node.func
        if self._is_call(called) and node.args and not isinstance(node.args[0], ast.Starred):
            direct = ast.Call(node.args[0], node.args[1:], node.keywords)
            return ast.copy_location(direct, node)
        helper = self._helper_call(node, called)
        if helper is not None:
            return ast.copy_location(helper, node)
        if not isinstance(called, ast.Attribute):
            return node
        if called.attr == _KEPT and not self._is_self(called.value):
            self._refused.add(_KEPT)
        if called.attr == "flow":
            return self._flow(node, called)
        if called.attr not in _WORDS or self._is_self(called.value):
            return node
        return ast.copy_location(self._word(node, called), node)

    def _is_self(self, value: ast.expr) -> bool:
        return isinstance(value, ast.Name) and (value.id,) == self._self

    def _helper_call(self, node: ast.Call, called: ast.expr) -> ast.Call | None:
        """Return the call of the plain body of a helper: a method of the module, or a function."""
        owner: list[ast.expr] = []
        if isinstance(called, ast.Attribute) and called.attr in self._helpers:
            name = called.attr
            is_known = self._is_self(called.value)
            owner = [called.value] if name in self._methods else []
        elif isinstance(called, ast.Name) and called.id in self._helpers:
            name = called.id
            is_known = self._value(called) is self._helpers[name]
        else:
            return None
        if not is_known:  # `super().block(x)`, or a method of another object
            self._refused.add(name)
            return None
        self._unseen.discard(name)
        function = ast.Name(_helper_name(name), ast.Load())
        return ast.Call(function, [*owner, *node.args], node.keywords)

    def _word(self, node: ast.Call, called: ast.Attribute) -> ast.Call:
        given = [called.value, *node.args]
        if called.attr == "through" and self._is_function(node.args):
            # Dynamo knows such a function only where it is called.
            return ast.Call(node.args[0], [called.value, *node.args[1:]], node.keywords)
        if called.attr in TAG_WORDS:
            self.has_tags = True
            given.insert(0, ast.Name(_TAGS, ast.Load()))
        return ast.Call(ast.Name(f"{_MARK}{called.attr}", ast.Load()), given, node.keywords)

    def _is_function(self, args: list[ast.expr]) -> bool:
        """Return True if a stage is `bool`, or a function by a dotted name such as `F.relu`."""
        if not args or self._uses_using:
            return False
        stage = self._value(args[0])
        return stage is bool or isinstance(
            stage, (FunctionType, BuiltinFunctionType, BuiltinMethodType, MethodType)
        )

    def _is_call(self, called: ast.expr) -> bool:
        """Return True for `flodl.call`, which only calls."""
        value = self._value(called)
        is_ours = isinstance(value, FunctionType) and value.__module__ == _CALL[0]
        return is_ours and value.__qualname__ == _CALL[1]

    def _value(self, node: ast.expr) -> Any:
        """Return what a dotted name outside of the flow means, `None` for anything else."""
        if isinstance(node, ast.Attribute):
            owner = self._value(node.value)
            return None if owner is None else getattr(owner, node.attr, None)
        if not isinstance(node, ast.Name) or node.id in self._locals:
            return None
        return self._known.get(node.id)

    def _flow(self, node: ast.Call, called: ast.Attribute) -> ast.AST:
        value = called.value
        name = value.id if isinstance(value, ast.Name) else None
        of_class = vars_of_class(self._known.get(name or ""))
        if _is_super(value) or "_flodl_definitions" in of_class:
            called.attr = "forward"
        elif self._is_self(value):
            return ast.copy_location(
                ast.Call(ast.Name(f"{_MARK}flow", ast.Load()), [value, *node.args], node.keywords),
                node,
            )
        return node

    def visit_If(self, node: ast.If) -> ast.AST:
        """Let a condition be one, as in the original: tools treat `if x` better than `if bool(x)`."""
        return self._condition(node)

    def visit_While(self, node: ast.While) -> ast.AST:
        """Treat a condition as `visit_If` does."""
        return self._condition(node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        """Treat a condition as `visit_If` does."""
        return self._condition(node)

    def _condition(self, node: ast.If | ast.While | ast.IfExp) -> ast.AST:
        node.test = self._bare(node.test)
        self.generic_visit(node)
        return node

    def _bare(self, test: ast.expr) -> ast.expr:
        """Return a condition without `.through(bool)` and `call(bool, ...)`."""
        if isinstance(test, ast.BoolOp):
            test.values = [self._bare(each) for each in test.values]
        elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            test.operand = self._bare(test.operand)
        elif isinstance(test, ast.Call) and not test.keywords:
            called = test.func
            if len(test.args) == 1 and isinstance(called, ast.Attribute):
                if called.attr == "through" and self._value(test.args[0]) is bool:
                    return called.value
            elif self._is_call(called) and len(test.args) == 2:
                is_bool = self._value(test.args[0]) is bool
                return test.args[1] if is_bool else test
        return test


def vars_of_class(value: object) -> dict[str, Any]:
    """Return the attributes of a class itself, nothing for anything else."""
    return dict(vars(value)) if isinstance(value, type) else {}


def _is_super(value: ast.expr) -> bool:
    called = value.func if isinstance(value, ast.Call) else None
    return isinstance(called, ast.Name) and called.id == "super"
