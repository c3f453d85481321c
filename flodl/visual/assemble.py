"""Part -> scene: which steps become boxes, which values become links, which blocks are folded."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Literal, TypeAlias, final, get_args

from flodl.ir.graph import Ref, node_refs, refs
from flodl.ir.pretty import argument_text, operation
from flodl.visual.carried import carried_states
from flodl.visual.constructs import construct_of, paths_of, subject_of, word_of
from flodl.visual.contents import content_of
from flodl.visual.folding import MOST_NODES, Step, find_runs
from flodl.visual.part import Heat, details_key
from flodl.visual.scene import Box, Link, Scene
from flodl.visual.settings import settings_text
from flodl.visual.wording import (
    count_text,
    index_text,
    is_bookkeeping,
    parts_text,
    role_of,
    shortened,
    title_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flodl.ir.graph import NodeSpec
    from flodl.visual.folding import Run
    from flodl.visual.part import Part

Direction: TypeAlias = Literal["down", "right"]
FOLD_ABOVE = 24
UNKNOWN_WIRING = "wiring unknown"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The detail of a picture of a graph.

    Attributes:
        fold: whether repeated blocks are drawn once; `None` folds graphs of more than 24 steps.
        depth: the levels of nested graphs that are open; 0 draws each as one box.
        direction: the way from inputs to outputs.

    Raises:
        ValueError: there is no such direction.
    """

    fold: bool | None = None
    depth: int = 0
    direction: Direction = "down"

    def __post_init__(self) -> None:
        """Check what no type checker may have seen."""
        if self.direction not in get_args(Direction):
            message = f"a picture goes `down` or `right`, not {self.direction!r}"
            raise ValueError(message)


@final
@dataclass(slots=True)
class _Sketch:
    """A scene in the making: the visible steps of a part, and where each one was drawn."""

    part: Part
    view: View
    hottest: float
    visible: tuple[int, ...]
    reads: dict[int, tuple[int, ...]]
    boxes: list[Box] = field(default_factory=list)
    place: dict[int, int] = field(default_factory=dict)
    links: dict[tuple[int, int], str] = field(default_factory=dict)

    def put(self, box: Box, *nodes: int) -> int:
        self.boxes.append(box)
        for node in nodes:
            self.place[node] = len(self.boxes) - 1
        return len(self.boxes) - 1

    def link(self, source: int, target: int) -> None:
        if source != target:
            self.links.setdefault((source, target), "")

    def scene(self, title: str, legend: str = "") -> Scene:
        links = (
            Link(source=one, target=two, label=label) for (one, two), label in self.links.items()
        )
        carried = (
            Link(source=self.place[each.writer], target=self.place[each.reader], label=each.name)
            for each in carried_states(self.part.spec)
            if each.writer in self.place and each.reader in self.place
        )
        return Scene(
            title=title,
            boxes=tuple(self.boxes),
            links=tuple(links),
            legend=legend,
            carried=tuple(each for each in carried if each.source > each.target),
        )


def assemble(part: Part, view: View, hottest: float | None = None) -> Scene:
    """Make the scene of a graph, with the scenes of everything nested in it.

    Args:
        part: the graph.
        view: how much of it to show.
        hottest: the amount that gets the hottest colour; the largest of the part if not given.
    """
    if hottest is None:
        hottest = max((heat.amount for heat in part.heat.values()), default=0.0)
    visible, reads = _visible(part)
    sketch = _Sketch(part=part, view=view, hottest=hottest, visible=visible, reads=reads)
    if part.unknown:
        sketch.put(Box(role="entry", title=UNKNOWN_WIRING, note=part.unknown))
    # Steps without links would make a wide row, so equal ones are drawn once.
    fold = view.fold if view.fold is not None else len(visible) > FOLD_ABOVE or bool(part.unknown)
    runs = {run.start: run for run in _runs(sketch)} if fold else {}
    position = 0
    while position < len(visible):
        run = runs.get(position)
        if run is None:
            _put_node(sketch, visible[position])
            position += 1
        else:
            _put_run(sketch, run)
            position = run.stop
    if not part.unknown:
        _put_output(sketch)
    legend = f"{part.measure}: {part.total}" if part.measure else ""
    return sketch.scene(part.title, legend)


# ---- which nodes are seen ------------------------------------------------------------------------


def _visible(part: Part) -> tuple[tuple[int, ...], dict[int, tuple[int, ...]]]:
    """Return the nodes to draw, and for each the visible nodes whose values reach it.

    A value that comes through a hidden size does not count if something else does.
    """
    spec = part.spec
    hidden = part.hidden | {node.index for node in spec.nodes if is_bookkeeping(node)}
    through: dict[int, tuple[int, ...]] = {}
    reads: dict[int, tuple[int, ...]] = {}
    for node in spec.nodes:
        direct = [ref for ref in node_refs(node) if ref not in hidden or _carries(part, ref)]
        wanted = direct or list(node_refs(node))
        found: dict[int, None] = {}
        for ref in wanted:
            found |= dict.fromkeys(through[ref] if ref in hidden else (ref,))
        (through if node.index in hidden else reads)[node.index] = tuple(found)
    return tuple(index for index in range(len(spec.nodes)) if index not in hidden), reads


def _carries(part: Part, index: int) -> bool:
    return part.spec.nodes[index].kind == "unpack" and index not in part.hidden


def _runs(sketch: _Sketch) -> tuple[Run, ...]:
    at = {node: position for position, node in enumerate(sketch.visible)}
    steps = [
        Step(
            looks=_looks(sketch.part, sketch.part.spec.nodes[node]),
            reads=tuple(at[ref] for ref in sketch.reads[node]),
            may_fold=sketch.part.spec.nodes[node].kind != "input",
        )
        for node in sketch.visible
    ]
    return find_runs(steps)


def _looks(part: Part, node: NodeSpec) -> tuple[object, ...]:
    """Return the properties that must be equal in two steps that are drawn as one."""
    literal: tuple[object, ...] = tuple(
        argument_text(part.spec, arg)
        for arg in (*node.args, *(value for _, value in node.kwargs))
        if not refs(arg) and node.kind != "input"
    )
    if word_of(node):  # its modules may lie at other paths
        literal = (*_lines(part, [node.index]), *(_about(part, path) for path in paths_of(node)))
    elif node.kind == "module":
        literal = tuple(text for text in literal if not str(text).startswith("self."))
    what = part.lambdas.get(node.target, "") or operation(node, part.kinds)
    shape = part.shapes.get(node.index, "")
    return (
        node.kind,
        what,
        part.parameters.get(node.target, 0),
        literal,
        shape,
        _settings(part, node),
        bool(node.branch),
    )


def _about(part: Part, path: str) -> tuple[object, ...]:
    settings = part.settings.get(path, "")
    return part.kinds.get(path, path), part.parameters.get(path, 0), settings


# ---- boxes ---------------------------------------------------------------------------------------


def _put_node(sketch: _Sketch, index: int) -> None:
    position = sketch.put(_box(sketch, index, sketch.view.depth), index)
    for ref in sketch.reads[index]:
        sketch.link(sketch.place[ref], position)


def _box(sketch: _Sketch, index: int, depth: int, copies: Sequence[int] = ()) -> Box:
    part = sketch.part
    node = part.spec.nodes[index]
    role, title = role_of(part, node), title_of(part, node)
    heat = _heat(part, [index, *copies])
    inner = content_of(part, node)
    scene = (
        assemble(inner, replace(sketch.view, depth=depth - 1), sketch.hottest) if inner else None
    )
    return Box(
        role=role,
        title=title,
        lines=_lines(part, [index, *copies]),
        tags=part.spec.tags_of(index),
        note=_note(part, node),
        facts=_facts(part, node, heat),
        tensors=part.tensors.get(subject_of(node), ()),
        values=part.values.get(subject_of(node), {}),
        times=len(copies) + 1,
        heat=None if heat is None else _share(heat.amount, sketch.hottest),
        cost="" if heat is None else heat.text,
        inner=scene,
        is_open=scene is not None and depth > 0,
    )


def _share(amount: float, hottest: float) -> float:
    return min(amount / hottest, 1.0) if hottest > 0 else 0.0


def _heat(part: Part, nodes: Sequence[int]) -> Heat | None:
    found = [part.heat[node] for node in nodes if node in part.heat]
    if not found:
        return None
    if len(found) == 1:
        return found[0]
    hottest = max(found, key=lambda heat: heat.amount)
    return Heat(amount=hottest.amount, text=f"up to {hottest.text}")


def _lines(part: Part, nodes: Sequence[int]) -> tuple[str, ...]:
    node = part.spec.nodes[nodes[0]]
    lines: list[str] = []
    if construct := construct_of(part, node):
        lines += [shortened(line, 60) for line in construct.lines]
    if node.kind == "module" and node.target:
        path = shortened(_pattern([part.spec.nodes[each].target for each in nodes]))
        lines += [path] if path != title_of(part, node) else []
    if parts := parts_text(part, node):
        lines.append(parts)
    if settings := settings_text(_settings(part, node)):
        lines.append(shortened(settings, 60))
    facts = [part.shapes[node.index]] if node.index in part.shapes else []
    if count := _parameters(part, node):
        facts.append(f"{count_text(count)} params")
    return (*lines, " \u00b7 ".join(facts)) if facts else tuple(lines)


def _pattern(paths: Sequence[str]) -> str:
    """Return the common pattern of paths, with `*` where they differ: `blocks.*.conv`."""
    split = [path.split(".") for path in paths]
    if len({len(each) for each in split}) != 1:
        return paths[0]
    return ".".join(
        parts[0] if len(set(parts)) == 1 else "*" for parts in zip(*split, strict=True)
    )


def _settings(part: Part, node: NodeSpec) -> str:
    return part.settings.get(subject_of(node), "")


def _parameters(part: Part, node: NodeSpec) -> int:
    return sum(part.parameters.get(path, 0) for path in paths_of(node))


def _call_text(part: Part, node: NodeSpec) -> str:
    if node.kind == "input":
        return f"input {node.name}"
    if construct := construct_of(part, node):
        return f"{node.name} = {construct.call}"
    if node.kind == "item":
        value, index = argument_text(part.spec, node.args[0]), index_text(part.spec, node.args[1])
        return f"{node.name} = {value}[{index}]"
    args = [argument_text(part.spec, arg) for arg in node.args]
    args += [f"{key}={argument_text(part.spec, value)}" for key, value in node.kwargs]
    called = part.lambdas.get(node.target, "") if node.kind == "function" else ""
    what = f"({called})" if called else operation(node, part.kinds)
    return f"{node.name} = {what}({', '.join(args)})"


def _place_text(node: NodeSpec) -> str:
    # Pictures travel, so they name the file without the folders of the machine they were made on.
    return f"{PurePath(node.site.file).name}:{node.site.line}" if node.site.line else ""


def _note(part: Part, node: NodeSpec) -> str:
    lines = [_call_text(part, node)]
    if node.kind == "module" and node.target:
        lines.append(f"self.{node.target}")
    if settings := _settings(part, node):
        lines.append(settings)
    if node.branch is not None:
        lines.append(f"branch {node.branch.k} of {node.branch.n}")
    if place := _place_text(node):
        lines.append(f"written at {place}")
    return "\n".join(lines)


def _facts(part: Part, node: NodeSpec, heat: Heat | None) -> tuple[tuple[str, str], ...]:
    count, path = _parameters(part, node), subject_of(node)
    construct = construct_of(part, node)
    found = (
        ("call", _call_text(part, node)),
        *(construct.facts if construct is not None else ()),
        ("path", f"self.{path}" if path else ""),
        ("settings", _settings(part, node)),
        ("output", part.types.get(node.index, "") or part.shapes.get(node.index, "")),
        ("parameters", f"{count:,}" if count else ""),
        ("tags", ", ".join(part.spec.tags_of(node.index))),
        (part.measure or "cost", heat.text if heat is not None else ""),
        ("written at", _place_text(node)),
        *_details(part, node, path),
    )
    return tuple((word, text) for word, text in found if text)


def _details(part: Part, node: NodeSpec, path: str) -> tuple[tuple[str, str], ...]:
    return part.details.get(path or details_key(node), ())


def _put_output(sketch: _Sketch) -> None:
    found: dict[int, None] = {}
    for ref in refs(sketch.part.spec.output):
        if ref in sketch.reads:
            found[ref] = None
        else:
            found |= dict.fromkeys(_sources(sketch, ref))
    text = argument_text(sketch.part.spec, sketch.part.spec.output)
    single = isinstance(sketch.part.spec.output, Ref)
    types = [sketch.part.types[ref] for ref in found if ref in sketch.part.types]
    facts = (("step", f"return {text}"), ("output", ", ".join(types)))
    position = sketch.put(
        Box(
            role="output",
            title="output",
            note="" if single else f"return {text}",
            facts=tuple((word, each) for word, each in facts if each),
        )
    )
    for ref in found:
        sketch.link(sketch.place[ref], position)


def _sources(sketch: _Sketch, hidden: int) -> tuple[int, ...]:
    """Return the visible nodes behind a hidden one."""
    found: dict[int, None] = {}
    for ref in node_refs(sketch.part.spec.nodes[hidden]):
        found |= dict.fromkeys((ref,) if ref in sketch.reads else _sources(sketch, ref))
    return tuple(found)


# ---- repeated blocks -----------------------------------------------------------------------------


def _put_run(sketch: _Sketch, run: Run) -> None:
    nodes = sketch.visible[run.start : run.stop]
    first = nodes[: run.period]
    if run.period == 1:
        box = _box(sketch, first[0], sketch.view.depth, nodes[1:])
    else:
        box = Box(
            role="repeat",
            title=f"{run.copies} times" if run.chained else f"{run.copies} side by side",
            note=f"{run.copies} equal blocks of {run.period} steps",
            times=run.copies,
            tags=tuple(
                tag for node in nodes[run.period :] for tag in sketch.part.spec.tags_of(node)
            ),
            inner=_block(sketch, nodes, run.copies),
            is_open=run.period <= MOST_NODES,
        )
    position = sketch.put(box, *nodes)
    for node in nodes:
        for ref in sketch.reads[node]:
            if sketch.place[ref] != position:
                sketch.link(sketch.place[ref], position)


def _block(sketch: _Sketch, nodes: Sequence[int], copies: int) -> Scene:
    """Return the scene of one copy of a block, with an entry for each value that comes from outside."""
    period = len(nodes) // copies
    own = set(nodes[:period])
    inside = replace(sketch, boxes=[], place={}, links={})
    entering = dict.fromkeys(
        ref for node in nodes[:period] for ref in sketch.reads[node] if ref not in own
    )
    for ref in entering:
        name = sketch.part.spec.nodes[ref].name
        inside.put(Box(role="entry", title=shortened(name), note=f"from {name}"), ref)
    for offset, node in enumerate(nodes[:period]):
        others = nodes[offset + period :: period]
        position = inside.put(replace(_box(sketch, node, 0, others), times=1), node)
        for ref in sketch.reads[node]:
            inside.link(inside.place[ref], position)
    return inside.scene(f"one of {copies}")
