"""Everything about the parts of a model that the details of a page tell: class, purpose, tensors, links.

    nn.Conv2d(3, 8, 3)  ->  class           torch.nn.Conv2d
                            about           Applies a 2D convolution over an input signal ...
                            documentation   https://docs.pytorch.org/docs/stable/generated/torch.nn.Conv2d.html
                            other settings  padding_mode='zeros', groups=1, dilation=(1, 1)
                            weight          8x3x3x3 float32; -0.19 to 0.19, mean 0.002, deviation 0.11; ...

Only pages have these details, since finding the range of a tensor reads it.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, final

import torch
from torch import nn

from flodl.inspect.facts.plain_shapes import value_text
from flodl.inspect.facts.tensor_values import values_of
from flodl.inspect.plain_pictures import settings_of
from flodl.ir.pretty import operation
from flodl.visual.part import details_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from flodl.inspect.facts.tensor_values import Found, Weights
    from flodl.ir.graph import NodeSpec
    from flodl.visual.part import Part

    Facts = tuple[tuple[str, str], ...]

_SITE: Final = "https://docs.pytorch.org/docs/stable/generated"
# Larger tensors have no statistics, nor have those after so many elements: a page must not read gigabytes.
_MOST_READ: Final = 1 << 22
_MOST_READ_TOGETHER: Final = 1 << 26
# Of a small tensor all values are shown, of a larger one the first few.
_MOST_SHOWN: Final = 64
_FIRST: Final = 8
_LONGEST: Final = 300
_ROOMS: Final = {"F": nn.functional, "torch.nn.functional": nn.functional, "torch": torch}
_MARKUP: Final = re.compile(r":\w+:`~?([^`]*)`")
# Operators whose function in torch has another name.
_FUNCTIONS: Final = {
    "truediv": "div", "floordiv": "floor_divide", "mod": "remainder", "and_": "bitwise_and",
    "or_": "bitwise_or", "xor": "bitwise_xor", "invert": "bitwise_not",
}  # fmt: skip


def detailed(module: nn.Module, part: Part, weights: Weights = "small") -> Part:
    """Return a part with all that is known about the modules and functions in it.

    Args:
        module: the module that the part shows.
        part: the part, with or without shapes and heat.
        weights: the tensors whose values are held; see `values_of`.

    Raises:
        ValueError: there is no such choice of tensors.
    """
    return _detailed(module, part, _Known(), values_of(module, weights))


@final
class _Known:
    """Facts of the modules seen so far: a module in a nested part is one of the model's, too."""

    def __init__(self) -> None:
        self._modules: dict[nn.Module, tuple[Facts, Facts]] = {}
        self._left = _MOST_READ_TOGETHER

    def of(self, module: nn.Module) -> tuple[Facts, Facts]:
        """Return what a module is, and its tensors."""
        if module not in self._modules:
            tensors = tuple(self._tensors(module))
            self._modules[module] = (_module_facts(module), tensors)
        return self._modules[module]

    def _tensors(self, module: nn.Module) -> Iterator[tuple[str, str]]:
        own: Iterable[tuple[str, torch.Tensor]] = (
            *module.named_parameters(recurse=False),
            *module.named_buffers(recurse=False),
        )
        for name, tensor in own:
            if _is_lazy(tensor):
                yield name, "of unknown shape"
                continue
            texts = [f"{value_text(tensor)} {_kind(tensor)}".strip()]
            if tensor.numel() <= min(_MOST_READ, self._left):
                self._left -= tensor.numel()
                texts.append(_statistics(tensor))
            yield name, "; ".join(text for text in texts if text)


def _detailed(module: nn.Module, part: Part, known: _Known, values: Found) -> Part:
    modules = dict(module.named_modules(remove_duplicate=False))
    found = {path: known.of(each) for path, each in modules.items()}
    details = {path: facts for path, (facts, _) in found.items()}
    details[""] = (*_model_facts(module, part), *details[""])
    for node in part.spec.nodes:
        if node.kind in ("function", "method", "operator"):
            details[details_key(node)] = _function_facts(node)
    inner = {
        path: _detailed(modules[path], each, known, values) for path, each in part.inner.items()
    }
    tensors = {path: own for path, (_, own) in found.items()}
    # A module of a nested graph that is no part of the model has no values.
    held = {path: values[each] for path, each in modules.items() if each in values}
    return replace(part, inner=inner, details=details, tensors=tensors, values=held)


# ---- modules -------------------------------------------------------------------------------------


def _module_facts(module: nn.Module) -> Facts:
    kind = type(module)
    own = vars(nn).get(kind.__name__) is kind
    link = f"{_SITE}/torch.nn.{kind.__name__}.html" if own else ""
    room = "torch.nn" if own else kind.__module__
    found = (
        ("class", f"{room}.{kind.__qualname__}"),
        ("about", _purpose(kind)),
        ("documentation", link),
        ("other settings", _other_settings(module)),
    )
    return tuple((word, text) for word, text in found if text)


def _model_facts(module: nn.Module, part: Part) -> Facts:
    """Return what concerns a model as a whole: its inputs, its output, and its size."""
    sizes = [each.numel() for each in module.parameters() if not _is_lazy(each)]
    trained = sum(
        each.numel() for each in module.parameters() if each.requires_grad and not _is_lazy(each)
    )
    held = sum(each.nbytes for each in _all_tensors(module))
    inputs = (
        ("input", f"{node.name} {part.types.get(node.index, '')}".strip())
        for node in part.spec.nodes
        if node.kind == "input"
    )
    total = f"{sum(sizes):,}" + (f", {trained:,} of them trained" if trained != sum(sizes) else "")
    return (*inputs, ("parameters", total), ("bytes", f"{held:,}"))


def _all_tensors(module: nn.Module) -> Iterator[torch.Tensor]:
    for each in (*module.parameters(), *module.buffers()):
        if not _is_lazy(each):
            yield each


def _is_lazy(tensor: torch.Tensor) -> bool:
    return isinstance(tensor, (nn.UninitializedParameter, nn.UninitializedBuffer))


def _purpose(target: Any) -> str:
    """Return the first paragraph of a docstring that says more than a signature."""
    text = inspect.cleandoc(target.__doc__ or "")  # not that of a base, as `getdoc` gives
    for paragraph in text.split("\n\n"):
        line = _MARKUP.sub(r"\1", " ".join(paragraph.split()))
        if line and not _is_signature(line):
            return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}\u2026"
    return ""


def _is_signature(line: str) -> bool:
    return line.startswith("..") or ("(" in line and "->" in line and ". " not in line)


def _other_settings(module: nn.Module) -> str:
    """Return the settings that a layer of torch does not print, since they are defaults."""
    kinds = (vars(kind) for kind in type(module).__mro__)
    names = next((each["__constants__"] for each in kinds if "__constants__" in each), ())
    printed = settings_of(module)
    values = vars(module)
    told = (
        f"{name}={values[name]!r}"
        for name in dict.fromkeys(names)
        if name in values and f"{name}=" not in printed and not _is_named(name)
    )
    return ", ".join(told)


def _is_named(name: str) -> bool:
    """Return True for sizes that a layer prints first, without their names."""
    return name.startswith(("in_", "num_", "normalized_shape")) or name in (
        "out_channels",
        "embedding_dim",
    )


def _kind(tensor: torch.Tensor) -> str:
    if not isinstance(tensor, nn.Parameter):
        return "buffer"
    return "" if tensor.requires_grad else "frozen"


def _statistics(tensor: torch.Tensor) -> str:
    """Return range, mean, deviation and the first values of a tensor, empty if it cannot be read."""
    tensor = tensor.detach()
    readable = tensor.layout is torch.strided and not (tensor.is_meta or tensor.is_complex())
    if not readable or not tensor.numel():
        return ""
    flat = tensor.reshape(-1).double()
    shown = len(flat) if len(flat) <= _MOST_SHOWN else _FIRST
    first = ", ".join(f"{value:.4g}" for value in flat[:shown].tolist())
    rest = ", \u2026" if len(flat) > shown else ""
    if len(flat) == 1:
        return first
    low, high, mean, deviation = torch.stack(
        [flat.min(), flat.max(), flat.mean(), flat.std(correction=0)]
    ).tolist()
    strides = "" if tensor.is_contiguous() else f"strides {tensor.stride()}; "
    spread = f"{low:.3g} to {high:.3g}, mean {mean:.3g}, deviation {deviation:.3g}"
    return f"{strides}{spread}; {first}{rest}"


# ---- functions -----------------------------------------------------------------------------------


def _function_facts(node: NodeSpec) -> Facts:
    name, target = _documented(node)
    if target is None:
        return ()
    found = (("about", _purpose(target)), ("documentation", f"{_SITE}/{name}.html"))
    return found if found[0][1] else ()


def _documented(node: NodeSpec) -> tuple[str, Any]:
    """Return the public name of what a step calls in torch, and the function; `None` for any other."""
    word = operation(node, {})
    if node.kind == "method":
        # The text of a method often only names that of the function.
        own = (vars(each).get(word) for each in (torch, torch.Tensor, torch._C.TensorBase))
        return f"torch.Tensor.{word}", next((each for each in own if each is not None), None)
    if node.kind == "operator":
        plain = word.removeprefix("i_")
        word = _FUNCTIONS.get(plain, plain)
        return f"torch.{word}", vars(torch).get(word)
    room, _, name = word.rpartition(".")
    owner = _ROOMS.get(room)
    return ("", None) if owner is None else (f"{owner.__name__}.{name}", vars(owner).get(name))
