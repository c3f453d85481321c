"""GraphSpec -> straight-line Python source, one statement per node, in the user's order.

Before: nodes `conv1(x)`, `relu(.)`, `add(., x)`.
After:
    def forward(self, x):
        m = self._modules
        h = run(m["conv1"], x)
        h = F.relu(h)
        h = h + x
        return h

A parameter may have a name that the code itself uses, such as `m` or `F`. It is renamed at once:
    def forward(self, x, F):
        F_2 = F
        F = globals().get('F')
"""

from __future__ import annotations

import keyword
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, final

from flodl.graph.entry_guards import admission
from flodl.graph.expressions import IN_PLACE, Writer
from flodl.graph.liveness import AT_END, Liveness, analyse_liveness
from flodl.ir.graph import Items, Literally, Ref, node_refs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from flodl.ir.graph import GraphSpec, Guard, NodeSpec

RESERVED = frozenset(
    {"self", "m", "run", "torch", "F", "math", "operator", "expect", "entered", "unpack", "_kept",
     "_detached", "_mark", "_is_exporting", "_other", "_values", "_Proxy", "_see"}
)  # fmt: skip


@final
class Frames:
    """Which variable holds which node where the code may leave a plan.

    A flow with thousands of side exits has as many frames of thousands of variables. So the bindings
    are kept, in order, and a frame is made of those before it when a pass does leave there.

    Example:
        >>> frames = Frames()
        >>> frames.bind("x", 0); frames.bind("y", 1); frames.leave(1, 1); frames.bind("y", None)
        >>> frames[1]
        {0: 'x', 1: 'y'}
    """

    def __init__(self) -> None:
        self._bindings: list[tuple[str, int | None]] = []
        self._exits: dict[int, tuple[int, int]] = {}

    def bind(self, variable: str, node: int | None) -> None:
        """Note that a variable holds a node from here on, or none."""
        self._bindings.append((variable, node))

    def leave(self, node: int, last: int) -> None:
        """Note a side exit at a node; `last` is the last node whose value is known there."""
        self._exits[node] = len(self._bindings), last

    def __getitem__(self, node: int) -> dict[int, str]:
        """Return the variables of all nodes up to the side exit at a node."""
        count, last = self._exits[node]
        holder = dict(self._bindings[:count])
        held = sorted((index, name) for name, index in holder.items() if index is not None)
        return {index: name for index, name in held if index <= last}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """Generated source of one graph.

    `nodes_of_line[i]` are the nodes computed on line i+1 of `source`; `variables` maps
    (reading node, read node) to the variable that holds the value while the reading node runs.
    `frames` are, per node with a branch guard, the variables of all nodes up to it.
    """

    source: str
    accepts: str
    nodes_of_line: tuple[tuple[int, ...], ...]
    variables: dict[tuple[int, int], str]
    frames: Frames = field(default_factory=Frames)


@final
@dataclass(slots=True)
class _Emitter:
    spec: GraphSpec
    live: Liveness
    writer: Writer
    variable: dict[int, str] = field(default_factory=dict)
    holder: dict[str, int] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    nodes_of_line: list[tuple[int, ...]] = field(default_factory=list)
    seen: dict[tuple[int, int], str] = field(default_factory=dict)
    seen_nodes: frozenset[int] = frozenset()
    reserved: frozenset[str] = RESERVED
    # Parameters whose names the code itself uses, and the variables that hold them.
    renamed: dict[str, str] = field(default_factory=dict)
    depth: int = 1
    frames: Frames = field(default_factory=Frames)
    # Of the description; finding them takes a pass over all guards.
    last_fork: int = -1
    guards_of: dict[int, list[Guard]] = field(default_factory=dict)

    def hold(self, variable: str, node: int) -> None:
        self.holder[variable] = node
        self.frames.bind(variable, node)

    def take_input(self, node: NodeSpec) -> None:
        """Let a variable hold an input from the start: its parameter, unless the code needs that name."""
        variable = node.target
        if variable in self.reserved:
            names = {each.name for each in self.spec.inputs}
            count = 2
            while f"{node.target}_{count}" in names | self.reserved:
                count += 1
            variable = self.renamed[node.target] = f"{node.target}_{count}"
        self.variable[node.index] = variable
        self.hold(variable, node.index)

    def put(self, text: str, *nodes: int) -> None:
        self.lines.append("    " * self.depth + text)
        self.nodes_of_line.append(nodes)


def generate(
    spec: GraphSpec,
    constants: Iterable[str] = (),
    taps: Mapping[str, int] | None = None,
    start: int = -1,
    seen: frozenset[int] = frozenset(),
) -> Code:
    """Generate the source of a graph's forward and the expression that admits a call to it.

    The source defines `forward(self, <inputs>)`; the globals it expects are `run`, `expect`, `torch`,
    `F`, `math`, `operator` and the graph's constants, whose names are given.

    Args:
        spec: the description.
        constants: names of the graph's constants.
        taps: nodes whose values are also put into `_kept.values`, by name, through `_detached`.
        start: the last node that has run already; the code gets the values up to it as `_values`.
        seen: nodes whose values go through `_see(node, value)` as soon as they are there.
    """
    kept = frozenset(
        guard.value.node
        for guard in spec.guards
        if not guard.at_entry and isinstance(guard.value, Ref)
    )
    tapped = Items("tuple", tuple(Ref(node) for node in (taps or {}).values()))
    # For liveness a tapped value is one that is returned.
    live = analyse_liveness(replace(spec, output=Items("tuple", (spec.output, tapped))), kept)
    if seen:
        # Even a value that nothing reads has a variable then.
        uses = (max(use, at) if at in seen else use for at, use in enumerate(live.last_use))
        live = replace(live, last_use=tuple(uses))
    emitter = _Emitter(
        spec=spec,
        live=live,
        seen_nodes=seen,
        writer=Writer(name_of=lambda _: ""),
        reserved=RESERVED.union(constants),
        last_fork=spec.last_fork,
        guards_of=_guards_of(spec),
    )
    emitter.writer.name_of = lambda index: _text_of(emitter, index)
    for node in spec.nodes:
        if node.kind == "input" and node.target.isidentifier():
            emitter.take_input(node)
    if start >= 0:
        _resume(emitter, start)
    else:
        _show(emitter, *(node.index for node in spec.nodes if node.kind == "input"))
    for node in spec.nodes[start + 1 :]:
        if live.statement[node.index] == node.index:
            _statement(emitter, node)
    if taps:
        values = (f"{name!r}: _detached({_text_of(emitter, node)})" for name, node in taps.items())
        emitter.put(f"_kept.values = {{{', '.join(values)}}}")
    emitter.put(f"return {emitter.writer.arg(spec.output)}")
    return _assemble(emitter, ("_values",) if start >= 0 else ())


def _resume(emitter: _Emitter, start: int) -> None:
    """Bind the values of the nodes that have run, and open the blocks that they are in."""
    scopes: list[NodeSpec] = []
    made = emitter.spec.together(start)
    for node in emitter.spec.nodes[: made[-1] + 1]:
        if node.kind == "enter":
            scopes.append(node)
        elif node.kind == "exit":
            scopes.pop()
        elif _is_effect(node) or node.kind == "unpack" or node.index in emitter.variable:
            continue
        elif emitter.live.last_use[node.index] > start:
            emitter.put(f"{_bind(emitter, node)} = _values[{node.index}]")
    for node in scopes:
        _scope(emitter, node)
    # Nodes made together with the guarded node have values, but their guards are still to be checked.
    _check(emitter, *(each for each in made if each > start))


def _assemble(emitter: _Emitter, more: tuple[str, ...]) -> Code:
    parameters = ", ".join(["self", *(each.name for each in emitter.spec.inputs), *more])
    head = [f"def forward({parameters}):"]
    for name, variable in emitter.renamed.items():
        head.append(f"    {variable} = {name}")
        if name != "m":  # the line below sets it
            head.append(f"    {name} = globals().get({name!r})")
    if emitter.writer.modules or any('m["' in line for line in emitter.lines):
        head.append("    m = self._modules")
    for path, variable in emitter.writer.modules.items():
        head.append(f"    {variable} = {_container(path)}._modules")
    blank: list[tuple[int, ...]] = [() for _ in head]
    return Code(
        source="\n".join([*head, *emitter.lines]) + "\n",
        accepts=admission(emitter.spec),
        nodes_of_line=(*blank, *emitter.nodes_of_line),
        variables=emitter.seen,
        frames=emitter.frames,
    )


def _container(path: str) -> str:
    first, *rest = path.split(".")
    return f'm["{first}"]' + "".join(f'._modules["{part}"]' for part in rest)


def _text_of(emitter: _Emitter, index: int) -> str:
    """Return the variable of a node, or its expression in brackets if it is written inline."""
    if index in emitter.variable:
        return emitter.variable[index]
    return emitter.writer.node(emitter.spec.nodes[index])


def _statement(emitter: _Emitter, node: NodeSpec) -> None:
    for ref in _statement_refs(emitter, node):
        if ref in emitter.variable:
            emitter.seen[node.index, ref] = emitter.variable[ref]
    if node.kind == "input":
        if node.index not in emitter.variable and emitter.live.last_use[node.index] != -1:
            emitter.put(f"{_bind(emitter, node)} = {node.target}", node.index)
    elif node.kind == "unpack":
        _unpack(emitter, node)
    elif node.kind == "loop":
        _loop(emitter, node)
    elif node.kind in ("enter", "exit"):
        _scope(emitter, node)
        if node.kind == "enter":
            _check(emitter, node.index)
        return
    elif _is_effect(node):
        _effect(emitter, node)
    else:
        _assignment(emitter, node)
    _finish(emitter, node)


def _finish(emitter: _Emitter, node: NodeSpec) -> None:
    """Emit what follows a value: who sees it, its guards, and the end of what it has read."""
    made = (node.index, *emitter.live.unpacked.get(node.index, ()))
    if node.kind != "input":  # inputs are shown before the first statement
        _show(emitter, *made)
    _check(emitter, *made)
    _free(emitter, node)


def _show(emitter: _Emitter, *nodes: int) -> None:
    """Hand values to whoever observes them, and go on with what comes back."""
    for index in nodes:
        if index in emitter.seen_nodes and index in emitter.variable:
            variable = emitter.variable[index]
            emitter.put(f"{variable} = _see({index}, {variable})")


def _is_effect(node: NodeSpec) -> bool:
    """Return True if a node is a statement without a value."""
    return node.kind == "setattr" or node.target in ("setitem", "delitem")


def _assignment(emitter: _Emitter, node: NodeSpec) -> None:
    if _in_place(emitter, node):
        return
    text = emitter.writer.node(node)
    if emitter.live.last_use[node.index] == -1:
        emitter.put(text, node.index)
    else:
        emitter.put(f"{_bind(emitter, node)} = {text}", node.index)


def _in_place(emitter: _Emitter, node: NodeSpec) -> bool:
    """Write `x += y` if the old name of the value is not needed any more; say whether that was done."""
    sign = IN_PLACE.get(node.target) if node.kind == "operator" else None
    first = node.args[0] if node.args else None
    if not sign or not isinstance(first, Ref) or first.node not in emitter.variable:
        return False
    if emitter.live.last_use[first.node] > node.index:
        return False
    variable = emitter.variable[first.node]
    emitter.put(f"{variable} {sign} {emitter.writer.arg(node.args[1])}", node.index)
    emitter.variable[node.index] = variable
    emitter.hold(variable, node.index)
    return True


def _effect(emitter: _Emitter, node: NodeSpec) -> None:
    target = emitter.writer.receiver(node.args[0])
    if node.kind == "setattr":
        emitter.put(f"{target}.{node.target} = {emitter.writer.arg(node.args[1])}", node.index)
    elif node.target == "setitem":
        index, value = emitter.writer.index(node.args[1]), emitter.writer.arg(node.args[2])
        emitter.put(f"{target}[{index}] = {value}", node.index)
    else:
        emitter.put(f"del {target}[{emitter.writer.index(node.args[1])}]", node.index)


def _scope(emitter: _Emitter, node: NodeSpec) -> None:
    if node.kind == "enter":
        arguments = emitter.writer.arguments(node.args, node.kwargs)
        is_read = not node.target and emitter.live.last_use[node.index] != -1
        name = f" as {_bind(emitter, node)}" if is_read else ""
        emitter.put(f"with {node.target or 'entered'}({arguments}){name}:", node.index)
        emitter.depth += 1
        return
    if emitter.lines[-1].endswith(":"):
        emitter.put("pass")
    emitter.depth -= 1


def _unpack(emitter: _Emitter, node: NodeSpec) -> None:
    text = emitter.writer.node(node)
    items = emitter.live.unpacked[node.index]
    names = [
        "_"
        if emitter.live.last_use[item] == -1
        else _bind(emitter, emitter.spec.nodes[item], node)
        for item in items
    ]
    left = f"[{', '.join(names)}]" if len(names) < 2 else ", ".join(names)
    emitter.put(f"{left} = {text}", node.index, *items)


def _loop(emitter: _Emitter, node: NodeSpec) -> None:
    start = emitter.writer.arg(node.args[0])
    body = emitter.writer.module(node.target) if node.target else emitter.writer.arg(node.args[2])
    variable = _bind(emitter, node)
    if variable != start:
        emitter.put(f"{variable} = {start}")
    emitter.put(f"for _ in range({emitter.writer.arg(node.args[1])}):", node.index)
    emitter.put(f"    {variable} = run({body}, {variable})", node.index)
    emitter.seen[node.index, node.index] = variable


def _check(emitter: _Emitter, *nodes: int) -> None:
    """Emit the guards on nodes whose values have just been computed."""
    for index in nodes:
        for guard in emitter.guards_of.get(index, ()):
            asked = emitter.writer.arg(guard.value)
            expected = emitter.writer.arg(guard.expected)
            if guard.presence:
                is_there = guard.expected == Literally(True)
                # A stand-in of torch.fx says nothing of what is there.
                absent = f"is not None and not isinstance({asked}, _Proxy)"
                _fork(emitter, index, f"{asked} {'is None' if is_there else absent}")
            elif guard.branches:
                _fork(emitter, index, f"{asked} != {expected}")
            else:
                emitter.put(f"expect({asked}, {expected}, {str(guard.site)!r})", index)


def _guards_of(spec: GraphSpec) -> dict[int, list[Guard]]:
    """Return the guards that are not at the entry, by the node whose value they compare."""
    found: dict[int, list[Guard]] = {}
    for guard in spec.guards:
        if not guard.at_entry and isinstance(guard.value, Ref):
            found.setdefault(guard.value.node, []).append(guard)
    return found


def _fork(emitter: _Emitter, node: int, is_other: str) -> None:
    emitter.put(f"if {is_other}:", node)
    emitter.put(f"    return _other({node}, locals())", node)
    last = emitter.spec.together(node)[-1]
    emitter.frames.leave(node, last)


def _free(emitter: _Emitter, node: NodeSpec) -> None:
    """Drop values after their last use, so that memory peaks where hand-written code peaks."""
    fork = emitter.last_fork
    is_fork = fork >= 0 and node.index == emitter.live.statement[fork]
    now = fork if is_fork else node.index
    refs = list(emitter.variable) if is_fork else _statement_refs(emitter, node)
    dying = [
        emitter.variable[ref]
        for ref in dict.fromkeys(refs)
        if ref in emitter.variable
        and emitter.live.last_use[ref] <= now
        and emitter.holder.get(emitter.variable[ref]) == ref
        and ref not in emitter.live.metadata
        and emitter.spec.nodes[ref].kind != "input"  # the caller holds it anyway
    ]
    if dying:
        emitter.put(f"del {', '.join(dying)}")
        for name in dying:
            del emitter.holder[name]
            emitter.frames.bind(name, None)


def _statement_refs(emitter: _Emitter, node: NodeSpec) -> list[int]:
    """Return the nodes whose variables a statement reads, those of inlined nodes included."""
    found: list[int] = []
    for ref in node_refs(node):
        if emitter.live.statement[ref] == node.index and ref != node.index:
            found += _statement_refs(emitter, emitter.spec.nodes[ref])
        else:
            found.append(ref)
    return found


def _bind(emitter: _Emitter, node: NodeSpec, at: NodeSpec | None = None) -> str:
    """Choose the variable for a node's value: the user's name, else that of a dying operand."""
    now = (at or node).index
    if now == emitter.last_fork:
        now -= 1  # everything is still needed where the way forks
    wanted = node.variable or _dying_operand(emitter, at or node) or _identifier(node.name)
    name, count = wanted, 1
    while not _is_free(emitter, name, now):
        count += 1
        name = f"{wanted}_{count}"
    emitter.variable[node.index] = name
    emitter.hold(name, node.index)
    return name


def _dying_operand(emitter: _Emitter, node: NodeSpec) -> str:
    if node.index == emitter.last_fork:
        return ""
    for ref in _statement_refs(emitter, node):
        if ref in emitter.live.metadata or ref not in emitter.variable:
            continue
        if emitter.live.last_use[ref] <= node.index:
            return emitter.variable[ref]
    return ""


def _is_free(emitter: _Emitter, name: str, now: int) -> bool:
    if (
        name in emitter.reserved
        or keyword.iskeyword(name)
        or name in emitter.writer.modules.values()
    ):
        return False
    current = emitter.holder.get(name)
    if current is None:
        return True
    last = emitter.live.last_use[current]
    return last <= now and last != AT_END


def _identifier(name: str) -> str:
    text = re.sub(r"\W", "_", name) or "value"
    return f"v_{text}" if text[0].isdigit() else text
