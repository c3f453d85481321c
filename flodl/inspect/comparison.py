"""Comparison of two models: their parts, settings, tensors, shapes and wiring.

    print(flodl.view(old).diff(new, torch.randn(8, 3, 32, 32)))

    Net -> Net: 1 added, 1 changed; parameters 40 -> 48 (+8)
    ~ 0     Linear  out_features=8 -> out_features=9
                    weight: float32[8, 4] -> float32[9, 4]
    + norm  LayerNorm  (9,), eps=1e-05, elementwise_affine=True; 18 parameters

Facts are taken from each model by itself and are plain data: two versions of one file, which cannot be
imported side by side, are compared too. Values of tensors are no facts; `fdl checkpoint diff` compares them.
"""

from __future__ import annotations

import difflib
import json
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, final

import torch
from torch import nn

from flodl.graph.observed import twin_of
from flodl.inspect.drawing import part_of
from flodl.inspect.summary import part_summaries
from flodl.ir.pretty import argument_text, step_texts
from flodl.observe.export import write_text
from flodl.visual.assemble import View
from flodl.visual.constructs import paths_of
from flodl.visual.part import Heat, Part
from flodl.visual.svg import svg_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from flodl.visual.assemble import Direction

Change = Literal["added", "removed", "changed", "moved"]
_SIGNS: dict[Change, str] = {"added": "+", "removed": "-", "changed": "~", "moved": ">"}
# Amounts on the colour scale of a picture.
_NEW, _CHANGED = 1.0, 0.6
_CHANGED_INSIDE = Heat(amount=0.3, text="changed inside")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PartFacts:
    """What one module is, without its values.

    Attributes:
        path: its dotted path, empty for the model.
        kind: the name of its class.
        settings: its `extra_repr()`, such as `p=0.5, inplace=False`.
        tensors: its own parameters and buffers by name, such as `float32[8, 4]`.
        elements: how many elements its own parameters have.
        output: shapes and dtypes of what it returned; empty if no inputs were given.
        flow: a line per step of its forward; empty for a layer, which has none.
    """

    path: str
    kind: str
    settings: str
    tensors: Mapping[str, str]
    elements: int
    output: str
    flow: tuple[str, ...]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """The facts of a model: those of each module in the order of `named_modules`, and totals.

    `macs` is `None` if no inputs were given.
    """

    title: str
    parts: tuple[PartFacts, ...]
    parameters: int
    macs: int | None

    def to_json(self) -> str:
        """Return the facts as a JSON object; `read_facts` reads it."""
        return json.dumps(asdict(self))


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PartChange:
    """One difference.

    Attributes:
        path: the path of the module in the new model; in the old one if it was removed.
        change: what happened to it.
        kind: the name of its class.
        was: its former path, if it moved.
        details: a line for each thing that is different.
    """

    path: str
    change: Change
    kind: str
    was: str = ""
    details: tuple[str, ...] = ()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDiff:
    """The differences from one model to another, in the order of their parts; `str()` gives a text.

    It is true if there is a difference.
    """

    before: ModelFacts
    after: ModelFacts
    changes: tuple[PartChange, ...]
    part: Part | None = field(default=None, repr=False, compare=False)

    def __bool__(self) -> bool:
        return bool(self.changes)

    def to_json(self) -> str:
        """Return titles, totals and changes as a JSON object."""
        both = (self.before, self.after)
        document = {
            "titles": [each.title for each in both],
            "parameters": [each.parameters for each in both],
            "macs": [each.macs for each in both],
            "changes": [asdict(change) for change in self.changes],
        }
        return json.dumps(document, indent=2)

    def svg(
        self, path: str | Path | None = None, *, depth: int = 0, direction: Direction = "down"
    ) -> str:
        """Return the picture of the new model, with what is new or changed coloured.

        Args:
            path: where to write it too.
            depth: the levels of nested graphs that are open.
            direction: the way from inputs to outputs, `down` or `right`.

        Raises:
            ValueError: this difference was made from facts alone.
        """
        if self.part is None:
            message = "a difference of facts has no picture: compare the models themselves"
            raise ValueError(message)
        look = View(depth=depth, direction=direction)
        text = svg_text(coloured(self.part, self), look)
        if path is not None:
            write_text(path, text)
        return text

    def __str__(self) -> str:
        if not self.changes:
            return f"no difference: {len(self.after.parts)} parts, {self.after.parameters:,} parameters"
        widths = [max(len(_shown(each)) for each in self.changes)]
        widths.append(max(len(each.kind) for each in self.changes))
        lines = [self._headline()]
        for each in self.changes:
            first, *rest = each.details or ("",)
            begin = f"{_SIGNS[each.change]} {_shown(each):{widths[0]}}  {each.kind:{widths[1]}}  "
            lines += [f"{begin}{first}".rstrip(), *(" " * len(begin) + line for line in rest)]
        return "\n".join(lines)

    def _headline(self) -> str:
        kinds: tuple[Change, ...] = ("added", "removed", "changed", "moved")
        counts = {kind: sum(each.change == kind for each in self.changes) for kind in kinds}
        told = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
        text = f"{self.before.title} -> {self.after.title}: {told}"
        text += _total("parameters", self.before.parameters, self.after.parameters)
        if self.before.macs is not None and self.after.macs is not None:
            text += _total("MACs", self.before.macs, self.after.macs)
        return text


def diff(before: nn.Module, after: nn.Module, *inputs: Any, **named: Any) -> ModelDiff:
    """Return what is different in `after`.

    Args:
        before: any module; a flow must have been called, unless inputs are given.
        after: another one.
        *inputs: example inputs for both; with them, outputs and MACs are compared too. Copies run.
        **named: keyword inputs.

    Raises:
        NotRecordedError: a flow has not been recorded yet, and no inputs are given.
        Exception: whatever a forward raises for these inputs.

    Example:
        >>> from torch import nn
        >>> from flodl.inspect.comparison import diff
        >>> old = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
        >>> new = nn.Sequential(nn.Linear(4, 9), nn.ReLU(), nn.Dropout(0.5))
        >>> print(diff(old, new))
        Sequential -> Sequential: 1 added, 2 changed; parameters 40 -> 45 (+5)
        ~ (model)  Sequential  - return 1
                               + 2 = Dropout(1)
                               + return 2
        ~ 0        Linear      out_features=8 -> out_features=9
                               bias: float32[8] -> float32[9]
                               weight: float32[8, 4] -> float32[9, 4]
        + 2        Dropout     p=0.5, inplace=False
        >>> bool(diff(old, old))
        False
    """
    found = compare(facts(before, *inputs, **named), facts(after, *inputs, **named))
    return replace(found, part=_part(after, inputs, named))


def facts(module: nn.Module, *inputs: Any, **named: Any) -> ModelFacts:
    """Return the facts of a model.

    Args:
        module: any module; a flow must have been called, unless inputs are given.
        *inputs: example inputs; with them, a copy runs, and outputs and MACs are facts too.
        **named: keyword inputs.

    Raises:
        NotRecordedError: the flow has not been recorded yet, and no inputs are given.
        Exception: whatever the forward raises for these inputs.

    Example:
        >>> from torch import nn
        >>> from flodl.inspect.comparison import facts
        >>> facts(nn.Sequential(nn.Linear(4, 8))).parts[1].tensors
        {'bias': 'float32[8]', 'weight': 'float32[8, 4]'}
    """
    runs = bool(inputs or named)
    table = part_summaries(module, inputs, named) if runs else None
    outputs = {} if table is None else {each.path: each.output for each in table}
    flows = dict(_flows(_part(module, inputs, named), ""))
    return ModelFacts(
        title=type(module).__name__,
        parts=tuple(
            _facts(path, each, outputs.get(path, ""), flows.get(path, ()))
            for path, each in module.named_modules(remove_duplicate=False)
        ),
        parameters=sum(_elements(each) for each in module.parameters()),
        macs=None if table is None else table[0].macs,
    )


def read_facts(text: str) -> ModelFacts:
    """Return the facts that `ModelFacts.to_json` wrote."""
    fields = json.loads(text)
    parts = tuple(
        PartFacts(**{**each, "flow": tuple(each["flow"])}) for each in fields.pop("parts")
    )
    return ModelFacts(**fields, parts=parts)


def compare(before: ModelFacts, after: ModelFacts) -> ModelDiff:
    """Return the differences between the facts of two models.

    A module that is gone and one that is new are the same, moved, if all facts below them are equal.
    """
    old = {each.path: each for each in before.parts}
    new = {each.path: each for each in after.parts}
    gone = [path for path in old if path not in new]
    come = [path for path in new if path not in old]
    moved = _moved(old, new, gone, come)
    changes: list[PartChange] = []
    for path in _order(list(old), list(new)):
        if path in old and path in new:
            details = tuple(_details(old[path], new[path]))
            kind = new[path].kind
            changes += [
                PartChange(path=path, change="changed", kind=kind, details=details)
            ] * bool(details)
        elif path in moved:
            kind, was = new[path].kind, moved[path]
            changes.append(PartChange(path=path, change="moved", kind=kind, was=was))
        elif path in new and _is_root(path, come):
            changes.append(_whole(new, path, "added"))
        elif path in old and _is_root(path, gone) and path not in moved.values():
            changes.append(_whole(old, path, "removed"))
    return ModelDiff(before=before, after=after, changes=tuple(changes))


def coloured(part: Part, found: ModelDiff, path: str = "") -> Part:
    """Return the picture of the new model with its new and changed steps as heat.

    Args:
        part: the picture of the new model, or of a part of it.
        found: the differences.
        path: the path of that part.
    """
    changes = {each.path: each.change for each in found.changes if each.change != "removed"}
    old = next((each.flow for each in found.before.parts if each.path == path), None)
    steps = step_texts(part.spec, part.kinds)
    new = set() if old is None else _added([text for _, text in steps], old)
    heat: dict[int, Heat] = {}
    stages: dict[str, Heat] = {}
    for position, (index, _) in enumerate(steps):
        node = part.spec.nodes[index]
        hot = {
            each: change
            for each in paths_of(node)
            if (change := _change_at(_join(path, each), changes)) is not None
        }
        stages |= hot
        if node.target in hot:
            heat[index] = hot[node.target]
        elif position in new:
            heat[index] = Heat(amount=_NEW, text="new or wired anew")
        elif hot:
            heat[index] = _CHANGED_INSIDE
    inner = {name: coloured(each, found, _join(path, name)) for name, each in part.inner.items()}
    total = f"{len(found.changes)} differences"
    return replace(part, heat=heat, stages=stages, inner=inner, measure="changes", total=total)


def _change_at(path: str, changes: Mapping[str, str]) -> Heat | None:
    """Return the change of a module, by its path, `None` if neither it nor anything in it has changed."""
    change = changes.get(path)
    if change is not None:
        return Heat(amount=_CHANGED if change == "changed" else _NEW, text=change)
    return _CHANGED_INSIDE if any(each.startswith(f"{path}.") for each in changes) else None


# ---- facts ---------------------------------------------------------------------------------------


def _part(module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> Part:
    """Return the picture of a model; with inputs that of a copy that was called with them."""
    if not (inputs or named):
        return part_of(module)
    twin = twin_of(module)
    with torch.random.fork_rng(), torch.no_grad():
        twin(*inputs, **named)
    return part_of(twin)


def _flows(part: Part, path: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    returned = f"return {argument_text(part.spec, part.spec.output)}"
    yield path, (*(text for _, text in step_texts(part.spec, part.kinds)), returned)
    for name, inner in part.inner.items():
        yield from _flows(inner, _join(path, name))


def _facts(path: str, module: nn.Module, output: str, flow: tuple[str, ...]) -> PartFacts:
    parameters = dict(module.named_parameters(recurse=False, remove_duplicate=False))
    buffers = dict(module.named_buffers(recurse=False, remove_duplicate=False))
    texts = {
        name: _tensor(each, frozen=not each.requires_grad) for name, each in parameters.items()
    }
    texts |= {name: f"{_tensor(each)} buffer" for name, each in buffers.items()}
    return PartFacts(
        path=path,
        kind=type(module).__name__,
        settings=" ".join(module.extra_repr().split()),
        tensors=dict(sorted(texts.items())),
        elements=sum(_elements(each) for each in parameters.values()),
        output=output,
        flow=flow,
    )


def _tensor(tensor: torch.Tensor, *, frozen: bool = False) -> str:
    shape = " of unknown shape" if _is_lazy(tensor) else str(list(tensor.shape))
    text = f"{str(tensor.dtype).removeprefix('torch.')}{shape}"
    return f"{text} frozen" if frozen else text


def _elements(parameter: torch.Tensor) -> int:
    return 0 if _is_lazy(parameter) else parameter.numel()


def _is_lazy(tensor: torch.Tensor) -> bool:
    return isinstance(tensor, nn.UninitializedParameter | nn.UninitializedBuffer)


# ---- differences ---------------------------------------------------------------------------------


def _details(old: PartFacts, new: PartFacts) -> Iterator[str]:
    if old.kind != new.kind:
        yield f"{old.kind} -> {new.kind}"
    yield from _settings(old.settings, new.settings)
    for name in dict.fromkeys((*old.tensors, *new.tensors)):
        was, now = old.tensors.get(name, "absent"), new.tensors.get(name, "absent")
        if was != now:
            yield f"{name}: {was} -> {now}"
    if old.output != new.output and old.output and new.output:
        yield f"output: {old.output} -> {new.output}"
    matcher = difflib.SequenceMatcher(None, old.flow, new.flow, autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind != "equal":
            yield from (f"- {line}" for line in old.flow[a:b])
            yield from (f"+ {line}" for line in new.flow[c:d])


def _settings(old: str, new: str) -> Iterator[str]:
    before, after = old.split(", "), new.split(", ")
    if len(before) != len(after):
        yield f"{old or 'no settings'} -> {new or 'no settings'}"
        return
    for was, now in zip(before, after, strict=True):
        if was != now:
            yield f"{was} -> {now}"


def _added(new: Sequence[str], old: Sequence[str]) -> set[int]:
    """Return the positions of the lines that the old ones do not have."""
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    found = (range(c, d) for kind, _, _, c, d in matcher.get_opcodes() if kind != "equal")
    return {position for each in found for position in each}


def _moved(
    old: Mapping[str, PartFacts], new: Mapping[str, PartFacts], gone: list[str], come: list[str]
) -> dict[str, str]:
    """Return the former path of every module that only lies elsewhere; layers without tensors stay out.

    Two of them are alike everywhere: a dropout that is gone and one that is new are no move.
    """
    left = [path for path in gone if _is_root(path, gone)]
    moved: dict[str, str] = {}
    for path in come:
        if not _is_root(path, come):
            continue
        wanted = _below(new, path)
        if not any(each.tensors for each in wanted):
            continue
        for was in left:
            if _below(old, was) == wanted:
                moved[path] = was
                left.remove(was)
                break
    return moved


def _below(parts: Mapping[str, PartFacts], root: str) -> list[PartFacts]:
    """Return the facts of a module and of all below it, with paths from there."""
    return [
        replace(each, path=path[len(root) :])
        for path, each in parts.items()
        if path == root or path.startswith(f"{root}.")
    ]


def _whole(parts: Mapping[str, PartFacts], path: str, change: Change) -> PartChange:
    """Return the change of a module with all below it."""
    below = _below(parts, path)
    told = [parts[path].settings] if parts[path].settings else []
    told += [f"{len(below)} parts"] if len(below) > 1 else []
    elements = sum(each.elements for each in below)
    told += [f"{elements:,} parameters"] if elements else []
    details = ("; ".join(told),) if told else ()
    return PartChange(path=path, change=change, kind=parts[path].kind, details=details)


def _order(old: list[str], new: list[str]) -> list[str]:
    """Return all paths, those of the old model where they were."""
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    paths: list[str] = []
    for _, a, b, c, d in matcher.get_opcodes():
        paths += [*old[a:b], *new[c:d]]
    return list(dict.fromkeys(paths))


def _is_root(path: str, paths: Sequence[str]) -> bool:
    return path.rpartition(".")[0] not in paths


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path and name else path or name


def _shown(change: PartChange) -> str:
    path = change.path or "(model)"
    return f"{change.was} -> {path}" if change.was else path


def _total(name: str, before: int, after: int) -> str:
    if before == after:
        return f"; {name} {after:,}"
    return f"; {name} {before:,} -> {after:,} ({after - before:+,})"
