"""One built model on one side, and everything that can be seen of it when it is called."""

from __future__ import annotations

import contextlib
import math
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, final

import torch
from torch import nn

from flodl.pytree import Plain, Tree, Unseen
from flodl_verify.sandbox.isolated_import import Side
from flodl_verify.sandbox.seeds import random_state, seed_all
from flodl_verify.values import raw
from flodl_verify.values.recipes import Arguments, Construction, Packed, replace_tensors, unpack
from flodl_verify.values.snapshot import (
    FLOW_FIELDS,
    MODULE_FIELDS,
    Freezer,
    Snapshot,
    joined,
    tensors_in,
)

BUILD_SEED = 4321
LEARNING_RATE = 0.01
_NO_STATE = MODULE_FIELDS | FLOW_FIELDS
# So many numbers of noise are kept for the next calls, 64 MB at most; larger ones are drawn again.
_KEPT_NUMBERS = 1 << 23
_MISSING = "<missing>"

AttributeNames = tuple[tuple[str, tuple[str, ...]], ...]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of a model: its mode, inputs and seed, and whether a backward pass follows."""

    inputs: Packed
    seed: int
    mode: Literal["eval", "train"]
    backward: bool = False
    input_gradients: bool = False
    grad_mode: bool = True


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The observations of one call, by section: output, inputs, random draws, buffers, gradients ...

    `attribute_names` are the plain attributes that were looked at, `unread` those that the call did not
    set, and that cannot be looked into. `num_differentiable` counts the output tensors that a backward
    pass could start from.
    """

    sections: Mapping[str, Snapshot]
    attribute_names: AttributeNames
    num_tensors: int
    num_differentiable: int
    unread: tuple[str, ...]


@final
class Subject:
    """A model built on one side; all methods need that side to be active."""

    def __init__(self, side: Side, model: nn.Module, random_after_build: Snapshot) -> None:
        self.side = side
        self.model = model
        self._random_after_build = random_after_build

    @classmethod
    def build(cls, side: Side, construction: Construction) -> Subject:
        """Build the model under the fixed seed."""
        seed_all(BUILD_SEED)
        model = construction.build(side)
        return cls(side, model, Freezer().freeze(random_state(), "random draws"))

    def initial(self) -> dict[str, Snapshot]:
        """Return the state after the constructor: keys, order and bits of the state, random draws."""
        state = self.model.state_dict()
        parameters = [(name, p.requires_grad) for name, p in raw.named_parameters(self.model)]
        buffers = [name for name, _ in raw.named_buffers(self.model)]
        everything = dict(raw.named_parameters(self.model)) | dict(raw.named_buffers(self.model))
        return {
            "state_dict": Freezer().freeze(
                [_meta(name, item) for name, item in state.items()], ""
            ),
            "parameter order": Freezer().freeze(parameters, ""),
            "buffer order": Freezer().freeze(buffers, ""),
            "weights": Freezer().freeze(everything, ""),
            "random draws": self._random_after_build,
        }

    def call(self, call: Call, attribute_names: AttributeNames | None = None) -> Observation:
        """Call the model and freeze everything that the call could have changed."""
        self._begin(call)
        arguments, leaves = self._arguments(call)
        before = {path: dict(vars(module)) for path, module in raw.named_modules(self.model)}
        freezer = self._freezer_of(arguments)
        seed_all(call.seed)
        with torch.set_grad_enabled(call.grad_mode):
            args, kwargs = arguments
            output = self.model(*args, **kwargs)
            sections = {"random draws": Freezer().freeze(random_state(), "random draws")}
            sections["grad mode"] = Freezer().freeze(
                [torch.is_grad_enabled(), torch.get_default_dtype()], ""
            )
            # A caller runs a generator to its end.
            tree = freezer.flatten(output, "output", draw=True)
        sections["output"] = freezer.freeze_tree(tree)
        sections["inputs"] = freezer.freeze(arguments, "inputs")
        del freezer
        returned = tree.tensors()
        differentiable = [item for _, item in returned if item.requires_grad]
        if call.backward and differentiable:
            loss = scalar_loss(tree)
            sections["loss"] = Freezer().freeze(loss, "loss")
            raw.backward(loss)
            sections["gradients"] = freeze_gradients(raw.named_parameters(self.model))
            sections["input gradients"] = freeze_gradients(leaves)
        names = attribute_names if attribute_names is not None else self._attribute_names()
        sections["buffers"] = Freezer().freeze(dict(raw.named_buffers(self.model)), "buffers")
        sections["attributes"], unread = self._freeze_attributes(names, before)
        return Observation(
            sections=sections,
            attribute_names=names,
            num_tensors=sum(not raw.is_meta(item) for _, item in returned),
            num_differentiable=len(differentiable),
            unread=unread,
        )

    def rehearse(self, call: Call) -> None:
        """Do what `call` does, with the backward pass, and look at nothing but the output."""
        self._begin(call)
        (args, kwargs), _ = self._arguments(call)
        seed_all(call.seed)
        with torch.set_grad_enabled(call.grad_mode):
            tree = Freezer().flatten(self.model(*args, **kwargs), "output", draw=True)
        if call.backward and any(item.requires_grad for _, item in tree.tensors()):
            raw.backward(scalar_loss(tree))
            for _, parameter in raw.named_parameters(self.model):
                raw.set_grad(parameter, None)

    def _begin(self, call: Call) -> None:
        self.model.train(call.mode == "train")
        nn.Module.zero_grad(self.model)  # an override may take no arguments

    def call_method(self, name: str, arguments: Packed) -> dict[str, Snapshot]:
        """Call a method from outside, in eval mode; return its result and the random draws."""
        self.model.eval()
        args, kwargs = unpack(arguments, self.side)
        method = getattr(self.model, name)
        seed_all(7000)
        freezer = Freezer()
        result = method(*args, **kwargs)
        draws = Freezer().freeze(random_state(), "random draws")
        tree = freezer.flatten(result, "result", draw=True)
        return {"result": freezer.freeze_tree(tree), "random draws": draws}

    def train_steps(self, inputs: Packed, num_steps: int) -> dict[str, Snapshot]:
        """Take steps of SGD with momentum on the scalar loss; return losses and weights."""
        self.model.train()
        velocity: dict[str, torch.Tensor] = {}
        losses = []
        for step in range(num_steps):
            args, kwargs = _as_inside(unpack(inputs, self.side))
            seed_all(9000 + step)
            output = self.model(*args, **kwargs)
            loss = scalar_loss(Freezer().flatten(output, "output", draw=True))
            del output
            nn.Module.zero_grad(self.model)
            raw.backward(loss)
            self._descend(velocity)
            losses.append(loss.detach())
        velocity.clear()
        everything = dict(raw.named_parameters(self.model)) | dict(raw.named_buffers(self.model))
        return {
            "losses": Freezer().freeze(losses, "losses"),
            "weights": Freezer().freeze(everything, "weights"),
        }

    def _descend(self, velocity: dict[str, torch.Tensor]) -> None:
        # By hand: torch.optim would import the compiler, which costs seconds.
        with raw.without_gradients():
            for name, parameter in raw.named_parameters(self.model):
                gradient = raw.grad(parameter)
                if gradient is None:
                    continue
                raw.set_grad(parameter, None)
                known = velocity.get(name)
                if known is None:
                    velocity[name] = moved = raw.clone(gradient)
                else:
                    moved = raw.add_(raw.mul_(known, 0.9), gradient)
                raw.add_(parameter, moved, alpha=-LEARNING_RATE)

    def perturb(self) -> None:
        """Move every weight a little, so that zeros and ones of an initialisation hide nothing."""
        with torch.no_grad():
            for name, parameter in raw.named_parameters(self.model):
                if parameter.is_floating_point():
                    noise = _noise(name, parameter)
                    shift = noise.flip(0).mul_(0.02) if noise.dim() else torch.zeros(())
                    parameter.mul_(noise.mul_(0.1).add_(1)).add_(shift)
            for name, module in raw.named_modules(self.model):
                if isinstance(module, nn.modules.batchnorm._NormBase):
                    _perturb_statistics(name, module)

    def _arguments(self, call: Call) -> tuple[Arguments, list[tuple[str, torch.Tensor]]]:
        args, kwargs = unpack(call.inputs, self.side)
        if not call.input_gradients:
            return (args, kwargs), []
        leaves: list[tuple[str, torch.Tensor]] = []
        swapped = {}
        for path, tensor in tensors_in((args, kwargs)):
            if tensor.is_floating_point() or tensor.is_complex():
                leaf = tensor.detach().requires_grad_()
                leaves.append((path, leaf))
                # Not the leaf itself: writing into it in place is an error, into its copy not.
                swapped[id(tensor)] = leaf.clone()
        return replace_tensors((args, kwargs), swapped), leaves

    def _freezer_of(self, arguments: Arguments) -> Freezer:
        """Return a freezer that knows what a call is given, and what belongs to the model."""
        freezer = Freezer()
        freezer.know((f"input{path}", item) for path, item in tensors_in(arguments))
        freezer.know(raw.named_parameters(self.model))
        freezer.know(raw.named_buffers(self.model))
        freezer.name(self._modules())
        return freezer

    def _modules(self) -> Iterator[tuple[str, nn.Module]]:
        for path, module in raw.named_modules(self.model):
            yield f"the module {path}" if path else "the model", module

    def _attribute_names(self) -> AttributeNames:
        names = []
        for path, module in raw.named_modules(self.model):
            own = tuple(name for name in vars(module) if name not in _NO_STATE)
            if own:
                names.append((path, own))
        return tuple(names)

    def _freeze_attributes(
        self, names: AttributeNames, before: Mapping[str, Mapping[str, object]]
    ) -> tuple[Snapshot, tuple[str, ...]]:
        """Freeze attributes of modules; also name those that no call set and nothing can look into."""
        modules = dict(raw.named_modules(self.model))
        found: dict[str, object] = {}
        untouched = set()
        for path, attributes in names:
            own = vars(modules[path]) if path in modules else {}
            for name in attributes:
                key = f"{path}.{name}" if path else name
                found[key] = value = own.get(name, _MISSING)
                if value is before.get(path, {}).get(name, _MISSING):
                    untouched.add(key)
        freezer = Freezer(aliases=False)
        freezer.name(self._modules())
        freezer.name((f"the parameter {name}", item) for name, item in self._parameters())
        freezer.name((f"the buffer {name}", item) for name, item in raw.named_buffers(self.model))
        return _without(freezer.freeze(found, "attributes"), untouched)

    def _parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        return raw.named_parameters(self.model)


def _without(snapshot: Snapshot, names: set[str]) -> tuple[Snapshot, tuple[str, ...]]:
    """Leave out what is unseen below some of the items; return the names of those items."""
    tops: list[str] = []
    parts = []
    unread: dict[str, None] = {}
    for part in snapshot.parts:
        top = part.key if part.parent <= 0 else tops[part.parent]
        tops.append(top)
        if isinstance(part.content, Unseen) and top in names:
            unread[f"{top} ({part.kind})"] = None
            parts.append(part._replace(content=Plain("not compared")))
        else:
            parts.append(part)
    return Snapshot(tuple(parts)), tuple(unread)


def _as_inside(arguments: Arguments) -> Arguments:
    """Return arguments of which tensors in another memory format need gradients.

    Such tensors come from inside of a network, where they do. In torch 2.13 the backward pass of
    `nn.GroupNorm` ends the process for one that is `channels_last` and needs none.
    """
    inside = {
        id(item): item.detach().requires_grad_().clone()
        for _, item in tensors_in(arguments)
        if item.is_floating_point() and item.layout == torch.strided and not item.is_contiguous()
    }
    return replace_tensors(arguments, inside) if inside else arguments


def scalar_loss(output: Tree) -> torch.Tensor:
    """Weigh every differentiable output tensor with fixed noise and add all up.

    Raises:
        ValueError: no output tensor requires a gradient.
    """
    total: torch.Tensor | None = None
    for number, (_, item) in enumerate(output.tensors()):
        if not item.requires_grad or item.numel() == 0:
            continue
        real = raw.differentiable(item)
        weights = _fixed_noise(77 + number, tuple(real.shape), torch.float64).to(real.dtype)
        part = raw.weighted_sum(real, weights, max(real.numel(), 1) ** 0.5)
        total = part if total is None else total + part.to(total.dtype)
    if total is None:
        raise ValueError("no output tensor requires a gradient")
    return total


def freeze_gradients(named: Iterable[tuple[str, torch.Tensor]]) -> Snapshot:
    """Freeze the gradients of named tensors and free them; a missing gradient is a distinct value.

    Of a large model they would need as much memory again, on each side, as its weights do.
    """
    frozen = []
    for name, item in named:
        # A freezer keeps what it froze.
        frozen.append((name, Freezer(aliases=False).freeze(raw.grad(item), name)))
        raw.set_grad(item, None)
    return joined("dict", frozen)


@contextlib.contextmanager
def both(*subjects: Subject) -> Iterator[tuple[nn.Module, ...]]:
    """Activate the sides of several subjects at once, to move state between their models."""
    with contextlib.ExitStack() as stack:
        for subject in subjects:
            stack.enter_context(subject.side.active())
        yield tuple(subject.model for subject in subjects)


def _meta(name: str, item: object) -> tuple[str, object]:
    return name, f"{item.dtype} {tuple(item.shape)}" if isinstance(item, torch.Tensor) else item


def _noise(name: str, like: torch.Tensor) -> torch.Tensor:
    drawn = torch.float32 if like.dtype == torch.float32 else torch.float64
    noise = _fixed_noise(zlib.crc32(name.encode()), tuple(like.shape), drawn)
    return noise.to(like.dtype, copy=True)  # the callers write into it


def _fixed_noise(seed: int, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Return the same normal noise for the same seed; callers must not write into it."""
    return _KEPT.noise(seed, shape, dtype)


@final
class KeptNoise:
    """Normal noise by seed, shape and type, of which the latest is kept up to a number of numbers.

    A class is called some fifty times, each time with noise for the same outputs and weights.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[tuple[int, tuple[int, ...], torch.dtype], torch.Tensor] = (
            OrderedDict()
        )
        self.size = 0

    def noise(self, seed: int, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """Return the noise, which callers must not write into."""
        key = seed, shape, dtype
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        generator = torch.Generator().manual_seed(seed)
        drawn = torch.randn(shape, generator=generator, dtype=dtype)
        self._kept[key] = drawn
        self.size += math.prod(shape)
        while self.size > self._most:
            (_, oldest, _), _ = self._kept.popitem(last=False)
            self.size -= math.prod(oldest)
        return drawn


_KEPT = KeptNoise(_KEPT_NUMBERS)


def _perturb_statistics(name: str, module: nn.Module) -> None:
    for key, buffer in module.named_buffers(recurse=False):
        if not buffer.is_floating_point():
            continue
        noise = _noise(f"{name}.{key}", buffer)
        if key.endswith("var"):
            buffer.mul_(1 + 0.3 * torch.sigmoid(noise))
        else:
            buffer.add_(0.1 * noise)
