"""Guesses of inputs of a model, from its layers and the names in its signature."""

from __future__ import annotations

import ast
import inspect
import itertools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from types import FunctionType, MappingProxyType
from typing import TypeVar

import torch
from torch import nn

from flodl_verify.inputs.rules.bundled_inputs import Bundles, flat_names
from flodl_verify.inputs.rules.size_hints import Hints, sequence_shape
from flodl_verify.sources.class_sources import class_node
from flodl_verify.values.recipes import Arguments

MAX_GUESSES = 64
BATCH = 2
LENGTH = 7
T = TypeVar("T")

_IMAGE_SIZES = (32, 64, 28, 16, 8, 224, 96, 128)
_STATE_NAMES = frozenset({"h", "hx", "hidden", "state", "h0", "prev_hidden", "hidden_state"})
_TIME_NAMES = frozenset({"t", "time", "times", "timestep", "timesteps", "sigma", "noise_level"})
_LABEL_NAMES = frozenset({"label", "labels", "target", "targets", "y", "c", "cls", "class_labels"})
_LENGTH_NAMES = re.compile(r"(.*_)?(lengths?|lens?)")


def guess_arguments(
    model: nn.Module,
    hints: Hints | None = None,
    wanted: Sequence[str] = (),
    bundles: Bundles = MappingProxyType({}),
) -> Iterator[Arguments]:
    """Yield arguments that `model` might accept, likeliest first; the caller sets the seed.

    `hints` are sizes by name, such as `seq_len`; `wanted` are arguments that may be left out and are not.
    The inputs in `bundles` come one by one.
    """
    required, keywords = required_names(model)
    names = flat_names(required, bundles)
    keywords += wanted
    if not names and not keywords:
        yield (), {}
        return
    main = list(_deduplicated(_main_guesses(model, hints or {})))
    produced = 0
    for first in main:
        for others in _other_guesses((*names, *keywords)[1:], first, model):
            values = (first.clone(), *others)
            by_name = dict(zip(keywords, values[len(names) :], strict=True))
            yield values[: len(names)], by_name
            produced += 1
            if produced >= MAX_GUESSES:
                return


def optional_names(model: nn.Module) -> list[str]:
    """Return the arguments that are nothing unless they are given."""
    try:
        parameters = inspect.signature(_called(model)).parameters.values()
    except (TypeError, ValueError):
        return []
    return [item.name for item in parameters if item.default is None]


def has_forward(kind: type) -> bool:
    """Return True if a class of modules says what a call of it does; some are there to be extended only."""
    for each in kind.__mro__:
        if each is nn.Module:
            break
        node = class_node(each)
        own = {"forward", "__call__"} & vars(each).keys()
        if own == {"forward"} and _only_hands_on(vars(each)["forward"]):
            continue
        if own or (node is not None and _sets_forward(node)):
            return True
    return False


def _only_hands_on(forward: object) -> bool:
    """Return True for `return super().forward(...)` and `raise NotImplementedError`.

    The forward of `LightningModule` is one; that of a class above it decides.
    """
    names = set(forward.__code__.co_names) if isinstance(forward, FunctionType) else set()
    return bool(names) and names <= {"super", "forward", "NotImplementedError"}


def _sets_forward(node: ast.ClassDef) -> bool:
    """Return True if a constructor chooses the forward: `self.forward = self.forward_train`."""
    return any(
        isinstance(item, ast.Attribute)
        and item.attr == "forward"
        and isinstance(item.ctx, ast.Store)
        for item in ast.walk(node)
    )


def _called(model: nn.Module) -> Callable[..., object]:
    """Return the function that a call of the model runs: its forward, unless it has its own `__call__`."""
    for kind in type(model).__mro__:
        if kind is nn.Module:
            break
        if "__call__" in vars(kind):
            return model.__call__
    return model.forward


def required_names(model: nn.Module) -> tuple[list[str], list[str]]:
    """Return the arguments that have to be given, by position and by name."""
    try:
        parameters = inspect.signature(_called(model)).parameters.values()
    except (TypeError, ValueError):
        return ["x"], []
    positional = [
        item.name
        for item in parameters
        if item.default is item.empty
        and item.kind in {item.POSITIONAL_ONLY, item.POSITIONAL_OR_KEYWORD}
    ]
    variable = any(item.kind is item.VAR_POSITIONAL for item in parameters)
    keywords = [
        item.name
        for item in parameters
        if item.default is item.empty and item.kind is item.KEYWORD_ONLY
    ]
    return positional or (["x"] if variable else []), keywords


def _main_guesses(model: nn.Module, hints: Hints) -> Iterator[torch.Tensor]:
    sequence = sequence_shape(hints)
    leaves = [item for item in model.modules() if not any(True for _ in item.children())]
    shaped = [guesses for leaf in leaves[:6] if (guesses := list(_guess_for_layer(leaf)))]
    if sequence is not None and not (leaves and _is_settled(leaves[0])):
        yield torch.randn(BATCH, *sequence)
    for column in itertools.zip_longest(*shaped[:1]):
        yield from (item for item in column if item is not None)
    for column in itertools.zip_longest(*shaped[1:4]):
        yield from (item for item in column if item is not None)
    # A class may define its own `parameters` that takes nothing.
    for parameter in itertools.islice(nn.Module.parameters(model, recurse=False), 2):
        for size in parameter.shape:
            yield torch.randn(BATCH, size)
            yield torch.randn(BATCH, LENGTH, size)
            yield torch.randn(BATCH, size, 8, 8)
    for shape in (
        (BATCH, 3, 32, 32),
        (BATCH, 16, 16, 16),
        (BATCH, LENGTH, 16),
        (BATCH, 16),
        (BATCH,),
    ):
        yield torch.randn(shape)


def _is_settled(first: nn.Module) -> bool:
    """Return True if the first layer says by itself what a model takes: words, or pictures."""
    words = isinstance(first, nn.Embedding | nn.EmbeddingBag)
    return words or isinstance(first, nn.Conv2d | nn.Conv3d)


def _guess_for_layer(layer: nn.Module) -> Iterator[torch.Tensor]:
    if isinstance(layer, nn.Embedding | nn.EmbeddingBag):
        yield torch.randint(layer.num_embeddings, (BATCH, LENGTH))
        yield torch.randint(layer.num_embeddings, (BATCH,))
    elif isinstance(layer, nn.modules.conv._ConvNd):
        yield from _guess_for_convolution(layer)
    elif isinstance(layer, nn.Linear):
        yield from _guess_for_linear(layer.in_features)
    elif isinstance(layer, nn.RNNBase):
        shape = (BATCH, LENGTH) if layer.batch_first else (LENGTH, BATCH)
        yield torch.randn(*shape, layer.input_size)
    elif isinstance(layer, nn.RNNCellBase):
        yield torch.randn(BATCH, layer.input_size)
    elif isinstance(layer, nn.MultiheadAttention):
        yield torch.randn(BATCH, LENGTH, layer.embed_dim)
    elif isinstance(layer, nn.LayerNorm):
        yield torch.randn(BATCH, LENGTH, *layer.normalized_shape)
        yield torch.randn(BATCH, *layer.normalized_shape)
    elif isinstance(layer, nn.GroupNorm):
        yield torch.randn(BATCH, layer.num_channels, 16, 16)
    elif isinstance(layer, nn.modules.batchnorm._NormBase):
        yield from _guess_for_norm(layer)


def _guess_for_convolution(layer: nn.modules.conv._ConvNd) -> Iterator[torch.Tensor]:
    rank = len(layer.kernel_size)
    sizes: tuple[int, ...] = (4, 1, 8, 16, 32) if layer.transposed else _IMAGE_SIZES
    if rank == 3:
        sizes = (16, 8, 32)
    for size in sizes:
        yield torch.randn(BATCH, layer.in_channels, *([size] * rank))


def _guess_for_linear(in_features: int) -> Iterator[torch.Tensor]:
    yield torch.randn(BATCH, in_features)
    yield torch.randn(BATCH, LENGTH, in_features)
    for channels in (1, 3):
        side = math.isqrt(in_features // channels)
        if channels * side * side == in_features and side > 4:
            yield torch.randn(BATCH, channels, side, side)
    yield torch.randn(BATCH, 8, 8, in_features)


def _guess_for_norm(layer: nn.modules.batchnorm._NormBase) -> Iterator[torch.Tensor]:
    features = layer.num_features
    if isinstance(layer, nn.BatchNorm1d | nn.InstanceNorm1d):
        yield torch.randn(4, features)
        yield torch.randn(BATCH, features, 16)
    elif isinstance(layer, nn.BatchNorm3d | nn.InstanceNorm3d):
        yield torch.randn(BATCH, features, 8, 8, 8)
    else:
        yield torch.randn(BATCH, features, 16, 16)


def _other_guesses(
    names: Sequence[str], first: torch.Tensor, model: nn.Module
) -> Iterator[tuple[object, ...]]:
    options = [list(_guess_by_name(name, first, model)) for name in names]
    for choice in itertools.islice(itertools.product(*options), 6):
        yield tuple(item.clone() if isinstance(item, torch.Tensor) else item for item in choice)


def _guess_by_name(name: str, first: torch.Tensor, model: nn.Module) -> Iterator[object]:
    batch = first.shape[0] if first.dim() else 1
    if "mask" in name:
        yield torch.ones(first.shape[:2], dtype=torch.bool)
        yield None
    elif name in _STATE_NAMES:
        yield from _states(first, model)
    elif name in _TIME_NAMES:
        yield torch.randint(0, 10, (batch,))
        yield torch.rand(batch)
    elif name in _LABEL_NAMES:
        yield torch.randint(0, 2, (batch,))
    elif _LENGTH_NAMES.fullmatch(name):
        length = first.shape[1] if first.dim() > 1 else LENGTH
        yield torch.full((batch,), length)
    if first.is_floating_point():
        yield torch.randn_like(first)
        yield torch.randn(batch)
    else:
        yield first.flip(0)
        yield torch.ones(batch, LENGTH)


def _states(first: torch.Tensor, model: nn.Module) -> Iterator[object]:
    for layer in model.modules():
        if isinstance(layer, nn.RNNBase):
            batch = first.shape[0] if layer.batch_first else first.shape[min(1, first.dim() - 1)]
            rows = layer.num_layers * (2 if layer.bidirectional else 1)
            hidden = torch.randn(rows, batch, layer.hidden_size)
            yield (hidden, torch.randn_like(hidden)) if isinstance(layer, nn.LSTM) else hidden
        elif isinstance(layer, nn.RNNCellBase):
            hidden = torch.randn(first.shape[0], layer.hidden_size)
            yield (hidden, torch.randn_like(hidden)) if isinstance(layer, nn.LSTMCell) else hidden


def _deduplicated(tensors: Iterator[torch.Tensor]) -> Iterator[torch.Tensor]:
    seen: set[tuple[tuple[int, ...], torch.dtype]] = set()
    for item in tensors:
        key = (tuple(item.shape), item.dtype)
        if key not in seen:
            seen.add(key)
            yield item
