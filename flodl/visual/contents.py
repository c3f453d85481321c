"""The inside of a step around other stages, as a graph: branches side by side, a loop's body once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, final

from flodl.ir.graph import (
    Branch,
    GraphSpec,
    InputSpec,
    Items,
    Literally,
    Named,
    NodeSpec,
    Pairs,
    Ref,
    Submodule,
)
from flodl.ir.pretty import argument_text
from flodl.visual.constructs import (
    body_of,
    chain_of,
    function_name,
    is_batched,
    value_name,
    word_of,
)
from flodl.visual.part import Part

if TYPE_CHECKING:
    from flodl.ir.graph import Arg, NodeKind

WEIGHTED, CHOSEN, STOP = "weighted sum", "chosen branch", "stop if > 0"


def content_of(part: Part, node: NodeSpec) -> Part | None:
    """Return what runs inside a step: a nested graph, branches, or the body of a loop or a map.

    Args:
        part: the graph.
        node: the step.

    Returns:
        The graph to draw inside the box; `None` for a step that has no inside.
    """
    if node.kind == "module":
        return part.inner.get(node.target)
    word = word_of(node)
    if word is None:
        return None
    if word in ("gate", "switch"):
        return _choice(_Inside(part=part, node=node))
    if word == "scan":
        return _scan(_Inside(part=part, node=node))
    return _only_graph(part, node) or _repeated(_Inside(part=part, node=node))


def _only_graph(part: Part, node: NodeSpec) -> Part | None:
    """Return the graph that a loop or a map repeats, if that is all there is to show."""
    chain = chain_of(part, body_of(node))
    body = chain[0] if len(chain) == 1 else None
    if not isinstance(body, Submodule) or node.target == "loop_halting_" or _keyed(node.args):
        return None
    return part.inner.get(body.path)


@final
@dataclass(slots=True, kw_only=True)
class _Inside:
    """The graph inside one step, in the making."""

    part: Part
    node: NodeSpec
    nodes: list[NodeSpec] = field(default_factory=list)
    shapes: dict[int, str] = field(default_factory=dict)
    types: dict[int, str] = field(default_factory=dict)

    def input(self, name: str, source: Arg | None = None) -> Ref:
        """Add a value that comes from outside; it has the shape of its source there."""
        ref = self._add("input", name, (), name)
        if isinstance(source, Ref):
            self._like(ref, source.node)
        return ref

    def run(self, stage: Arg, *args: Ref, branch: Branch | None = None) -> Ref:
        """Add a stage that reads values; the stages of a chain read one another."""
        for each in chain_of(self.part, stage):
            args = (self._step(each, args, branch),)
        return args[0]

    def last(self, what: str, *args: Ref) -> Ref:
        """Add what the step itself does, which has the shape of its result."""
        ref = self._add("function", what, args, self.node.name)
        self._like(ref, self.node.index)
        return ref

    def _like(self, ref: Ref, outer: int) -> None:
        """Give a value the shape of a value of the graph around it."""
        if outer in self.part.shapes:
            self.shapes[ref.node] = self.part.shapes[outer]
        if outer in self.part.types:
            self.types[ref.node] = self.part.types[outer]

    def finish(self, output: Ref) -> Part:
        """Return the graph; its modules are those of the graph around it, by the same paths."""
        inputs = tuple(InputSpec(name=each.name) for each in self.nodes if each.kind == "input")
        spec = GraphSpec(inputs=inputs, nodes=tuple(self.nodes), output=output)
        return Part(
            spec=spec,
            title=word_of(self.node) or "",
            kinds=self.part.kinds,
            settings=self.part.settings,
            parameters=self.part.parameters,
            inner=self.part.inner,
            shapes=self.shapes,
            types=self.types,
            details=self.part.details,
            lambdas=self.part.lambdas,
            tensors=self.part.tensors,
            values=self.part.values,
            heat={
                each.index: self.part.stages[each.target]
                for each in self.nodes
                if each.kind == "module" and each.target in self.part.stages
            },
        )

    def _step(self, stage: Arg, args: tuple[Ref, ...], branch: Branch | None) -> Ref:
        if isinstance(stage, Submodule):
            name = stage.path.replace(".", "_")
            ref = self._add("module", stage.path, args, name, branch)
            if stage.path in self.part.stage_shapes:
                self.shapes[ref.node] = self.part.stage_shapes[stage.path]
            return ref
        text = argument_text(self.part.spec, stage)
        if text in self.part.lambdas:
            return self._add("function", text, args, "function", branch)
        name = function_name(self.part, text) if isinstance(stage, Named) else text
        return self._add("function", name, args, name, branch)

    def _add(
        self,
        kind: NodeKind,
        target: str,
        args: tuple[Ref, ...],
        name: str,
        branch: Branch | None = None,
    ) -> Ref:
        taken = {each.name for each in self.nodes}
        counted = (f"{name}_{number}" for number in range(2, len(taken) + 3))
        unique = next(each for each in (name, *counted) if each not in taken)
        index = len(self.nodes)
        site = self.node.site
        self.nodes.append(
            NodeSpec(
                index=index,
                kind=kind,
                target=target,
                args=args,
                name=unique,
                branch=branch,
                site=site,
            )
        )
        return Ref(index)


def _stream(inside: _Inside) -> Ref:
    """Add the value that a step gets, by the name that the user gave it."""
    source = inside.node.args[0]
    name = value_name(inside.part, source.node) if isinstance(source, Ref) else ""
    return inside.input(name or "x", source)


def _keyed(args: tuple[Arg, ...]) -> dict[str, Arg]:
    """Return the tagged values that a stage gets, by tag."""
    return {
        str(key.value): value
        for arg in args
        if isinstance(arg, Pairs)
        for key, value in zip(arg.keys, arg.values, strict=True)
        if isinstance(key, Literally)
    }


def _choice(inside: _Inside) -> Part:
    node = inside.node
    router, experts = node.args[1:3]
    stages = experts.items if isinstance(experts, Items) else ()
    is_gate = word_of(node) == "gate"
    x = _stream(inside)
    if isinstance(router, Ref):
        name = value_name(inside.part, router.node) or ("weights" if is_gate else "index")
        route = x if router == node.args[0] else inside.input(name, router)
    else:
        using = [inside.input(name, value) for name, value in _keyed(node.args).items()]
        route = inside.run(router, x, *using)
    results = [
        inside.run(stage, x, branch=Branch(k=number, n=len(stages), site=node.site))
        for number, stage in enumerate(stages, start=1)
    ]
    return inside.finish(inside.last(WEIGHTED if is_gate else CHOSEN, route, *results))


def _repeated(inside: _Inside) -> Part:
    """Return the body of a loop or a map, with the condition that ends a loop."""
    node = inside.node
    if word_of(node) == "map":
        one = "element" if node.target == "map_each_" else "slice"
        part = inside.input(f"{one}s" if is_batched(node) else one)
        return inside.finish(inside.run(node.args[1], part))
    x = _stream(inside)
    using = [inside.input(name, value) for name, value in _keyed(node.args).items()]
    if node.target != "loop_halting_":
        return inside.finish(inside.run(body_of(node), x, *using))
    halt, is_until = node.args[2], node.args[4] == Literally("until")
    if not is_until:
        x = inside.last(STOP, inside.run(halt, x), x)
    result = inside.run(node.args[1], x, *using)
    if is_until:
        result = inside.last(STOP, inside.run(halt, result), result)
    return inside.finish(result)


def _scan(inside: _Inside) -> Part:
    node = inside.node
    state = node.args[2]
    name = value_name(inside.part, state.node) if isinstance(state, Ref) else ""
    result = inside.run(node.args[1], inside.input("slice"), inside.input(name or "state"))
    if node.target == "scan_along_" and node.args[5] != Literally(None):
        result = inside.run(node.args[5], result)
    return inside.finish(result)
