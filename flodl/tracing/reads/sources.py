"""Sources of Python values in a traced flow, and the guards on everything that the flow reads there.

Worked example.  The flow of a module reads a configuration through an alias and a helper:

    def flow(self, x):
        cfg = self.cfg
        return scaled(x, cfg)            # def scaled(x, cfg): return x * cfg.scale

While the flow is traced, the classes of `self` and of every object that is reached from it have a
`__getattribute__` that reports to the tracer.  Reading `self.cfg` gives the object the source
`self.cfg`; reading `.scale` from it, wherever that is written, gives the guards

    type(self.cfg) is Cfg and self.cfg.scale == 2.0 and type(self.cfg.scale) is float

which every later call evaluates before it may use the plan.  Descriptors are part of the expression:
a property is evaluated again in every call.  Globals, closure variables and defaults of the functions
that a flow may call are roots like `self`.  The scheme is that of Dynamo's sources and guards
(https://docs.pytorch.org/docs/stable/torch.compiler_dynamo_deepdive.html); reads are found by running
the flow and not by interpreting its bytecode, so that no spelling of a read can be missed.
"""

from __future__ import annotations

import logging
import re
import sys
import weakref
from contextlib import contextmanager
from functools import partial
from inspect import getattr_static
from types import FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, Final, final

import torch
from torch import nn

from flodl.errors import FlowError
from flodl.tracing.callsite import call_site
from flodl.tracing.effects.changed_contents import ChangedContents
from flodl.tracing.effects.mutated_attributes import attributes_set_by
from flodl.tracing.flow_value import NeedsValueError
from flodl.tracing.proxy import Flow
from flodl.tracing.reads.attribute_hooks import Hooks, is_ours
from flodl.tracing.reads.global_reads import (
    class_reads,
    global_reads,
    global_writes,
    is_foreign,
    is_given_to_steps,
    require_same_globals,
    super_reads,
)
from flodl.tracing.reads.guard_values import (
    CODE,
    FUNCTIONS,
    MAPPINGS,
    MISSING,
    SEQUENCES,
    SETS,
    attribute_place,
    cell_content,
    class_attribute,
    constant_check,
    content_of,
    is_array,
    is_computed,
    is_constant,
    item_place,
    kept_items,
    plain_read,
    same_items,
    simple_text,
    static_read,
    switch_of,
)
from flodl.tracing.reads.identity_checks import Comparisons
from flodl.tracing.reads.opaque_objects import (
    Rule,
    is_bound,
    is_hookable,
    is_live,
    opaque_check,
    parts_of,
    rule_of,
    unseen,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from flodl.tracing.tracer import Tracer

# Items of a container of more are guarded together, by one call.
_FEW_ITEMS: Final = 8
_HOOKS: Final = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_CALLED_BY_PYTHON: Final = (
    "__call__", "__getitem__", "__len__", "__iter__", "__contains__", "__bool__", "__getattr__",
    "__eq__", "__add__", "__mul__", "__next__", "__enter__", "__exit__",
)  # fmt: skip


@final
class Sources:
    """The objects that one trace has reached, and the guards on what was read from them.

    Attributes:
        names: the attributes that were read from the traced module itself.
        hooks: the classes whose objects report reads and writes of attributes here.
        changes: the containers that the flow has read and may change.
        comparisons: the objects that the flow may compare by identity.
    """

    def __init__(self, tracer: Tracer, module: nn.Module) -> None:
        self._tracer_of = weakref.ref(tracer)  # it owns us: a cycle would keep weights alive
        self._known: dict[int, tuple[Any, str]] = {id(module): (module, "self")}
        self._checks: dict[str, None] = {}
        # Guards on what a function reads, by function: one that became a node reads in every call.
        self._by_function: dict[int, dict[str, None]] = {}
        self._callees: dict[int, list[int]] = {0: []}
        self._current = 0
        self._class_methods: set[tuple[int, int, int]] = set()
        self._typed: set[int] = {id(module)}
        self._written: dict[tuple[int, str], Any] = {}
        self.hooks = Hooks()
        self.names: set[str] = set()
        self.changes = ChangedContents()
        self._changing: frozenset[str] | None = None
        self.written_globals: list[tuple[FunctionType, str, Any]] = []
        self._running = ""  # file and line of the function whose reads are guarded
        self._inside: list[int] = []
        self._flows: dict[int, Any] = {}
        self.comparisons = Comparisons()
        self._module = module

    @property
    def _tracer(self) -> Tracer:
        tracer = self._tracer_of()
        assert tracer is not None
        return tracer

    def checks_without(self, nodes: frozenset[int]) -> tuple[str, ...]:
        """Return the guards, in the order of the reads.

        Args:
            nodes: the ids of functions that became nodes; each call of the plan runs them again.
        """
        found = dict(self._checks)
        seen, waiting = {*nodes}, list(self._callees[0])
        while waiting:
            each = waiting.pop()
            if each not in seen:
                seen.add(each)
                found |= self._by_function.get(each, {})
                waiting += self._callees.get(each, ())
        check = self.comparisons.check(self._known, seen - nodes)
        if check:
            found[check] = None
        if self.changes.has_any({0, *(seen - nodes)}):
            found["False"] = None  # only a trace makes these changes again
        return tuple(found)

    def compared(self, one: Any, other: Any) -> None:
        """Guard that two objects are different, after `==` or `in` has compared them by identity."""
        places = self.source_of(one), self.source_of(other)
        if one is not other and None not in places:
            self._check(f"{places[0]} is not {places[1]}")

    def release(self) -> None:
        """Drop every object."""
        self._known.clear()
        self._written.clear()
        self.changes.release()
        self._flows.clear()

    # ---- reads ----------------------------------------------------------------------------------

    def source_of(self, value: object) -> str | None:
        """Return the expression by which a later call finds an object, None for one without a source."""
        known = self._known.get(id(value))
        return known[1] if known is not None and known[0] is value else None

    def read(self, owner: Any, name: str, getter: Callable[[], Any]) -> Any:
        """Read an attribute of an object that has a source, and guard the value.

        Args:
            owner: the object.
            name: the attribute.
            getter: reads it; a descriptor's body is traced as part of the flow.

        Raises:
            AttributeError: there is none; that there is none is guarded too.
        """
        if owner is self._module:
            self.names.add(name)
        written = self._written.get((id(owner), name), MISSING)
        if written is not MISSING:
            return written
        if self._may_have_changed(owner, name):
            value = self._again(getter)
            if value is not MISSING and not isinstance(value, (nn.Module, torch.Tensor, *CODE)):
                return self._tracer.step("function", "getattr", (owner, name), compute=getattr)
        expression = f"{self._known[id(owner)][1]}.{name}"
        self._check_type(owner)
        nodes, before = len(self._tracer.nodes), dict(self._checks)
        try:
            value = getter()
        except AttributeError:
            self._check(f"not hasattr({self._known[id(owner)][1]}, {name!r})")
            raise
        if len(self._tracer.nodes) > nodes or type(value) is Flow:
            return value  # the body of a property is traced; its own reads are guarded
        inner, self._checks = self._checks, before
        is_plain = not is_computed(owner, name)
        if not is_plain and not is_constant(value) and self._again(getter) is not value:
            self._checks |= inner  # a new object in every read: its source is guarded
            return value
        self.comparisons.read(value, name)
        if is_live(value):
            return self._live(owner, name, value)
        if is_plain:
            expression = attribute_place(owner, self._known[id(owner)][1], name, value)
        self.found(value, expression)
        return value

    def _may_have_changed(self, owner: Any, name: str) -> bool:
        """Return True if an earlier step may have set the attribute: a guard at entry is too early."""
        if owner is self._module or not self._has_run_code():
            return False
        if self._changing is None:
            with self._tracer.paused():
                self._changing = attributes_set_by(self._module)
        return name in self._changing

    def _has_run_code(self) -> bool:
        """Return True if a step so far has run code of the user: a module or a function of theirs."""
        tracer = self._tracer
        own = tracer.encoder.in_nodes
        return any(
            node.kind == "module" or node.target in own or node.target.startswith("self._modules")
            for node in tracer.nodes
        )

    def _again(self, getter: Callable[[], Any]) -> Any:
        with self._tracer.paused():
            try:
                return getter()
            except Exception:  # a property that can be read once
                return MISSING

    def write(self, owner: Any, name: str, value: Any) -> None:
        """Note that the flow has set an attribute; a read of it gets that value."""
        self._written[id(owner), name] = value

    def _check(self, text: str) -> None:
        checks = self._by_function[self._current] if self._current else self._checks
        checks[text] = None

    def _check_type(self, owner: Any) -> None:
        """Guard the class of an object from which something is read."""
        if id(owner) in self._typed:
            return
        self._typed.add(id(owner))
        kind = type(owner)
        key = self._key(kind, kind.__name__)
        self._check(f"type({self._known[id(owner)][1]}) is {key}")

    def _key(self, value: object, name: str, *, portable: bool = True) -> str:
        encoder = self._tracer.encoder
        wanted = re.sub(r"\W", "_", name).strip("_") or "value"
        return encoder.constant(value, wanted, portable=portable, guarded=False).key

    # ---- values ---------------------------------------------------------------------------------

    def found(self, value: Any, expression: str) -> None:
        """Guard a value that the flow has read, or give it a source if more can be read from it.

        Args:
            value: the value.
            expression: Python text that finds it in a later call.
        """
        if type(value) is Flow:
            return
        check = constant_check(value, expression, self._key)
        if check:
            self._check(check)
            if is_array(value):
                self._array(value, expression)
            return
        known = self.source_of(value)
        if known is not None and known != expression:
            self._check(f"{expression} is {known}")
        if isinstance(value, (*SEQUENCES, *MAPPINGS, *SETS)):
            self._container(value, expression)
        elif known is not None:
            return
        elif isinstance(value, MethodType):
            self._method(value, expression)
        elif isinstance(value, CODE) and not is_bound(value):
            self._check(f"{expression} is {self._key(value, value.__name__)}")
            self.function(value)
        elif not isinstance(value, ModuleType):
            self._object(value, expression)

    def _array(self, value: Any, expression: str) -> None:
        """Guard the objects in an array; the others are guarded by a copy."""
        self.changes.array(value, self._current)
        if value.dtype.hasobject:
            for position, item in enumerate(value.flat):
                self.found(item, f"{expression}.flat[{position}]")

    def _object(self, value: Any, expression: str) -> None:
        """Give an object its source, so that reads from it are guarded."""
        rule = rule_of(value)
        if rule is Rule.LIVE:
            raise FlowError(unseen(value, expression, self._running or str(call_site())))
        self._keep(value, expression, hook=rule is not Rule.IDENTITY)
        self.hooks.lines.listen(value)
        if isinstance(value, torch.Tensor):
            self._check(f"{expression} is not None")
        elif isinstance(value, (nn.ModuleList, nn.ModuleDict, nn.Sequential)):
            self._check(f"len({expression}._modules) == {len(value._modules)}")
        elif rule is Rule.PARTS:
            if (
                is_bound(value)
                and expression == f"{self.source_of(value.__self__)}.{value.__name__}"
            ):
                return  # read from the object itself, whose class is guarded
            self._check_type(value)
            for part, text in parts_of(value):
                self.found(part, text.format(expression))
        elif rule is not Rule.HOOK:
            if rule is Rule.BUFFER:
                self.changes.buffer(value, self._current)
            self._check(opaque_check(value, expression, self._key))
        if isinstance(value, partial):
            self.function(value.func)

    def _live(self, owner: Any, name: str, value: Any) -> Any:
        """Read an object by a step, since its state changes unseen; return the flow of it."""
        if not self._tracer.valued:
            raise NeedsValueError
        place = f"{self._known[id(owner)][1]}.{name}"
        kind = type(value)
        self._check(f"type({place}) is {self._key(kind, kind.__name__)}")
        known = self.source_of(value)
        if known is not None and known != place:
            self._check(f"{place} is {known}")
        if id(value) not in self._flows:
            self._known[id(value)] = (value, place)
            self._flows[id(value)] = self._tracer.step(
                "function", "getattr", (owner, name), compute=getattr
            )
        return self._flows[id(value)]

    def _container(self, value: Any, expression: str) -> None:
        if id(value) in self._inside:  # it holds itself
            return
        kind = type(value)
        self.changes.container(value, self._current)
        self._keep(value, expression, hook=is_hookable(kind))
        self._check(f"type({expression}) is {self._key(kind, kind.__name__)}")
        self._inside.append(id(value))
        if isinstance(value, SETS):
            self._check(f"{expression} == {self._key(frozenset(value), kind.__name__)}")
            for item in value:  # equal sets hold these objects
                if not is_constant(item):
                    self.found(item, self._key(item, type(item).__name__, portable=False))
        elif simple_text(value):
            self._check(f"{expression} == {simple_text(value)}")
        else:
            self._keyed(value, expression)
        self._inside.pop()

    def _keyed(self, value: Any, expression: str) -> None:
        """Guard the keys and items of a sequence or mapping."""
        is_mapping = isinstance(value, MAPPINGS)
        pairs = list(dict.items(value)) if is_mapping else list(enumerate(value))
        items = [(item, item_place(value, expression, key, self._key)) for key, item in pairs]
        if len(value) > _FEW_ITEMS:
            same = self._key(same_items, "same_items")
            self._check(f"{same}({expression}, {self._key(kept_items(value), 'items')})")
            for item, place in items:
                if rule_of(item) is Rule.HOOK:
                    self._known.setdefault(id(item), (item, place))
                    self.hooks.add(type(item))
                elif not is_constant(item):
                    self.found(item, place)
            return
        if is_mapping:
            keys = list(dict.keys(value))
            text = simple_text(keys)
            self._check(f"[*{expression}] == {text or self._key(keys, 'keys')}")
        else:
            self._check(f"len({expression}) == {len(value)}")
        for item, place in items:
            self.found(item, place)

    def _method(self, value: MethodType, expression: str) -> None:
        """Guard the function behind a bound method; its object is known or is a class."""
        function = value.__func__
        is_kept = self._tracer.cached.keeps(function)
        if is_kept or isinstance(function, FunctionType):
            self._check(f"{expression}.__func__ is {self._key(function, function.__name__)}")
        if not is_kept and isinstance(function, FunctionType):
            self.function(function)
            self.class_reads(function, value.__self__)

    def _class_method(self, value: MethodType, expression: str) -> None:
        """Guard a method of a class, and what it reads from that class; once, as it may call itself."""
        place = id(value.__func__), id(value.__self__), self._current
        if place not in self._class_methods:
            self._class_methods.add(place)
            self._method(value, expression)

    def class_reads(self, function: FunctionType, owner: Any) -> None:
        """Guard what a method reads from the class of its owner, or from its owner if that is a class."""
        for prefix, names in class_reads(function.__code__, of_class=isinstance(owner, type)):
            value: Any = owner
            for name in prefix:
                value = plain_read(value, name)
            kind = value if isinstance(value, type) else type(value)
            if value is not MISSING and not is_foreign(kind.__module__):
                self._chain(kind, self._key(kind, kind.__name__), names)
        self._super_reads(function, owner)

    def _super_reads(self, function: FunctionType, owner: Any) -> None:
        """Guard the methods that a method reaches by `super()`."""
        home = content_of(function, "__class__")
        order = (owner if isinstance(owner, type) else type(owner)).__mro__
        if home is None or home not in order:
            return
        for name in super_reads(function.__code__):
            above = order[order.index(home) + 1 :]
            kind = next((each for each in above if name in vars(each)), None)
            if kind is None or is_foreign(kind.__module__):
                continue
            found = static_read(kind, name)
            self.found(found, f"{self._key(kind, kind.__name__)}.{name}")
            if isinstance(found, FunctionType):
                self.class_reads(found, owner)

    def called(self, module: nn.Module) -> None:
        """Guard the hooks of a module that the flow calls in place, such as a parametrization."""
        path = self._tracer.encoder.module_path(module)
        place = self.source_of(module) or (path and f"self.get_submodule({path!r})")
        if place:
            for name in _HOOKS:
                self.found(vars(module)[name], f"{place}.{name}")

    # ---- functions ------------------------------------------------------------------------------

    def function(self, function: Any, *, is_flow: bool = False) -> None:
        """Guard the code, globals, closure variables and defaults of a function that the flow may call.

        Args:
            function: the function.
            is_flow: it is the flow itself, whose code the class owns.
        """
        if self._tracer.cached.keeps(function):
            return
        function = getattr_static(function, "__wrapped__", function)
        if not isinstance(function, FunctionType) or is_ours(function.__code__.co_filename):
            return
        self._callees[self._current].append(id(function))
        if id(function) in self._by_function or is_foreign(function.__module__):
            return
        self._by_function[id(function)], self._callees[id(function)] = {}, []
        code = function.__code__
        self.comparisons.add(id(function), code)
        before = self._current, self._running
        self._current, self._running = id(function), f"{code.co_filename}:{code.co_firstlineno}"
        try:
            if not is_flow:
                self._body(function)
            for chain in global_reads(function.__code__):
                self._global(function, chain)
            for name in global_writes(function.__code__):
                table = function.__globals__
                self.written_globals.append((function, name, table.get(name, MISSING)))
            self._free_variables(function)
            for default in (
                *(function.__defaults__ or ()),
                *(function.__kwdefaults__ or {}).values(),
            ):
                if not is_constant(default) and type(default) is not Flow:
                    self.found(default, self._key(default, "default"))
        finally:
            self._current, self._running = before

    def _body(self, function: FunctionType) -> None:
        """Guard the code and the plain defaults of a function: a reload exchanges them in place."""
        key = self._key(function, function.__name__)
        for part in ("__code__", "__defaults__", "__kwdefaults__"):
            value = getattr(function, part)
            if value is not None:
                self._check(f"{key}.{part} is {self._key(value, part)}")

    def _free_variables(self, function: FunctionType) -> None:
        for name, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        ):
            content = cell_content(cell)
            if name == "__class__" or content is MISSING or type(content) is Flow:
                continue
            text = f"{self._key(cell, f'cell_{name}')}.cell_contents"
            self._variable(function, name, content, text)

    def _variable(self, function: FunctionType, name: str, value: Any, text: str) -> None:
        is_kept = not is_constant(value) and is_live(value)
        if is_kept and is_given_to_steps(function.__code__, name):
            self._keep(value, text, hook=False)
            self._check(f"{text} is {self._key(value, name, portable=False)}")
        else:
            self.found(value, text)

    def _global(self, function: FunctionType, chain: tuple[str, ...]) -> None:
        name, *rest = chain
        if name not in function.__globals__:
            return
        value = function.__globals__[name]
        home = sys.modules.get(function.__module__)
        if home is not None and vars(home) is function.__globals__ and name.isidentifier():
            owner = self._key(home, home.__name__.rpartition(".")[2])
            text = f"{owner}.{name}"
        else:
            text = f"{self._key(function.__globals__, 'globals')}[{name!r}]"
        if isinstance(value, type) and not is_foreign(value.__module__):
            self.found(value, text)
            self._chain(value, text, tuple(rest))
        elif isinstance(value, ModuleType):
            self._chain(value, text, tuple(rest))
        elif not isinstance(value, type) and not (
            isinstance(value, FUNCTIONS) and is_foreign(getattr(value, "__module__", None))
        ):
            self._variable(function, name, value, text)
            if rest and isinstance(value, FunctionType) and rest[0] in vars(value):
                self.found(vars(value)[rest[0]], f"{text}.{rest[0]}")

    def _chain(self, value: Any, text: str, names: tuple[str, ...]) -> None:
        """Guard what a chain of attributes reads from a class or a module, which cannot be hooked."""
        for place, name in enumerate(names):
            if isinstance(value, ModuleType) and is_foreign(value.__name__):
                for answer, read in switch_of(value, names[place:]):
                    self.found(answer, f"{text}.{read}")
                return
            made = class_attribute(value, name) if isinstance(value, type) else None
            if isinstance(made, classmethod):
                self._class_method(MethodType(made.__func__, value), f"{text}.{name}")
                return
            value = static_read(value, name)
            if value is MISSING:
                return
            text = f"{text}.{name}"
            self.found(value, text)
            if not isinstance(value, (type, ModuleType)):
                return

    # ---- hooks ----------------------------------------------------------------------------------

    def _keep(self, value: Any, expression: str, *, hook: bool = True) -> None:
        self._known[id(value)] = (value, expression)
        kind = type(value)
        if hook:
            self.hooks.add(kind)
            if not kind.__module__.startswith(("torch.", "flodl.")):
                for name in _CALLED_BY_PYTHON:
                    found = class_attribute(kind, name)
                    if isinstance(found, FunctionType):
                        self.function(found)

    def found_at(self, value: object, expression: str) -> None:
        """Guard that what the flow has read in one place is still what the plan finds in another.

        A layer or parameter that is tied has several places; the plan knows one of them.
        """
        source = self.source_of(value)
        if source is not None and source != expression:
            self._check(f"{source} is {expression}")

    def bound(self, value: object, key: str) -> None:
        """Guard that an object which the plan holds as a constant is still where it was found."""
        source = self.source_of(value)
        if source is not None and source != key:
            self._check(f"{source} is {key}")


@contextmanager
def traced_reads(tracer: Tracer, function: Any) -> Iterator[None]:
    """Report reads of the traced module, and of all that it leads to, until the block ends."""
    try:
        tracer.sources.hooks.add_own(type(tracer.module))
        tracer.sources.hooks.lines.listen(logging.root)
        tracer.sources.function(function, is_flow=True)
        tracer.sources.class_reads(function, tracer.module)
        yield
        require_same_globals(tracer.sources.written_globals)
    finally:
        tracer.sources.hooks.remove()
        if not tracer.sources.changes.settle(valued=tracer.valued) and not tracer.valued:
            raise NeedsValueError
