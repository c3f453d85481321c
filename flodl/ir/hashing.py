"""The architecture of a model as plain data: its canonical form, its hash, and how two of them differ.

The hash covers modules in order, their kinds and settings, the shapes and dtypes of their tensors, and the
wiring of described flows.  Names, labels, tags and places in source code are not part of it: renaming a
value or observing it keeps old checkpoints valid.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from difflib import unified_diff
from typing import TYPE_CHECKING, Any, final

from flodl.ir.graph import (
    Arg,
    Attr,
    Build,
    GraphSpec,
    Items,
    Literally,
    Named,
    Pairs,
    Ref,
    Slice,
    Submodule,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flodl.ir.graph import NodeSpec

Json = Any
_MODULE_KINDS = ("module", "loop")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TensorForm:
    """A parameter or buffer of one module, by its bare name."""

    name: str
    dtype: str
    shape: tuple[int, ...]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleForm:
    """One module: its place, class, settings as text, own tensors, and its flow if described."""

    path: str
    kind: str
    settings: str = ""
    tensors: tuple[TensorForm, ...] = ()
    flow: tuple[str, ...] = ()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """The architecture of a model: its modules in registration order, the model itself first."""

    modules: tuple[ModuleForm, ...]

    def hash(self) -> str:
        """Return the structural hash: 64 hexadecimal digits."""
        canonical = [
            [
                each.kind,
                each.settings,
                [[t.name, t.dtype, list(t.shape)] for t in each.tensors],
                list(each.flow),
            ]
            for each in self.modules
        ]
        return hashlib.sha256(_dumps(canonical).encode()).hexdigest()

    def to_json(self) -> str:
        """Return the text that is stored in checkpoints."""
        return _dumps(
            [
                {
                    "path": each.path,
                    "kind": each.kind,
                    "settings": each.settings,
                    "tensors": [[t.name, t.dtype, list(t.shape)] for t in each.tensors],
                    "flow": list(each.flow),
                }
                for each in self.modules
            ]
        )

    @classmethod
    def from_json(cls, text: str) -> Topology:
        """Return the architecture from its stored text.

        Raises:
            ValueError: the text is not one.
        """
        try:
            return Topology(modules=tuple(_module_form(each) for each in json.loads(text)))
        except (KeyError, TypeError, IndexError, AttributeError) as error:
            raise ValueError(f"not a topology: {error!r}") from error


def _dumps(value: Json) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=True)


def _module_form(data: Mapping[str, Json]) -> ModuleForm:
    return ModuleForm(
        path=str(data["path"]),
        kind=str(data["kind"]),
        settings=str(data["settings"]),
        tensors=tuple(
            TensorForm(name=str(name), dtype=str(dtype), shape=tuple(int(size) for size in shape))
            for name, dtype, shape in data["tensors"]
        ),
        flow=tuple(str(line) for line in data["flow"]),
    )


# ---- the wiring of a flow --------------------------------------------------------------------------


def flow_lines(spec: GraphSpec, module_numbers: Mapping[str, int]) -> tuple[str, ...]:
    """Return the wiring of a description, one line per node, with numbers in place of all names.

    Args:
        spec: the description.
        module_numbers: the position of every submodule, by path.
    """
    lines = [f"inputs {len(spec.inputs)}"]
    inputs = 0
    for node in spec.nodes:
        if node.kind == "input":
            lines.append(f"{node.index} input {inputs}")
            inputs += 1
        else:
            lines.append(f"{node.index} {_node_text(node, module_numbers)}")
    lines.append(f"output {_arg_text(spec.output, module_numbers)}")
    return tuple(lines)


def _node_text(node: NodeSpec, numbers: Mapping[str, int]) -> str:
    target = node.target
    if node.kind in _MODULE_KINDS:
        target = f"#{numbers.get(target, target)}"
    parts = [_arg_text(arg, numbers) for arg in node.args]
    parts += [f"{key}={_arg_text(arg, numbers)}" for key, arg in node.kwargs]
    return f"{node.kind} {target}({', '.join(parts)})"


def _arg_text(arg: Arg, numbers: Mapping[str, int]) -> str:
    match arg:
        case Ref(node):
            return f"%{node}"
        case Attr(path):
            return f".{path}"
        case Submodule(path):
            return f"#{numbers.get(path, path)}"
        case Literally(value):
            return repr(value)
        case Named(key):
            return key
        case Items(kind, items):
            name = "tuple" if kind == "size" else kind  # a size is written like one
            return f"{name}({', '.join(_arg_text(item, numbers) for item in items)})"
        case Pairs(keys, values):
            pairs = zip(keys, values, strict=True)
            return f"dict({', '.join(f'{_arg_text(k, numbers)}: {_arg_text(v, numbers)}' for k, v in pairs)})"
        case Slice(start, stop, step):
            return ":".join(_arg_text(each, numbers) for each in (start, stop, step))
        case Build(key, fields):
            return f"{key}({', '.join(f'{n}={_arg_text(v, numbers)}' for n, v in fields)})"


# ---- differences -----------------------------------------------------------------------------------


def differences(stored: Topology, current: Topology, *, tensors: bool = True) -> tuple[str, ...]:
    """Return how the architecture of a file differs from a model's, one readable line each.

    Facts that only one side knows are no difference: a flow that was not recorded yet, a setting that a newer
    torch has added.  Dtypes are no difference either: values are converted when they are loaded.

    Args:
        stored: the architecture in the file.
        current: the architecture of the model.
        tensors: whether shapes count.
    """
    lines: list[str] = []
    ours = {each.path: each for each in current.modules}
    theirs = {each.path: each for each in stored.modules}
    if _renamed(stored, current):
        ours = {old.path: new for old, new in zip(stored.modules, current.modules, strict=True)}
    for path, module in theirs.items():
        if path not in ours:
            lines.append(f"- {_place(path)}: {_call(module)} is in the file, not in the model")
    for path, module in ours.items():
        if path not in theirs:
            lines.append(f"+ {_place(path)}: {_call(module)} is in the model, not in the file")
        else:
            lines += _module_differences(path, theirs[path], module, tensors=tensors)
    return tuple(lines)


def _renamed(stored: Topology, current: Topology) -> bool:
    """Return whether both have the same kinds in the same order, so that position identifies a module."""
    return [each.kind for each in stored.modules] == [each.kind for each in current.modules]


def _place(path: str) -> str:
    return path or "(the model itself)"


def _call(module: ModuleForm) -> str:
    return f"{module.kind}({module.settings})"


def _module_differences(
    path: str, stored: ModuleForm, current: ModuleForm, *, tensors: bool
) -> list[str]:
    if stored.kind != current.kind and not (path == "" and "Graph" in (stored.kind, current.kind)):
        return [f"~ {_place(path)}: {_call(stored)} in the file, {_call(current)} in the model"]
    lines = []
    changed = _setting_changes(stored.settings, current.settings)
    if changed:
        lines.append(f"~ {_place(path)}: {stored.kind} has {', '.join(changed)}")
    if tensors:
        lines += _tensor_differences(path, stored, current)
    if stored.flow and current.flow and stored.flow != current.flow:
        lines.append(f"~ {_place(path)}: the flow differs (- file, + model)")
        lines += [f"    {line}" for line in _text_diff(stored.flow, current.flow)]
    return lines


def _settings(text: str) -> dict[str, str]:
    """Split `1, 2, eps=1e-05` at its top-level commas; positional ones are keyed by their place."""
    parts: list[str] = []
    depth = 0
    current = ""
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += letter
    parts.append(current)
    found = {}
    for place, part in enumerate(each.strip() for each in parts if each.strip()):
        key, equals, value = part.partition("=")
        found[key if equals else f"argument {place + 1}"] = value if equals else part
    return found


def _setting_changes(stored: str, current: str) -> list[str]:
    ours, theirs = _settings(current), _settings(stored)
    return [
        f"{key}={theirs[key]} in the file, {ours[key]} in the model"
        for key in theirs
        if key in ours and theirs[key] != ours[key]
    ]


def _tensor_differences(path: str, stored: ModuleForm, current: ModuleForm) -> list[str]:
    ours = {each.name: each.shape for each in current.tensors}
    theirs = {each.name: each.shape for each in stored.tensors}
    dot = f"{path}." if path else ""
    lines = [
        f"- {dot}{name}: in the file, not in the model" for name in theirs if name not in ours
    ]
    lines += [
        f"+ {dot}{name}: in the model, not in the file" for name in ours if name not in theirs
    ]
    lines += [
        f"~ {dot}{name}: shape {list(theirs[name])} in the file, {list(shape)} in the model"
        for name, shape in ours.items()
        if name in theirs and theirs[name] != shape
    ]
    return lines


def _text_diff(stored: tuple[str, ...], current: tuple[str, ...]) -> list[str]:
    diff = unified_diff(stored, current, lineterm="", n=0)
    return [line for line in diff if not line.startswith(("---", "+++", "@@"))]
