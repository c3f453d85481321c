"""Reader of one method (or function): its signature, its body, and why it cannot be described."""

import ast
from collections.abc import Mapping
from typing import TypeGuard, final

from fdl_cli.porter.ir.expressions import Kind
from fdl_cli.porter.ir.source import Span
from fdl_cli.porter.ir.statements import Block
from fdl_cli.porter.ir.symbols import MethodIR
from fdl_cli.porter.knowledge import torch_names as torch
from fdl_cli.porter.knowledge.python_names import CONTAINER_ANNOTATIONS, PYTHON_ANNOTATIONS
from fdl_cli.porter.lower.environment import ClassView, Environment, FunctionFact, join
from fdl_cli.porter.lower.given import OwnCall, narrowed_kind
from fdl_cli.porter.lower.lower_statements import BlockReader
from fdl_cli.porter.lower.names import FunctionNode, Names
from fdl_cli.porter.parse.reader import SourceFile

# Decorators that leave the function as it is, or work on a flow as they do on a forward.
_PLAIN_DECORATORS = torch.WRAPPERS | {
    "staticmethod", "classmethod", "typing.no_type_check", "property", "abc.abstractmethod",
    "torch.jit.ignore",
    "torch.jit.unused", "torch.jit.export", "torch.jit.script_method", "typing.override",
}  # fmt: skip
# These turn a function into an object whose signature is unknown.
_NO_WRAPPERS = frozenset({
    "typing.overload", "functools.cached_property", "functools.singledispatchmethod",
    "contextlib.contextmanager", "contextlib.asynccontextmanager",
})  # fmt: skip


_FORWARDS = frozenset({"forward", "__call__"})


@final
class MethodReader:
    """Reads methods of one file; `functions` grows while module-level functions are understood."""

    def __init__(self, source: SourceFile, names: Names, module_classes: frozenset[str]) -> None:
        self.source = source
        self.names = names
        self.module_classes = module_classes
        self.functions: dict[str, FunctionFact] = {}
        self.may_be_none: frozenset[str] = frozenset()
        self.given: list[OwnCall] = []

    def environment(self, view: ClassView, self_name: str) -> Environment:
        """Return a fresh environment; a method's own imports stay in the method."""
        names = Names(
            dict(self.names.aliases),
            self.names.stars,
            self.names.functions,
            self.names.classes,
            self.names.assigned,
        )
        functions: Mapping[str, FunctionFact] = self.functions
        return Environment(
            self.source, names, view, functions, self.module_classes, self.may_be_none, self_name
        )

    def read(
        self, node: FunctionNode, view: ClassView, *, cautious: bool = False
    ) -> tuple[MethodIR, Kind]:
        """Return the IR of a method, and the kind of its result.

        Read cautiously, no parameter and no part of a result is taken for a tensor: it may be a list of
        them, or None.
        """
        decorators = self._decorators(node)
        static = "staticmethod" in decorators
        arguments = [*node.args.posonlyargs, *node.args.args]
        self_name = "" if static or not arguments else arguments[0].arg
        env = self.environment(view, self_name)
        env.method = node
        self._signature(env, node, static)
        env.cautious = cautious
        if cautious:
            env.kinds = {n: "maybe" if k == "flow" else k for n, k in env.kinds.items()}
        around = _around(node, decorators)
        for item, dotted in zip(node.decorator_list, decorators, strict=True):
            if dotted not in _PLAIN_DECORATORS and item not in around:
                env.refuse(item.lineno, "FDL315", f"the decorator `@{ast.unparse(item)}`")
        for line in _unclear_supers(node):
            env.refuse(line, "FDL314", "`super()` is more than the receiver of a call")
        if isinstance(node, ast.AsyncFunctionDef):
            env.refuse(node.lineno, "FDL305", "an async method")
        given = view.given.get(node.name, {})
        env.kinds |= {
            name: narrowed_kind(kind, given.get(name)) for name, kind in env.kinds.items()
        }
        env.optional = {
            name
            for name in env.parameters
            if env.kinds.get(name) == "maybe" and given.get(name, "flow") in {"flow", "none"}
        }
        body = _body(env, node)
        self.given += (
            OwnCall(owner=owner, name=name, above=above, arguments=arguments)
            for owner, name, above, arguments in env.given
        )
        result: Kind | None = None
        for kind in env.returns:
            result = kind if result is None else join(result, kind)
        method = MethodIR(
            name=node.name,
            self_name=self_name,
            params=tuple(env.parameters),
            body=body,
            span=self._whole(node),
            name_span=self._name_span(node),
            annotations=self._annotations(node),
            decorators=decorators,
            refusals=tuple(sorted(env.refusals)),
            own_calls=tuple(dict.fromkeys(env.own_calls)),
            opaque=tuple(sorted(env.opaque.items())),
            set_elsewhere=tuple(sorted(env.set_elsewhere.items())),
            around=tuple(self.source.span(item) for item in around),
        )
        return method, result or "none"

    def is_wrapped(self, node: FunctionNode) -> bool:
        """Return True if a forward has decorators that run at every call."""
        return bool(_around(node, self._decorators(node)))

    def _decorators(self, node: FunctionNode) -> tuple[str, ...]:
        items = node.decorator_list
        return tuple(self.names.dotted(_called(item)) or ast.unparse(item) for item in items)

    def _signature(self, env: Environment, node: FunctionNode, static: bool) -> None:
        arguments = node.args
        positional = [*arguments.posonlyargs, *arguments.args]
        defaults: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults))
        defaults += arguments.defaults
        pairs = [*zip(positional, defaults, strict=True),
                 *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]  # fmt: skip
        lists, flags = _used_as_lists(node), _used_as_flags(node)
        notes = _type_comment(node)
        for argument, default in pairs if static else pairs[1:]:
            note = argument.annotation or notes.get(argument.arg)
            kind = _parameter_kind(note, default)
            if kind == "flow" and argument.arg in lists:
                kind = "maybe"
            if kind == "flow" and argument.arg in flags:
                kind = "python"
            env.kinds[argument.arg] = kind
            env.parameters.append(argument.arg)
        for special in (arguments.vararg, arguments.kwarg):
            if special is not None:
                # A tuple or dict of whatever the caller gives: tensors, or values of Python.
                env.kinds[special.arg] = "maybe"
                env.parameters.append(special.arg)

    def _whole(self, node: FunctionNode) -> Span:
        span = self.source.span(node)
        if not node.decorator_list:
            return span
        first = node.decorator_list[0]
        at = self.source.text.rindex("@", 0, self.source.span(first).start)
        return Span(start=at, end=span.end, line=first.lineno)

    def _name_span(self, node: FunctionNode) -> Span:
        start = self.source.text.index(node.name, self.source.span(node).start + len("def "))
        return Span(start=start, end=start + len(node.name), line=node.lineno)

    def _annotations(self, node: FunctionNode) -> tuple[Span, ...]:
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        notes = [item.annotation for item in arguments if item.annotation is not None]
        if node.returns is not None:
            notes.append(node.returns)
        inner = [found for note in notes for found in _nodes_of(note)]
        tensors = [item for item in inner if self.names.dotted(item) == "torch.Tensor"]
        return tuple(sorted(self.source.span(item) for item in tensors))


def _body(env: Environment, node: FunctionNode) -> Block:
    refusals = list(env.refusals)
    body = BlockReader(env).read(node.body)
    if _is_helper_generator(node):
        # Python runs it while the flow is traced, and its layers and operations are recorded as they are.
        body, env.refusals, env.returns = (), refusals, ["maybe"]
    return body


def _is_helper_generator(node: FunctionNode) -> bool:
    """Return True for a function with `yield` that is no forward."""
    if node.name in _FORWARDS or isinstance(node, ast.AsyncFunctionDef):
        return False
    todo: list[ast.AST] = list(node.body)
    while todo:
        found = todo.pop()
        if isinstance(found, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(
            found, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef
        ):
            todo += ast.iter_child_nodes(found)
    return False


def _nodes_of(note: ast.expr) -> list[ast.expr]:
    """Return names and attributes of an annotation; a matched attribute hides its own parts."""
    if isinstance(note, ast.Attribute | ast.Name):
        return [note]
    children = [child for child in ast.iter_child_nodes(note) if isinstance(child, ast.expr)]
    return [found for child in children for found in _nodes_of(child)]


def _called(node: ast.expr) -> ast.expr:
    return node.func if isinstance(node, ast.Call) else node


def _type_comment(node: FunctionNode) -> dict[str, ast.expr]:
    """Return the types of parameters that a comment like `# type: (list[Tensor]) -> Tensor` names."""
    try:
        parsed = ast.parse(node.type_comment or "() -> None", mode="func_type")
    except SyntaxError:
        return {}
    assert isinstance(parsed, ast.FunctionType)
    # An object's own parameter may be left out; there is no comment for keyword-only ones here.
    names = [each.arg for each in (*node.args.posonlyargs, *node.args.args)]
    types = parsed.argtypes
    if len(types) not in {len(names), len(names) - 1}:
        return {}
    return dict(zip(names[len(names) - len(types) :], types, strict=True))


def _parameter_kind(annotation: ast.expr | None, default: ast.expr | None) -> Kind:
    if annotation is not None:
        words = {word.lower() for word in _words(annotation)}
        if words & CONTAINER_ANNOTATIONS:
            return "maybe"
        if "tensor" in words:
            optional = isinstance(default, ast.Constant) and default.value is None
            return "maybe" if optional else "flow"
        if words & PYTHON_ANNOTATIONS:
            return "python"
    if default is None:
        return "flow"
    if isinstance(default, ast.Constant) and default.value is None:
        return "maybe"
    return "python"


def _words(annotation: ast.expr) -> list[str]:
    words = []
    for node in ast.walk(annotation):
        if isinstance(node, ast.Name):
            words.append(node.id)
        elif isinstance(node, ast.Attribute):
            words.append(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            words.extend(node.value.replace("[", " ").replace("]", " ").replace("|", " ").split())
    return words


def _used_as_lists(node: FunctionNode) -> set[str]:
    """Return the names which the body uses as a list would be used: run over, unpacked, len()."""
    found: set[str] = set()
    for inner in ast.walk(node):
        used: list[ast.expr] = []
        if isinstance(inner, ast.For | ast.comprehension):
            used = _iterated(inner.iter)
        elif (
            isinstance(inner, ast.Assign) and isinstance(inner.targets[0], ast.Tuple)
        ) or isinstance(inner, ast.Starred):
            used = [inner.value]
        elif _is_call_of(inner, "len", "list", "tuple", "reversed", "isinstance"):
            used = list(inner.args[:1])
        found |= {item.id for item in used if isinstance(item, ast.Name)}
    return found


def _used_as_flags(node: FunctionNode) -> set[str]:
    """Return the names that are only tested: compared with constants, checked for truth, counted to."""
    asked: set[str] = set()
    used: set[str] = set()
    for inner in ast.walk(node):
        match inner:
            case ast.Compare(left=ast.Name(id=name), comparators=[ast.Constant(value=value)]):
                if value is not None:
                    asked.add(name)
            case ast.If(test=ast.Name(id=name)) | ast.IfExp(test=ast.Name(id=name)):
                asked.add(name)
            case ast.Call(func=ast.Name(id="range"), args=[ast.Name(id=name)]):
                asked.add(name)
            case ast.BinOp(left=left, right=right):
                used |= {side.id for side in (left, right) if isinstance(side, ast.Name)}
            case ast.Attribute(value=ast.Name(id=name)) | ast.Subscript(value=ast.Name(id=name)):
                used.add(name)
            case ast.Call(func=ast.Attribute(), args=[ast.Name(id=name), *_]):
                used.add(name)
            case _:
                pass
        used |= _masks(inner)
    return asked - used


def _masks(node: ast.AST) -> set[str]:
    """Return the names whose comparison is a value to compute with: a mask, not an answer."""
    match node:
        case ast.BinOp(left=left, right=right):
            parts = [left, right]
        case ast.Attribute(value=value) | ast.UnaryOp(op=ast.Invert(), operand=value):
            parts = [value]
        case ast.Subscript(slice=index):
            parts = [index]
        case ast.Call(func=ast.Attribute(), args=args):
            parts = list(args)
        case _:
            parts = []
    compared = (part.left for part in parts if isinstance(part, ast.Compare))
    return {left.id for left in compared if isinstance(left, ast.Name)}


def _around(node: FunctionNode, decorators: tuple[str, ...]) -> list[ast.expr]:
    """Return the decorators of a forward that run at every call: foreign ones, and those above one."""
    foreign = [at for at, name in enumerate(decorators) if name not in _PLAIN_DECORATORS]
    if node.name != "forward" or not foreign:
        return []
    above = decorators[: foreign[-1] + 1]
    if any(_is_no_wrapper(name) for name in above):
        return []
    return node.decorator_list[: foreign[-1] + 1]


def _is_no_wrapper(name: str) -> bool:
    """Return True if a decorator makes something else of a function, or compiles its text."""
    plain = name in _PLAIN_DECORATORS and name not in torch.WRAPPERS
    return plain or name.startswith("torch.jit.") or name in _NO_WRAPPERS


def _unclear_supers(node: FunctionNode) -> list[int]:
    """Return the lines where `super()` is passed around, or calls forward from another method."""
    found = {inner.lineno for inner in ast.walk(node) if _is_call_of(inner, "super")}
    for inner in ast.walk(node):
        match inner:
            case ast.Call(func=ast.Attribute(value=value, attr=name)) if _is_call_of(
                value, "super"
            ) and (name != "forward" or node.name == "forward"):
                found.discard(value.lineno)
            case _:
                pass
    return sorted(found)


def _iterated(node: ast.expr) -> list[ast.expr]:
    return list(node.args) if _is_call_of(node, "zip", "enumerate", "reversed") else [node]


def _is_call_of(node: ast.AST, *names: str) -> TypeGuard[ast.Call]:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return False
    return node.func.id in names
