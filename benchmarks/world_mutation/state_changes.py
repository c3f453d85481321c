"""Changes of weights and buffers, of precision, of modes, and copies of a whole model."""

from __future__ import annotations

import copy
import io
import pickle
import tempfile
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from benchmarks.world_mutation.changes import Found, aside, on, one_of_each_kind, put, submodule
from benchmarks.world_mutation.families import noise
from benchmarks.world_mutation.side import Side

_MORE_TOKENS = 70


def weights(side: Side) -> Found:
    """Return changes of parameters and buffers."""
    model = side.model
    yield "load_state_dict", _loaded(assign=False)
    yield "load_state_dict(assign=True)", _loaded(assign=True)
    yield "load_state_dict(assign=True) of doubles", _loaded(assign=True, dtype=torch.float64)
    seen: set[tuple[str, str]] = set()
    for path, module in model.named_modules():
        for name, value in module.named_parameters(recurse=False):
            if (type(module).__name__, name) not in seen and len(seen) < 8:
                seen.add((type(module).__name__, name))
                yield from _of_parameter(path, name, value)
    for full, value in list(model.named_buffers())[:6]:
        path, _, name = full.rpartition(".")
        other = _other(value)
        yield f"buffer {full} set", put(path, name, other)
        yield f"buffer {full} registered", _registered(path, name, other)
        yield f"buffer {full} written", lambda s, n=full: s.model.get_buffer(n).add_(1)
    yield "all parameters frozen", lambda s: s.model.requires_grad_(False)
    yield "all parameters written", written
    yield "weights trained", _trained


def _loaded(*, assign: bool, dtype: torch.dtype | None = None) -> Callable[[Side], object]:
    def apply(side: Side) -> None:
        state = {}
        for key, value in side.model.state_dict().items():
            new = value * 1.5 if value.is_floating_point() else value.clone()
            state[key] = new.to(dtype) if dtype and new.is_floating_point() else new
        side.model.load_state_dict(state, assign=assign)

    return apply


def _other(value: torch.Tensor) -> torch.Tensor:
    """Return other values of the same kind; numbers of places stay numbers of places."""
    return value.flip(-1) if value.dim() and not value.is_floating_point() else value * 0.5


def _registered(path: str, name: str, value: torch.Tensor) -> Callable[[Side], object]:
    return on(path, lambda module: module.register_buffer(name, value.clone()))


def _of_parameter(path: str, name: str, value: torch.Tensor) -> Found:
    full = f"{path}.{name}"
    new = value.detach() * 0.5 + 0.1

    def data(side: Side) -> None:
        getattr(submodule(side, path), name).data = new.clone()

    yield (
        f"parameter {full} exchanged",
        on(path, lambda m: setattr(m, name, nn.Parameter(new.clone()))),
    )
    yield f"data of {full} exchanged", data
    yield f"parameter {full} frozen", on(path, lambda m: getattr(m, name).requires_grad_(False))
    if name == "bias":
        yield f"parameter {full} set to None", put(path, name, None)


def written(side: Side) -> None:
    """Write to each parameter, as an optimizer does."""
    with torch.no_grad():
        for parameter in side.model.parameters():
            parameter.mul_(0.9)


def _trained(side: Side) -> None:
    optimizer = torch.optim.SGD(side.model.parameters(), lr=0.01, momentum=0.9)
    for parameter in side.model.parameters():
        parameter.grad = parameter.detach().clone()
    optimizer.step()


# ---- precision --------------------------------------------------------------------------------------


def cast(dtype: torch.dtype) -> Callable[[Side], object]:
    """Return a change that casts a model, and floating-point arguments with it."""

    def casting(found: dict[str, Any]) -> dict[str, Any]:
        return {key: _cast(value, dtype) for key, value in found.items()}

    def apply(side: Side) -> None:
        side.model.to(dtype)
        side.before = casting

    return apply


def _cast(value: Any, dtype: torch.dtype) -> Any:
    is_float = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.to(dtype) if is_float else value


def precision(side: Side) -> Found:
    """Return changes of the kind of numbers, and of their order in memory."""
    yield "half", cast(torch.float16)
    yield "bfloat16", cast(torch.bfloat16)
    yield "double", cast(torch.float64)
    yield "half and back", lambda s: s.model.half().float()
    yield "autocast to bfloat16", aside(around=lambda: torch.autocast("cpu", torch.bfloat16))
    yield "default dtype double", lambda _: torch.set_default_dtype(torch.float64)
    if side.arguments().keys() & {"pixel_values", "x"}:
        yield "channels_last model", lambda s: s.model.to(memory_format=torch.channels_last)
        yield "channels_last images", aside(before=_images(_channels_last))
        yield "strided images", aside(before=_images(lambda image: image.transpose(-1, -2)))


def _channels_last(image: torch.Tensor) -> torch.Tensor:
    return image.contiguous(memory_format=torch.channels_last)


def _images(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Any], Any]:
    def before(found: dict[str, Any]) -> dict[str, Any]:
        return {
            key: change(value) if isinstance(value, torch.Tensor) and value.dim() == 4 else value
            for key, value in found.items()
        }

    return before


# ---- modes ------------------------------------------------------------------------------------------


def modes(side: Side) -> Found:
    """Return changes of the modes that calls run in."""
    yield "inference mode", aside(around=torch.inference_mode)
    yield "no_grad", aside(around=torch.no_grad)
    yield "enable_grad", aside(around=torch.enable_grad)
    yield "deterministic algorithms", _deterministic
    yield "another seed", aside(seed=77)
    for path, module in one_of_each_kind(side.model, side.home.__name__)[:6]:
        if path and any(isinstance(m, nn.Dropout) for m in module.modules()):
            yield f"{path} stays in eval mode", _stays(path, training=False)
            yield f"{path} stays in train mode", _stays(path, training=True)
    if getattr(side.model, "supports_gradient_checkpointing", False):
        reentrant = {"use_reentrant": True}
        yield "gradient checkpointing", lambda s: s.model.gradient_checkpointing_enable()
        yield (
            "gradient checkpointing, reentrant",
            lambda s: s.model.gradient_checkpointing_enable(reentrant),
        )
        yield "gradient checkpointing and back", _checkpointed_and_back
    yield "sdpa as plain math", aside(around=_plain_math)
    yield "functional_call", aside(call=_functional)


def _deterministic(_: Side) -> None:
    torch.use_deterministic_algorithms(True, warn_only=True)


def _stays(path: str, *, training: bool) -> Callable[[Side], object]:
    def apply(side: Side) -> None:
        submodule(side, path).train(training)
        side.modes[path] = training

    return apply


def _checkpointed_and_back(side: Side) -> None:
    side.model.gradient_checkpointing_enable()
    side.model.train()(**side.arguments())
    side.model.gradient_checkpointing_disable()


def _plain_math() -> Any:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    return sdpa_kernel(SDPBackend.MATH)


def _functional(model: nn.Module, arguments: dict[str, Any]) -> Any:
    other = {key: value * 1.5 for key, value in model.named_parameters()}
    return torch.func.functional_call(model, other, (), arguments)


# ---- copies -----------------------------------------------------------------------------------------


def copies(side: Side) -> Found:
    """Return changes after which a copy of the model is called."""
    yield "deepcopy", lambda s: setattr(s, "model", copy.deepcopy(s.model))
    yield "deepcopy, then changed", _copied_then_changed
    yield "pickle", lambda s: setattr(s, "model", pickle.loads(pickle.dumps(s.model)))
    yield "torch.save and load", _saved
    if "save_pretrained" in dir(side.model):
        yield "save_pretrained and from_pretrained", _pretrained
        yield "embeddings resized", lambda s: s.model.resize_token_embeddings(_MORE_TOKENS)
        yield "embeddings set", _embeddings_set
        yield "heads pruned", lambda s: s.model.prune_heads({0: [0]})


def _copied_then_changed(side: Side) -> None:
    before = side.model
    side.model = copy.deepcopy(before)
    written(side)
    for parameter in before.parameters():
        parameter.data.zero_()


def _saved(side: Side) -> None:
    stream = io.BytesIO()
    torch.save(side.model, stream)
    stream.seek(0)
    side.model = torch.load(stream, weights_only=False)


def _pretrained(side: Side) -> None:
    with tempfile.TemporaryDirectory(prefix="world-") as folder:
        model: Any = side.model
        model.save_pretrained(folder)
        side.model = type(model).from_pretrained(folder)


def _embeddings_set(side: Side) -> None:
    model: Any = side.model
    old = model.get_input_embeddings()
    made = nn.Embedding(old.num_embeddings, old.embedding_dim)
    with torch.no_grad():
        made.weight.copy_(noise(*made.weight.shape) * 0.1)
    model.set_input_embeddings(made)
