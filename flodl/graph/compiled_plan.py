"""A description made runnable: generated source, compiled once per text, bound to its constants."""

from __future__ import annotations

import builtins
import copy
import hashlib
import linecache
import math
import operator
from functools import lru_cache, partial
from types import FunctionType
from typing import TYPE_CHECKING, Any, final

import torch
import torch.nn.functional as F
from torch.fx import Proxy

from flodl.errors import FlowError
from flodl.graph.codegen import Code, generate
from flodl.graph.entered import entered
from flodl.graph.side_exits import SideExit
from flodl.nodes.fast_path import run, run_plainly

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import CodeType

    from flodl.ir.graph import GraphSpec

SPEC_KEY = "__flodl_program__"


@lru_cache(maxsize=4096)
def _compiled(source: str, title: str) -> CodeType:
    """Compile a source text once; equal blocks share the code and its entry in `linecache`."""
    digest = hashlib.sha256(source.encode()).hexdigest()[:8]
    filename = f"<flodl {title} {digest}>"
    # A modification time of None keeps linecache from looking for a file of that name.
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    module = compile(source, filename, "exec")
    return next(const for const in module.co_consts if isinstance(const, type(module)))


@lru_cache(maxsize=4096)
def compiled_text(source: str) -> CodeType:
    """Compile the text of guards or of a dispatcher once; those of equal layers are equal texts."""
    return compile(source, "<string>", "exec")


def expect(value: object, expected: object, site: str) -> None:
    """Stop a plan whose recorded answer no longer holds in the middle of a pass.

    Raises:
        FlowError: a size that depends on the data took another value than when the flow was recorded.
    """
    if value != expected:
        message = (
            f"{site}: the flow branched on a value that depends on the data: it was {expected!r} when "
            f"the flow was recorded and is {value!r} now; keep this part as a callable: "
            "x.through(function)"
        )
        raise FlowError(message)


@final
class CompiledPlan:
    """The runnable form of one `GraphSpec`.

    Attributes:
        spec: the description.
        constants: objects that the source mentions by name.
        code: the generated source with its line table.
        run: `run(module, *inputs)`, the fast form.
        portable: whether no constant belongs to one particular module instance.
        run_plainly: the same source with ordinary module calls, for tracers.
        origin: the program of which this one is a variant; itself if it is none.
        start: the last node that has run before this code does, see `resumed`.
        is_tied: whether guards on inner sizes tie it to the shapes of its inputs.
        entry: the recorded values of the attributes that the flow changes.
        names: the attributes of the module that the flow has read.
    """

    def __init__(
        self,
        spec: GraphSpec,
        constants: Mapping[str, object],
        title: str,
        portable: bool = True,
    ) -> None:
        self.spec = spec
        self.constants = dict(constants)
        self.title = title
        self.portable = portable
        self.code: Code = generate(spec, self.constants)
        self._names: Mapping[str, object] = {}
        self._extra: dict[int, Callable[[Any], bool]] = {}
        self.origin = self
        self.start = -1
        self.entry: Mapping[str, object] = {}
        self.is_tied = True
        self.names: frozenset[str] = frozenset()
        self.run = self._bind(run)
        self.run_plainly = self._bind(run_plainly)

    def variant(self, code: Code, names: Mapping[str, object]) -> CompiledPlan:
        """Return a program of the same description that runs other code.

        Args:
            code: source that accepts the same calls, such as one that notes values or times.
            names: the names that this code expects besides those of the description.
        """
        made = copy.copy(self)
        made.code = code
        made._names = dict(names)
        made.run = made._bind(run)
        made.run_plainly = made._bind(run_plainly)
        return made

    def resumed(self, node: int) -> CompiledPlan:
        """Return a program that does what comes after a node, given the values up to it."""
        made = self.variant(generate(self.spec, self.constants, start=node), self._names)
        made.start = node
        return made

    def _bind(self, call: Callable[..., Any]) -> Callable[..., Any]:
        return FunctionType(_compiled(self.code.source, self.title), self._namespace(call))

    def _namespace(self, call: Callable[..., Any]) -> dict[str, Any]:
        return {
            "torch": torch,
            "F": F,
            "math": math,
            "operator": operator,
            "run": call,
            "expect": expect,
            "entered": entered,
            "_other": partial(SideExit, self),
            "_Proxy": Proxy,
            # No "__name__": torch.compile would take these globals for those of that module.
            "__builtins__": builtins,
            SPEC_KEY: self,
            **self.constants,
            **self._names,
        }

    def holds(self, module: Any, parent: CompiledPlan) -> bool:
        """Return True if what this plan has read beyond its parent is still so.

        Args:
            module: the module that is called.
            parent: the plan that the call has left; its own guards held at entry.
        """
        key = id(parent.origin)
        if key not in self._extra:
            checks = [each for each in self.spec.checks if each not in parent.spec.checks]
            text = " and ".join(checks) or "True"
            namespace = self.namespace()
            exec(compiled_text(f"def holds(self):\n    return {text}\n"), namespace)
            self._extra[key] = namespace["holds"]
        try:
            return bool(self._extra[key](module))
        except (AttributeError, LookupError, TypeError, ValueError):
            return False

    def admission(self, names: str) -> Callable[..., bool]:
        """Return the entry guards as a function of the module and inputs by these names."""
        namespace = self.namespace()
        # The text is made by the generator, from checked names.
        text = f"def admits({names}):\n    return {self.code.accepts}\n"
        exec(compiled_text(text), namespace)
        admits: Callable[..., bool] = namespace["admits"]
        return admits

    def namespace(self) -> dict[str, Any]:
        """Return the names that the generated source and its guards may use."""
        return self._namespace(run)
