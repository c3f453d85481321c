"""Small convolutions as matrix products, which a compiled step can fuse with what is around them.

The kernels that torch calls for a convolution on a CPU are made for large ones: setting one up takes some
100 microseconds, which is all that a small one costs. A convolution is a product of its weights with a
matrix of the patches of its input. The strided kind makes large from small: forward in a transposed
convolution, backward in a plain one. It is such a product for all offsets within a stride at once.

Used while a step is recorded, as decompositions of the two operations that any convolution comes down to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import torch
from torch import Tensor

Sizes: TypeAlias = "Sequence[int]"
# Multiplications and additions of one forward up to which the products were faster, compiled; patches that
# are more than one place apart are slower to gather.
_MOST_OPERATIONS = 6_000_000
_MOST_OPERATIONS_STRIDED = 1_000_000


def lowered(device: torch.device) -> dict[Any, Callable[..., Any]]:
    """Return the replacements of convolutions while a step on a device is recorded."""
    if device.type != "cpu":
        return {}
    aten = torch.ops.aten
    return {
        aten.convolution.default: convolution,
        aten.convolution_backward.default: convolution_backward,
    }


@final
@dataclass(frozen=True, slots=True)
class Geometry:
    """The geometry of a convolution: the arguments of the operation, in its order."""

    stride: Sizes
    padding: Sizes
    dilation: Sizes
    transposed: bool
    output_padding: Sizes
    groups: int

    def size(self, x: Tensor, weight: Tensor) -> list[int]:
        """Return the size of the result in each direction."""
        each = zip(x.shape[2:], weight.shape[2:], self.stride, self.padding, strict=True)
        if not self.transposed:
            return [(h + 2 * p - k) // s + 1 for h, k, s, p in each]
        plain = [(h - 1) * s - 2 * p + k for h, k, s, p in each]
        return [h + extra for h, extra in zip(plain, self.output_padding, strict=True)]

    def is_small(self, x: Tensor, weight: Tensor, result: Sizes) -> bool:
        """Return True if products are possible, and the faster way."""
        plain = self.groups == 1 and all(each == 1 for each in self.dilation)
        known = x.dtype is weight.dtype is torch.float32
        rows = x.is_contiguous() and weight.is_contiguous()
        places = math.prod(x.shape[2:] if self.transposed else result)
        operations = 2 * x.shape[0] * places * weight.numel()
        strided = any(each > 1 for each in self.stride)
        most = _MOST_OPERATIONS_STRIDED if strided else _MOST_OPERATIONS
        return plain and known and rows and 0 < operations <= most


def convolution(x: Tensor, weight: Tensor, bias: Tensor | None, *how: Any) -> Tensor:
    """Return a convolution, plain or transposed; one that is not small is left to its kernel."""
    geometry = Geometry(*how)
    size = geometry.size(x, weight)
    if not geometry.is_small(x, weight, size):
        return NotImplemented  # type: ignore[no-any-return]
    turn = _spread if geometry.transposed else _drawn
    found = turn(x, weight, geometry, size)
    if bias is not None:
        found = found + bias.view(-1, *[1] * len(size))
    # A separate buffer: the next operation must not compute all of this again for each of its reads.
    found = found.contiguous()
    return found.as_strided(found.shape, found.stride())


def convolution_backward(
    gradient: Tensor, x: Tensor, weight: Tensor, _: Sizes | None, *how: Any
) -> tuple[Tensor | None, ...]:
    """Return the gradients of input, weight and bias; large ones are left to the kernel."""
    geometry, wanted = Geometry(*how[:-1]), how[-1]
    if not geometry.is_small(x, weight, gradient.shape[2:]):
        return NotImplemented  # type: ignore[no-any-return]
    channels = gradient.shape[1]
    # Read from here by all three, in place of computing it three times.
    rows = gradient.transpose(0, 1).reshape(channels, -1)
    gradient = rows.view(channels, gradient.shape[0], *gradient.shape[2:]).transpose(0, 1)
    of_input = of_weight = None
    small, large = (x, gradient) if geometry.transposed else (gradient, x)
    patches = _patches(large, weight.shape[2:], geometry.stride, geometry.padding, small.shape[2:])
    if wanted[1]:
        of_weight = torch.mm(small.transpose(0, 1).reshape(small.shape[1], -1), patches.t())
        of_weight = of_weight.view(weight.shape)
    if wanted[0] and geometry.transposed:
        of_input = _product(weight, patches, x.shape[0], x.shape[2:]).contiguous()
    elif wanted[0]:
        of_input = _spread(gradient, weight, geometry, x.shape[2:]).contiguous()
    return of_input, of_weight, rows.sum(1) if wanted[2] else None


def _patches(x: Tensor, kernel: Sizes, stride: Sizes, before: Sizes, counts: Sizes) -> Tensor:
    """Return a matrix whose columns are the patches of an input; its rows, channels and places in a patch.

    Args:
        x: batch, channels, and one or more directions.
        kernel: the size of a patch in each direction.
        stride: how far patches are apart.
        before: zeros before the first place; below zero, places that are left out.
        counts: how many patches there are in each direction.
    """
    spans = [(n - 1) * s + k for n, s, k in zip(counts, stride, kernel, strict=True)]
    after = [span - first - h for span, first, h in zip(spans, before, x.shape[2:], strict=True)]
    pads = [each for pair in reversed(list(zip(before, after, strict=True))) for each in pair]
    ways = len(kernel)
    if any(pads):
        x = torch.constant_pad_nd(x, pads)
    if any(pads) and min(pads) >= 0:
        # Strides make the compiler write the padded input once, instead of for each patch again.
        channel, batch, *steps = x.stride(1), x.stride(0), *x.stride()[2:]
        jumps = [s * step for s, step in zip(stride, steps, strict=True)]
        x = x.as_strided(
            [x.shape[1], *kernel, x.shape[0], *counts], [channel, *steps, batch, *jumps]
        )
    else:
        for way in range(ways):
            x = x.unfold(2 + way, kernel[way], stride[way])
        x = x.permute(1, *range(2 + ways, 2 + 2 * ways), 0, *range(2, 2 + ways))
    return x.reshape(math.prod(x.shape[: 1 + ways]), -1)


def _drawn(x: Tensor, weight: Tensor, geometry: Geometry, size: Sizes) -> Tensor:
    """Return the plain convolution: each place of the result draws on a patch."""
    patches = _patches(x, weight.shape[2:], geometry.stride, geometry.padding, size)
    return _product(weight, patches, x.shape[0], size)


def _product(weight: Tensor, patches: Tensor, batch: int, size: Sizes) -> Tensor:
    """Return the product of the weights and all patches, the batch first."""
    found = torch.mm(weight.reshape(weight.shape[0], -1), patches)
    return found.view(weight.shape[0], batch, *size).transpose(0, 1)


def _spread(x: Tensor, weight: Tensor, geometry: Geometry, size: Sizes) -> Tensor:
    """Return the transposed convolution: each place spreads over a patch of the result.

    Place `q * stride + r` of the result gets `weight[r + j * stride]` of place `q - j`: one convolution with
    a stride of one and a channel for each `r`, whose results are put side by side.
    """
    ways, stride, padding = len(size), geometry.stride, geometry.padding
    taps = [-(-k // s) for k, s in zip(weight.shape[2:], stride, strict=True)]
    first = [p // s for p, s in zip(padding, stride, strict=True)]
    ends = [-(-(p + h) // s) for p, h, s in zip(padding, size, stride, strict=True)]
    counts = [end - q for end, q in zip(ends, first, strict=True)]
    before = [t - 1 - q for t, q in zip(taps, first, strict=True)]
    patches = _patches(x, taps, [1] * ways, before, counts)
    found = torch.mm(_by_offset(weight, taps, stride), patches)
    found = found.view(weight.shape[1], *stride, x.shape[0], *counts)
    order = [1 + ways, 0]
    for way in range(ways):
        order += [2 + ways + way, 1 + way]
    wide = [n * s for n, s in zip(counts, stride, strict=True)]
    found = found.permute(order).reshape(x.shape[0], weight.shape[1], *wide)
    for way in range(ways):
        found = found.narrow(2 + way, padding[way] - first[way] * stride[way], size[way])
    return found


def _by_offset(weight: Tensor, taps: Sizes, stride: Sizes) -> Tensor:
    """Return the weights of a transposed convolution: channels and offsets by channels and taps."""
    ways = len(taps)
    short = [t * s - k for t, s, k in zip(taps, stride, weight.shape[2:], strict=True)]
    channels = weight.shape[1]
    if any(short):
        pads = [each for missing in reversed(short) for each in (0, missing)]
        weight = torch.constant_pad_nd(weight, pads)
    halves = [each for pair in zip(taps, stride, strict=True) for each in pair]
    weight = weight.reshape(weight.shape[0], channels, *halves)
    weight = weight.flip(list(range(2, 2 + 2 * ways, 2)))
    weight = weight.permute(1, *range(3, 3 + 2 * ways, 2), 0, *range(2, 2 + 2 * ways, 2))
    return weight.reshape(channels * math.prod(stride), -1)
