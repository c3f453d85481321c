"""Facts about classes: bases, methods, and the attributes that methods set on `self`."""

import ast
from collections.abc import Iterable, Iterator

from fdl_cli.porter.ir.source import Span
from fdl_cli.porter.ir.symbols import AttributeFact, AttributeKind, BaseFact, BaseKind, ClassFacts
from fdl_cli.porter.knowledge import torch_names as torch
from fdl_cli.porter.knowledge.python_names import MUTATORS
from fdl_cli.porter.knowledge.tensor_methods import makes_tensor
from fdl_cli.porter.lower.layer_properties import layer_properties
from fdl_cli.porter.lower.names import FunctionNode, Names
from fdl_cli.porter.parse.reader import SourceFile

_STRENGTH: dict[AttributeKind, int] = {
    "modules": 5, "module": 4, "parameters": 3, "tensors": 3, "parameter": 2, "unknown": 1, "value": 0,
}  # fmt: skip


def class_nodes(tree: ast.Module) -> Iterator[tuple[ast.ClassDef, bool]]:
    """Yield every class and whether it is reachable as a name of the module."""
    yield from _classes(tree.body, top=True)


def _classes(body: Iterable[ast.stmt], *, top: bool) -> Iterator[tuple[ast.ClassDef, bool]]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield node, top
            yield from _classes(node.body, top=False)
        elif isinstance(node, FunctionNode):
            yield from _classes(node.body, top=False)
        else:
            for field in ("body", "orelse", "finalbody"):
                yield from _classes(vars(node).get(field, ()), top=top)
            for handler in vars(node).get("handlers", ()):
                yield from _classes(handler.body, top=top)


def class_facts(
    source: SourceFile, names: Names, module_classes: frozenset[str], node: ast.ClassDef, top: bool
) -> ClassFacts:
    """Return the facts about one class without running it."""
    attributes: dict[str, AttributeFact] = {}
    for fact in _attributes(source, names, module_classes, node):
        known = attributes.get(fact.name)
        if known is None or _STRENGTH[fact.kind] > _STRENGTH[known.kind]:
            attributes[fact.name] = fact
    methods = tuple(item.name for item in node.body if isinstance(item, FunctionNode))
    bases = tuple(_base(source, names, base) for base in node.bases)
    return ClassFacts(
        name=node.name,
        span=source.span(node),
        bases=bases,
        attributes=tuple(attributes.values()),
        methods=methods,
        members=tuple(dict.fromkeys((*methods, *_class_level_names(node)))),
        module_inits=tuple(_module_inits(source, names, node)),
        metaclass=next((ast.unparse(k.value) for k in node.keywords if k.arg == "metaclass"), ""),
        top_level=top,
        overloads=tuple(_overloads(source, node)),
        decorators=tuple(names.dotted(item) for item in node.decorator_list),
    )


def _overloads(source: SourceFile, node: ast.ClassDef) -> Iterator[Span]:
    """Yield the names of all definitions of `forward` but the last, which is the one that counts."""
    found = [n for n in node.body if isinstance(n, FunctionNode) and n.name == "forward"]
    for item in found[:-1]:
        start = source.text.index(item.name, source.span(item).start + len("def "))
        yield Span(start=start, end=start + len(item.name), line=item.lineno)


def _base(source: SourceFile, names: Names, node: ast.expr) -> BaseFact:
    dotted = names.dotted(node)
    if isinstance(node, ast.Subscript) and names.dotted(node.value).startswith("typing."):
        dotted = names.dotted(node.value)  # `Generic[T]` says no more than `Generic`
    name = node.id if isinstance(node, ast.Name) else ""
    kind: BaseKind = "other"
    if dotted in torch.MODULE_BASES:
        kind = "module"
    elif dotted in torch.FLOW_BASES:
        kind = "flow"
    elif dotted.startswith("torch.nn."):
        kind = "layer"
    elif name in names.classes:
        kind = "local"
    text = name if kind == "local" else dotted or source.slice(source.span(node))
    return BaseFact(name=text, kind=kind, span=source.span(node))


def _class_level_names(node: ast.ClassDef) -> Iterator[str]:
    for item in node.body:
        targets = item.targets if isinstance(item, ast.Assign) else []
        targets = [item.target] if isinstance(item, ast.AnnAssign) else targets
        for target in targets:
            if isinstance(target, ast.Name):
                yield target.id


def _module_inits(source: SourceFile, names: Names, node: ast.ClassDef) -> Iterator[Span]:
    for inner in ast.walk(node):
        match inner:
            case ast.Attribute(value=owner, attr="__init__"):
                if names.dotted(owner) in torch.MODULE_BASES:
                    yield source.span(owner)
            case _:
                pass


def _attributes(
    source: SourceFile, names: Names, module_classes: frozenset[str], node: ast.ClassDef
) -> Iterator[AttributeFact]:
    for name in _class_level_names(node):
        yield AttributeFact(name=name, kind="value", constructor="", text="", line=node.lineno)
    for name in sorted(layer_properties(node)):
        yield AttributeFact(name=name, kind="module", constructor="", text="", line=node.lineno)
    for method in node.body:
        if not isinstance(method, FunctionNode) or not method.args.args:
            continue
        self_name = method.args.args[0].arg
        for inner in ast.walk(method):
            yield from _attribute(source, names, module_classes, inner, self_name)


def _attribute(
    source: SourceFile,
    names: Names,
    module_classes: frozenset[str],
    node: ast.AST,
    self_name: str,
) -> Iterator[AttributeFact]:
    targets: list[ast.expr] = []
    value: ast.expr | None = None
    if isinstance(node, ast.Assign):
        targets, value = node.targets, node.value
    elif isinstance(node, ast.AnnAssign):
        targets, value = [node.target], node.value
    elif isinstance(node, ast.Call):
        yield from _registered(node, self_name)
        yield from _filled(names, module_classes, node, self_name)
    for target in targets:
        for part, given in _pairs(target, value):
            if isinstance(part, ast.Attribute) and _is_name(part.value, self_name):
                kind, constructor = _kind(names, module_classes, given)
                text = "" if given is None else " ".join(source.slice(source.span(given)).split())
                yield AttributeFact(
                    name=part.attr, kind=kind, constructor=constructor, text=text, line=part.lineno
                )


def _filled(
    names: Names, module_classes: frozenset[str], node: ast.Call, self_name: str
) -> Iterator[AttributeFact]:
    """Yield the container of the object that a call puts a tensor into."""
    match node:
        case ast.Call(
            func=ast.Attribute(value=ast.Attribute(value=owner, attr=name), attr=method)
        ):
            kinds = {_kind(names, module_classes, each)[0] for each in node.args}
            if method in MUTATORS and _is_name(owner, self_name) and "parameter" in kinds:
                yield AttributeFact(
                    name=name, kind="tensors", constructor="", text="", line=node.lineno
                )
        case _:
            pass


def _pairs(target: ast.expr, value: ast.expr | None) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """Yield every part of a target with its value."""
    if not isinstance(target, ast.Tuple):
        yield target, value
    elif isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts):
        yield from zip(target.elts, value.elts, strict=True)
    else:
        yield from ((part, value) for part in target.elts)


def _registered(node: ast.Call, self_name: str) -> Iterator[AttributeFact]:
    callee = node.func
    if not isinstance(callee, ast.Attribute) or not _is_name(callee.value, self_name):
        return
    if not node.args or not isinstance(node.args[0], ast.Constant):
        return
    kinds: dict[str, AttributeKind] = {
        "register_buffer": "parameter",
        "register_parameter": "parameter",
        "add_module": "module",
        "register_module": "module",
    }
    kind = kinds.get(callee.attr)
    name = node.args[0].value
    if kind is not None and isinstance(name, str):
        yield AttributeFact(name=name, kind=kind, constructor="", text="", line=node.lineno)


def stored_on_self(method: FunctionNode) -> set[str]:
    """Return the attributes of the object that a method sets, or fills as containers."""
    if not method.args.args:
        return set()
    self_name = method.args.args[0].arg
    found: set[str] = set()
    for node in ast.walk(method):
        if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            target: ast.expr = node.value if isinstance(node, ast.Subscript) else node
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            target = node.func.value if node.func.attr in MUTATORS else node.func
            if target is node.func:
                continue
        else:
            continue
        while isinstance(target, ast.Subscript):
            target = target.value
        if isinstance(target, ast.Attribute) and _is_name(target.value, self_name):
            found.add(target.attr)
    return found


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _items(value: ast.expr | None) -> list[ast.expr]:
    """Return the operands of an operator, or the items of a container that is written out."""
    match value:
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Dict(values=parts):
            return list(parts)
        case ast.BinOp(left=left, right=right):
            return [left, right]
        case ast.ListComp(elt=part) | ast.DictComp(value=part) | ast.UnaryOp(operand=part):
            return [part]
        case _:
            return []


def _kind(
    names: Names, module_classes: frozenset[str], value: ast.expr | None
) -> tuple[AttributeKind, str]:
    if isinstance(value, ast.IfExp):
        first = _kind(names, module_classes, value.body)
        second = _kind(names, module_classes, value.orelse)
        return max(first, second, key=lambda found: _STRENGTH[found[0]])
    if not isinstance(value, ast.Call):
        if any(_kind(names, module_classes, each)[0] == "parameter" for each in _items(value)):
            return ("parameter" if isinstance(value, ast.BinOp | ast.UnaryOp) else "tensors"), ""
        return ("unknown", "") if isinstance(value, ast.Attribute | ast.Name) else ("value", "")
    dotted = names.dotted(value.func)
    if _torch_kind(dotted) != "unknown":
        return _torch_kind(dotted), dotted
    match value.func:
        case ast.Name(id=name) if name in module_classes:
            return "module", name
        case ast.Name(id=name) if name in names.classes:
            return "unknown", name
        case ast.Attribute(value=owner, attr=method) if makes_tensor(method):
            made = _kind(names, module_classes, owner)[0] == "parameter"
            return ("parameter" if made else "unknown"), ""
        case _:
            return "unknown", dotted


def _torch_kind(dotted: str) -> AttributeKind:
    """Return the result of calling an imported name."""
    if dotted in torch.PARAMETER_CONTAINERS:
        return "parameters"
    if dotted in torch.CONTAINERS or dotted in torch.KEYED_CONTAINERS:
        return "modules"
    if dotted in torch.PARAMETERS:
        return "parameter"
    last = dotted.rpartition(".")[2]
    if dotted.startswith("torch.nn.") and last[:1].isupper():
        return "module"
    if dotted.startswith("torch.") and last[:1].islower() and not dotted.startswith("torch.nn."):
        return "parameter"
    return "unknown"
