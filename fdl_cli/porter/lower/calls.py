"""Classification of calls: the target, and the kind of the result."""

from dataclasses import dataclass
from typing import final

from fdl_cli.porter.ir.expressions import Expr, Kind, Role
from fdl_cli.porter.knowledge import python_names as py
from fdl_cli.porter.knowledge import tensor_methods as methods
from fdl_cli.porter.knowledge import torch_names as torch
from fdl_cli.porter.lower.binding import element_kind
from fdl_cli.porter.lower.effects.local_containers import is_local_container
from fdl_cli.porter.lower.effects.new_objects import is_settled
from fdl_cli.porter.lower.environment import FLOWING, MAY_FLOW, Environment, FunctionFact


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The verdict on one call."""

    role: Role
    kind: Kind


def classify(env: Environment, callee: Expr, arguments: tuple[Expr, ...], line: int) -> Call:
    """Find the target of a call; a call that a flow cannot contain is noted as a refusal."""
    if callee.op == "name":
        return _named(env, callee, arguments, line)
    if callee.op == "attribute":
        return _attribute(env, callee, arguments, line)
    return Call(role="submodule", kind=_result(arguments))


def _result(arguments: tuple[Expr, ...]) -> Kind:
    """Return the kind of a step's result: of values a value, of plain Python anything, or None."""
    return "flow" if _any(arguments, MAY_FLOW - {"size"}) else "result"


def _named(env: Environment, callee: Expr, arguments: tuple[Expr, ...], line: int) -> Call:
    name = callee.name
    if name in env.local_functions:
        return Call(role="python", kind=env.local_functions[name])
    if name in env.kinds:
        return Call(role="submodule", kind=env.handed.get(name) or _result(arguments))
    if callee.dotted:
        return by_dotted(env, callee.dotted, arguments, line)
    if name in env.names.classes:
        return _constructor(env, name, arguments)
    if name in env.names.functions:
        return _function(env, name, arguments, line)
    if name in py.BUILTINS and not env.names.is_own(name):
        return _builtin(env, name, arguments, line)
    if name in env.functions:  # from another file, by a star
        return _function(env, name, arguments, line)
    return _step(arguments)


def _function(env: Environment, name: str, arguments: tuple[Expr, ...], line: int) -> Call:
    fact = env.functions.get(name)
    if fact is not None and fact.draws:
        return _drawing(env, name, arguments, fact, line)
    if fact is not None and fact.transparent:
        return Call(role="python", kind=fact.result if _any(arguments, MAY_FLOW) else "python")
    if fact is not None and fact.result not in {"flow", "flows"}:
        return Call(role="function", kind="result")
    return _step(arguments)


def _drawing(
    env: Environment, name: str, arguments: tuple[Expr, ...], fact: FunctionFact, line: int
) -> Call:
    """Classify a call of a function that draws: a step, whether something flows into it or not."""
    if _any(arguments, {"module", "modules"}):
        env.refuse(line, "FDL308", f"`{name}` draws among layers, or into a list")
    return Call(role="function", kind="flow" if _any(arguments, FLOWING) else fact.result)


def _constructor(env: Environment, name: str, arguments: tuple[Expr, ...]) -> Call:
    if name in env.module_classes:
        return Call(role="made", kind="module")
    if is_settled(env.names.classes[name], arguments):
        return Call(role="python", kind="maybe")
    # A flow is traced once: an object made by plain Python would be shared by all calls.
    return Call(role="function", kind="result")


def _step(arguments: tuple[Expr, ...]) -> Call:
    """Classify a call of code that is not known: it runs in every call."""
    return Call(role="function", kind=_result(arguments))


def by_dotted(env: Environment, dotted: str, arguments: tuple[Expr, ...], line: int) -> Call:
    """Classify a call of an imported name."""
    is_context = env.in_context and dotted in torch.CONTEXTS
    if is_context or dotted in {"warnings.simplefilter", "warnings.filterwarnings"}:
        return Call(role="python", kind="python")
    if dotted.startswith("torch."):
        return _torch(env, dotted, arguments, line)
    if dotted.startswith(py.RANDOM_PREFIXES):
        return _random(env, dotted, arguments, line)
    if dotted.startswith(py.CLOCK_PREFIXES):
        return Call(role="function", kind="size")
    if dotted.startswith(py.LOGGING_PREFIXES) and not dotted.startswith("os."):
        return Call(role="function", kind="none")
    if dotted.startswith((py.NUMPY_PREFIX, *py.MATH_PREFIXES)):
        return _mathematics(env, dotted, arguments)
    if dotted in env.functions:
        return _function(env, dotted, arguments, line)
    if dotted.endswith(("Error", "Exception", "Warning")):
        return Call(role="python", kind="python")
    return _step(arguments)


def _numpy(dotted: str, arguments: tuple[Expr, ...]) -> Call:
    """Classify a call of numpy, which knows nothing of flows: a step on arrays, or a constant."""
    if dotted in py.NUMPY_SCALARS and all(_is_literal(each) for each in arguments):
        return Call(role="python", kind="python")
    return Call(role="function", kind="flow" if _any(arguments, FLOWING) else "size")


def _is_literal(expr: Expr) -> bool:
    """Return True if an expression is a constant, or computed from constants alone."""
    if expr.op in {"binary", "unary"}:
        return all(_is_literal(part) for part in expr.parts)
    return expr.op == "constant"


def _random(env: Environment, dotted: str, arguments: tuple[Expr, ...], line: int) -> Call:
    """Classify a draw from another random stream: a separate step, carried out at every call."""
    if _any(arguments, {"module", "modules"}) or dotted.endswith(".shuffle"):
        env.refuse(line, "FDL308", f"`{dotted}` draws among layers, or into a list")
    scalar = dotted.startswith("random.") or dotted in py.NUMPY_SCALAR_DRAWS
    scalar = scalar and not _any(arguments, FLOWING)
    return Call(role="function", kind="size" if scalar else "flow")


def _mathematics(env: Environment, dotted: str, arguments: tuple[Expr, ...]) -> Call:
    if dotted.startswith(py.NUMPY_PREFIX):
        return _numpy(dotted, arguments)
    if dotted.startswith("copy."):
        return _step(arguments)
    if dotted.startswith("math.") and _any(arguments, FLOWING):
        return Call(role="function", kind="size")
    if dotted.startswith("functools.reduce") and (
        _any(arguments, FLOWING) or runs(arguments, env)
    ):
        return _step(arguments)
    kind: Kind = "size" if _any(arguments, {"size"}) else "python"
    return Call(role="python", kind="maybe" if _any(arguments, FLOWING) else kind)


def _torch(env: Environment, dotted: str, arguments: tuple[Expr, ...], line: int) -> Call:
    if dotted == "torch.Size" and _any(arguments, MAY_FLOW):
        return Call(role="function", kind="size")
    if dotted.startswith(torch.CHECK_PREFIXES):
        return Call(role="function", kind="none")
    if dotted.startswith(torch.MODE_PREFIXES):
        return Call(role="function", kind="size")
    if dotted in torch.GRAD_MODE:
        env.refuse(line, "FDL319", f"`{dotted}` in forward")
    if dotted in torch.GRAD_MODE or dotted in torch.PYTHON_RESULTS:
        return Call(role="python", kind="python")
    last = dotted.rpartition(".")[2]
    is_nn = dotted.startswith("torch.nn.") and not dotted.startswith("torch.nn.utils.")
    if is_nn and last[:1].isupper():
        return _layer(last, arguments)
    makes = dotted in torch.MAKE_TENSORS and _any(arguments, MAY_FLOW)
    if makes or is_opaque_torch(dotted) or dotted.startswith("torch.Tensor."):
        return Call(role="function", kind="flow")
    if dotted.startswith(torch.PYTHON_PREFIXES):
        return Call(role="python", kind="python")
    if dotted in torch.SEQUENCE_RESULTS:
        return Call(role="torch", kind="flows")
    return Call(role="torch", kind="flow")


def is_opaque_torch(dotted: str) -> bool:
    """Return True if a torch name must be called with real tensors, as one node."""
    legacy = dotted.startswith(torch.LEGACY_CONSTRUCTOR_PREFIX) and dotted.endswith("Tensor")
    return legacy or dotted in torch.OPAQUE or dotted.startswith(torch.OPAQUE_PREFIXES)


def _layer(name: str, arguments: tuple[Expr, ...]) -> Call:
    """Classify the making of a layer: one that holds tensors is made by a step, and draws them there."""
    if f"torch.nn.{name}" in torch.STATELESS_LAYERS:
        holds = name in torch.WEIGHTED_LOSSES and not all(_is_literal(each) for each in arguments)
        return Call(role="made" if holds else "python", kind="module")
    return Call(role="made", kind="flow" if name in {"Parameter", "Buffer"} else "module")


def _builtin(env: Environment, name: str, arguments: tuple[Expr, ...], line: int) -> Call:
    if name in py.PRINTERS:
        return Call(role="function", kind="none")
    if name in py.FORBIDDEN_BUILTINS:
        env.refuse(line, "FDL318", f"`{name}(...)` in forward")
    elif name in {"any", "all"} and _is_lazy(arguments):
        # Python reads its items one after the other, as far as it takes.
        return Call(role="python", kind="python")
    elif name in py.NUMBER_BUILTINS:
        return _number(env, name, arguments, line)
    elif name == "type" and len(arguments) == 1 and _any(arguments, MAY_FLOW):
        return Call(role="class", kind="python")
    elif _is_asked_of_value(env, name, arguments):
        return Call(role="function", kind="result")
    elif name in py.FOLDING_BUILTINS:
        return Call(role="python", kind=_folded(name, arguments))
    return Call(role="python", kind=_container(name, arguments))


def _is_lazy(arguments: tuple[Expr, ...]) -> bool:
    return len(arguments) == 1 and arguments[0].op == "comprehension"


def _number(env: Environment, name: str, arguments: tuple[Expr, ...], line: int) -> Call:
    if _any(arguments, FLOWING) or runs(arguments, env):
        if any(part.op == "comprehension" for part in arguments):
            env.refuse(line, "FDL303", f"`{name}(...)` asks for the values of several tensors")
        if name in {"min", "max"} and runs(arguments, env):
            # `max(boxes, key=score)` gives one of them.
            return Call(role="function", kind="result")
        return Call(role="function", kind="size")
    return Call(role="python", kind="size" if _any(arguments, MAY_FLOW) else "python")


def _is_asked_of_value(env: Environment, name: str, arguments: tuple[Expr, ...]) -> bool:
    """Return True if a builtin has to see the values themselves, or runs code that is not known."""
    if name in py.TEXT_BUILTINS:
        return _any(arguments, MAY_FLOW)
    if name in py.VALUE_BUILTINS:
        return _any(arguments, FLOWING)
    if name in {"list", "tuple", "set", "frozenset"}:
        return len(arguments) == 1 and arguments[0].kind == "result"
    return name in {"sorted", "filter"} and (_any(arguments, FLOWING) or runs(arguments, env))


def runs(arguments: tuple[Expr, ...], env: Environment) -> bool:
    """Return True if an argument is a function that has to run in every call."""
    return any(
        each.role == "function"
        or (each.op == "attribute" and not each.dotted and each.kind == "python")
        or (each.op == "name" and not each.dotted and _is_unknown_function(env, each.name))
        for each in arguments
        if each.op in {"name", "attribute", "other"}
    )


def _is_unknown_function(env: Environment, name: str) -> bool:
    fact = env.functions.get(name)
    known = fact is not None and fact.transparent
    return name in env.names.classes or (name in env.names.functions and not known)


def _folded(name: str, arguments: tuple[Expr, ...]) -> Kind:
    if name in {"map", "filter", "sorted"}:
        return _container(name, arguments[1:] if name != "sorted" else arguments)
    if _any(arguments, FLOWING):
        return "flow"
    return "maybe" if _any(arguments, {"maybe"}) else "python"


def _container(name: str, arguments: tuple[Expr, ...]) -> Kind:
    if name in {"isinstance", "type", "str", "repr", "hasattr", "callable", "print"}:
        return "python"
    if name == "len":
        return "size" if _any(arguments, FLOWING | {"maybe", "size"}) else "python"
    if name == "getattr":
        return "maybe"
    if _any(arguments, {"modules", "module"}) and not _any(arguments, FLOWING):
        return "modules"
    if _any(arguments, {"parameters"}):
        return "parameters"
    if _any(arguments, FLOWING):
        return "flows"
    if _any(arguments, {"maybe"}):
        return "maybe"
    return "size" if _any(arguments, {"size"}) else "python"


def _attribute(env: Environment, callee: Expr, arguments: tuple[Expr, ...], line: int) -> Call:
    receiver = callee.parts[0]
    if env.is_self(receiver):
        return _on_self(env, callee.name, arguments, line)
    if receiver.op == "call" and receiver.parts[0].name == "super":
        forward = callee.name == "forward"
        if forward and env.view.extends_layer and not env.view.inherits_forward:
            return Call(role="python", kind="flow")
        if callee.name.startswith("__") or (forward and not env.view.inherits_forward):
            env.refuse(line, "FDL314", f"`super().{callee.name}` is not a method of this file")
        if forward and env.view.wrapped_above:
            env.refuse(
                line, "FDL314", "`super().forward` has a decorator, which runs at every call"
            )
        return Call(role="own", kind="maybe")
    if callee.dotted:
        return by_dotted(env, callee.dotted, arguments, line)
    if receiver.kind in {"module", "modules"}:
        return _on_module(callee.name, receiver.kind, arguments)
    if receiver.kind in {"flow", "result", "parameter", "maybe", "size"}:
        return _on_value(env, callee, line)
    return _on_object(env, callee, arguments, line)


def _on_self(env: Environment, name: str, arguments: tuple[Expr, ...], line: int) -> Call:
    if name in env.view.properties:
        # The call's target is the property's value, which may be anything.
        return Call(role="submodule", kind=_result(arguments))
    if name in env.view.methods:
        env.own_calls.append(name)
        return Call(role="own", kind=env.view.results.get(name, "maybe"))
    if name in env.view.attributes:
        fact = env.view.attributes[name]
        is_layer = fact.kind == "module"
        if fact.constructor in env.may_be_none:
            return Call(role="submodule", kind="result")
        return Call(role="submodule", kind="flow" if is_layer else _result(arguments))
    if name in torch.CHILD_ITERATORS or name in torch.NAMED_CHILD_ITERATORS:
        return Call(role="python", kind="modules")
    if name in torch.MODULE_MUTATORS:
        env.refuse(line, "FDL309", f"`self.{name}(...)` changes the object in forward")
        return Call(role="python", kind="maybe")
    if name in torch.MODULE_MOVERS:
        return Call(role="function", kind="result")
    if name in torch.MODULE_METHODS:
        return Call(role="python", kind=_MODULE_RESULTS.get(name, "python"))
    if env.view.extends_layer and (name.startswith("_") or not env.view.extends_foreign):
        # A method of the layer of torch: its operations are recorded one by one.
        return Call(role="own", kind="flow")
    return Call(role="submodule", kind=_result(arguments))


_MODULE_RESULTS: dict[str, Kind] = {
    "get_parameter": "parameter", "get_buffer": "parameter", "get_submodule": "module",
}  # fmt: skip


def _on_module(name: str, kind: Kind, arguments: tuple[Expr, ...]) -> Call:
    if name in {"children", "modules", "values", "items", "named_children", "named_modules"}:
        return Call(role="python", kind="modules")
    if name in {"keys", "__len__", "index"} and kind == "modules":
        return Call(role="python", kind="python")
    if name in torch.MODULE_MOVERS or name in torch.MODULE_MUTATORS:
        # Its effect is wanted in every call, whatever was done to the module in between.
        return Call(role="function", kind="result")
    if name in torch.MODULE_METHODS:
        return Call(role="python", kind=_MODULE_RESULTS.get(name, "python"))
    return Call(role="submodule", kind="flow" if name == "forward" else _result(arguments))


def _on_value(env: Environment, callee: Expr, line: int) -> Call:
    name, kind = callee.name, callee.parts[0].kind
    if kind == "size":
        return Call(role="python", kind="size")
    if name in methods.VALUE_METHODS:
        if not env.torch_name or name.startswith("__"):
            env.refuse(line, "FDL303", f"`.{name}()` asks for the value of a tensor")
        return Call(role="value", kind="flow" if name == "numpy" else "size")
    if name in methods.HOOK_METHODS:
        return Call(role="method", kind="maybe")
    if name in methods.SIZE_METHODS:
        return Call(role="method", kind="size")
    if name in methods.PYTHON_METHODS:
        return Call(role="method", kind="python")
    if kind in {"maybe", "result"} and name in _CONTAINER_METHODS:
        return Call(role="method", kind=kind)
    if not methods.is_tensor_method(name):
        return Call(role="method", kind="maybe" if kind == "maybe" else "result")
    if kind == "maybe":
        return Call(role="method", kind="flow")
    return Call(role="method", kind="flows" if name in methods.SEQUENCE_METHODS else "flow")


_SEVERAL: frozenset[Kind] = frozenset({"flows", "parameters"})
_CONTAINER_METHODS = frozenset({"get", "pop", "items", "keys", "values", "append", "extend",
                                "copy", "update", "insert", "index", "setdefault"})  # fmt: skip


def _on_object(env: Environment, callee: Expr, arguments: tuple[Expr, ...], line: int) -> Call:
    receiver = callee.parts[0]
    if receiver.op in {"list", "dict", "tuple", "constant", "format"} or receiver.kind in _SEVERAL:
        return _on_container(env, callee, arguments)
    variable = _variable_of(env, receiver)
    if variable and env.method is not None and is_local_container(env.method, variable, line):
        known = py.CONTAINER_METHODS | py.TEXT_METHODS | py.AMBIGUOUS_TEXT_METHODS
        if callee.name in known:
            return _on_container(env, callee, arguments)
    is_text = callee.name in py.TEXT_METHODS or _makes_text(receiver)
    if is_text and not _any(arguments, MAY_FLOW):
        return Call(role="python", kind="python")
    return _step(arguments)


def _makes_text(expr: Expr) -> bool:
    """Return True if an expression is a text that a text's own method makes: `name.lower()`."""
    called = expr.op == "call" and expr.role == "python" and expr.parts[0].op == "attribute"
    return called and expr.parts[0].name in py.TEXT_METHODS


def _variable_of(env: Environment, expr: Expr) -> str:
    """Return the variable whose value, or an item of it, an expression is: `groups[k]`, `groups.get(k)`."""
    while True:
        if expr.op == "index":
            expr = expr.parts[0]
        elif expr.op == "call" and expr.role == "python" and expr.parts[0].op == "attribute":
            expr = expr.parts[0].parts[0]
        else:
            break
    is_variable = expr.op == "name" and expr.name in env.kinds and not env.is_self(expr)
    return expr.name if is_variable else ""


def _on_container(env: Environment, callee: Expr, arguments: tuple[Expr, ...]) -> Call:
    receiver = callee.parts[0]
    variable = _variable_of(env, receiver)
    grows = callee.name in {"append", "extend", "insert", "update", "add", "setdefault"}
    if grows and variable and _any(arguments, MAY_FLOW - {"size"}):
        raw = _any((receiver, *arguments), {"parameter", "parameters"})
        env.kinds[variable] = "parameters" if raw else "flows"
    if callee.name == "sort" and (receiver.kind in _SEVERAL or runs(arguments, env)):
        line = callee.span.line if callee.span is not None else 1
        env.refuse(line, "FDL303", "`.sort(...)` asks for the values of several tensors")
    if callee.name in {"pop", "get"} and receiver.kind in _SEVERAL:
        return Call(role="python", kind=element_kind(receiver.kind))
    kind: Kind = receiver.kind if receiver.kind in _SEVERAL else "python"
    return Call(role="python", kind=kind)


def _any(arguments: tuple[Expr, ...], kinds: frozenset[Kind] | set[Kind]) -> bool:
    return any(argument.kind in kinds for argument in arguments)
