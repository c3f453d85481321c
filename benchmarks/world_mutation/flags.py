"""Changes of settings: fields, properties and setters of configurations, and attributes of modules."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from torch import nn

from benchmarks.world_mutation.changes import Change, MissingError, one_of_each_kind, submodule
from benchmarks.world_mutation.side import Side

_ACTIVATIONS = ("gelu", "relu", "silu", "tanh", "gelu_new", "swish", "quick_gelu", "gelu_python")
_PROPERTIES = ("output_attentions", "use_return_dict", "return_dict", "output_hidden_states", "num_labels",
               "torchscript", "attn_implementation")  # fmt: skip


def setting_changes(side: Side, reads: set[tuple[str, str]]) -> Iterator[Change]:
    """Return one change for each other value of each setting.

    Args:
        side: the original.
        reads: the settings that a call has read: path of the configuration, and name.
    """
    text = Path(str(side.home.__file__)).read_text(encoding="utf-8")
    for path, configuration in configurations(side.model):
        if path == "config":
            named = {("config", n) for n in re.findall(r"config\.(\w+)", text)}
            reads = reads | named | {("config", name) for name in _PROPERTIES}
        for name in sorted(n for p, n in reads if p == path and not n.startswith("__")):
            value = _read(configuration, name)
            if value is not _NONE:
                for other in others(name, value, text):
                    yield Change(
                        group="settings", name=f"{path}.{name} = {other!r}", apply=_put(path, name, other)
                    )  # fmt: skip
    if "set_attn_implementation" in dir(side.model):
        for kind in ("eager", "sdpa"):
            yield Change(
                group="settings",
                name=f"set_attn_implementation({kind!r})",
                apply=lambda s, k=kind: s.model.set_attn_implementation(k),
            )
        for name in ("output_attentions", "output_hidden_states"):
            yield Change(
                group="settings",
                name=f"set_attn_implementation('eager'), then config.{name} = True",
                apply=_eager_with(name),
            )
    yield from _attributes(side, text)


def _eager_with(name: str) -> Callable[[Side], object]:
    def apply(side: Side) -> None:
        model: Any = side.model
        model.set_attn_implementation("eager")
        setattr(model.config, name, True)

    return apply


def configurations(model: nn.Module) -> list[tuple[str, Any]]:
    """Return the configurations of a model and its parts, each once, with their paths."""
    found: dict[int, tuple[str, Any]] = {}
    for path, module in model.named_modules():
        each = vars(module).get("config")
        if each is None:
            continue
        full = f"{path}.config".lstrip(".")
        if id(each) not in found:
            found[id(each)] = (full, each)
            for name in getattr(each, "sub_configs", {}):
                inner = getattr(each, name, None)
                if inner is not None:
                    found.setdefault(id(inner), (f"{full}.{name}", inner))
    return list(found.values())


_NONE = object()


def _read(owner: Any, name: str) -> Any:
    try:
        return getattr(owner, name)
    except Exception:
        return _NONE


def others(name: str, value: Any, text: str) -> list[Any]:
    """Return other values of a setting: flipped, one more and one less, none or some."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, *([value - 1] if value > 0 else [])]
    if isinstance(value, float):
        return [value * 0.5 + 0.05]
    if value is None:
        strings = _strings(name, text)
        return [strings[0] if strings else 1]
    if isinstance(value, str):
        if value in _ACTIVATIONS:
            return ["relu" if value != "relu" else "gelu", None]
        if name == "_attn_implementation":
            return [each for each in ("eager", "sdpa") if each != value]
        return [*[each for each in _strings(name, text) if each != value], None]
    if isinstance(value, (list, tuple)) and value:
        return [
            value[:-1],
            [*value, value[-1]] if isinstance(value, list) else (*value, value[-1]),
        ]
    return []


def _strings(name: str, text: str) -> list[str]:
    """Return the texts with which a file compares a setting."""
    found = re.findall(rf"\b{re.escape(name)}\s*(?:==|!=|=)\s*[\"'](\w+)[\"']", text)
    found += re.findall(rf"[\"'](\w+)[\"'] in (?:self\.)?(?:config\.)?{re.escape(name)}\b", text)
    return list(dict.fromkeys(found))


def _put(path: str, name: str, value: Any) -> Callable[[Side], None]:
    def apply(side: Side) -> None:
        owner: Any = side.model
        for part in path.split("."):
            owner = owner[int(part)] if part.isdigit() else getattr(owner, part)
        setattr(owner, name, value)

    return apply


def _attributes(side: Side, text: str) -> Iterator[Change]:
    """Return changes of the plain attributes of one module of each class."""
    for path, module in one_of_each_kind(side.model, side.home.__name__):
        for name, value in list(vars(module).items()):
            if name.startswith("_") or name == "training" or not re.search(rf"\.{name}\b", text):
                continue
            if isinstance(value, (bool, int, float, str, list, tuple, type(None))):
                for other in others(name, value, text)[:2]:
                    shown = f"{type(module).__name__} {path}.{name} = {other!r}"
                    yield Change(
                        group="attributes", name=shown, apply=_put_attribute(path, name, other)
                    )


def _put_attribute(path: str, name: str, value: Any) -> Callable[[Side], None]:
    def apply(side: Side) -> None:
        module = submodule(side, path)
        if name not in dir(module):
            raise MissingError(f"{path}.{name}")
        setattr(module, name, value)

    return apply
