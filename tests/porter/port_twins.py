"""A program and its port as `--no-verify` would write it, built alike and called side by side.

    twins = Twins(porter, tmp_path, text)      # class Net of the text, and of its port
    twins.call(torch.ones(2, 4))               # same results, strides, gradients and random state

Nothing is proved in between: a port that is only right because a proof would put it back fails here.
"""

import copy
import dataclasses
import importlib.util
import itertools
import random
import sys

import torch
from torch import nn

_numbers = itertools.count()


class Twins:
    """The original and the port of one text; `make` is the expression that constructs the model."""

    def __init__(self, porter, folder, text, make="Net()"):
        self.text = porter.text(text)
        number = next(_numbers)
        self.modules = [
            load(folder / f"twins_{number}_{side}.py", source)
            for side, source in (("original", text), ("port", self.text))
        ]
        self.models = []
        for module in self.modules:
            torch.manual_seed(7)
            self.models.append(eval(make, vars(module)))  # the tests' own text

    def each(self, change):
        """Do the same to both models, under one seed."""
        for model in self.models:
            torch.manual_seed(11)
            change(model)

    def train(self, on=True):
        self.each(lambda model: model.train(on))

    def call(self, *inputs, seed=3, gradients=True, **named):
        """Call both with copies of the same inputs and require that nothing tells them apart."""
        sides = [(copied(inputs), copied(named)) for _ in self.models]
        return self.call_each(sides, seed=seed, gradients=gradients)

    def call_each(self, sides, *, seed=3, gradients=True):
        """Call each model with inputs of its own."""
        found = [
            outcome(model, inputs, named, seed, gradients=gradients)
            for model, (inputs, named) in zip(self.models, sides, strict=True)
        ]
        assert found[0] == found[1], (
            f"original and port differ:\n{found[0]}\n{found[1]}\n{self.text}"
        )
        return found[0]

    def repeat(self, times=3, shape=(2, 4), **options):
        """Call both several times on fresh inputs, and require that the original works."""
        torch.manual_seed(5)
        for _ in range(times):
            ends = self.call(torch.randn(shape), **options)
            assert ends[0] == "returns", ends


def load(path, text):
    """Write a module and import it."""
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def copied(value):
    """Return inputs that share no memory with the given ones and have the same strides."""
    if isinstance(value, torch.Tensor):
        made = torch.empty_strided(
            value.size(), value.stride(), dtype=value.dtype, device=value.device
        )
        if 0 in value.stride():  # expanded memory cannot be written to: take all of its storage
            count = value.untyped_storage().nbytes() // value.element_size()
            whole = value.detach().as_strided((count,), (1,), 0)
            made = whole.clone().as_strided(value.size(), value.stride(), value.storage_offset())
        else:
            made.copy_(value.detach())
        return made.requires_grad_(value.requires_grad)
    if type(value) in (list, tuple):
        return type(value)(copied(item) for item in value)
    if type(value) is dict:
        return {key: copied(item) for key, item in value.items()}
    return copy.deepcopy(value)


def outcome(model, inputs, named, seed, *, gradients):
    """Return all that a call does: result or error, gradients, buffers, inputs, random state."""
    torch.manual_seed(seed)
    random.seed(seed)
    model.zero_grad(set_to_none=True)
    try:
        result = model(*inputs, **named)
    except Exception as error:
        return "raises", type(error).__name__, str(error)
    seen = seen_in(result)
    found = [("result", seen), ("random", torch.rand(1).item(), random.random())]
    floats = [each for each in tensors_in(result) if each.requires_grad]
    if gradients and floats:
        torch.manual_seed(seed)
        try:
            sum((each * torch.rand_like(each)).sum() for each in floats).backward()
        except RuntimeError as error:
            found.append(("backward raises", str(error)))
        found += [(name, seen_in(each.grad)) for name, each in model.named_parameters()]
    found += [(name, seen_in(each)) for name, each in model.named_buffers()]
    found.append(("inputs", seen_in(inputs), seen_in(named)))
    return "returns", *found


def seen_in(value, depth=8):
    """Return a value as plain data: of a tensor its bits, strides and type."""
    if isinstance(value, torch.Tensor):
        plain = value.detach()
        bits = torch.empty(plain.numel(), dtype=plain.dtype)
        bits = bits.copy_(plain.flatten()) if not plain.is_quantized else plain.flatten()
        bits = bits.view(torch.uint8).tolist() if bits.numel() and not plain.is_quantized else []
        kind = "Parameter" if isinstance(value, nn.Parameter) else "Tensor"
        return (
            kind,
            str(value.dtype),
            tuple(value.shape),
            value.stride(),
            value.requires_grad,
            bits,
        )
    if depth == 0 or isinstance(value, (nn.Module, type)):
        return type(value).__name__
    if isinstance(value, dict):
        return type(value).__name__, [(repr(k), seen_in(v, depth - 1)) for k, v in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [seen_in(item, depth - 1) for item in value]
    if dataclasses.is_dataclass(value) or hasattr(value, "__dict__"):
        return type(value).__name__, seen_in(vars(value), depth - 1)
    return type(value).__name__, repr(value)


def tensors_in(value, depth=8):
    """Yield the tensors of a result."""
    if isinstance(value, torch.Tensor):
        yield value
    elif depth and isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item, depth - 1)
    elif depth and isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item, depth - 1)
    elif depth and hasattr(value, "__dict__") and not isinstance(value, (nn.Module, type)):
        yield from tensors_in(vars(value), depth - 1)
