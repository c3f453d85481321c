"""Changes of what a model is called with, and of what else it is used for."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map

from benchmarks.world_mutation.changes import Found, aside, given, one_of_each_kind
from benchmarks.world_mutation.families import Shape
from benchmarks.world_mutation.side import Side
from benchmarks.world_mutation.state_changes import cast

Arguments = dict[str, Any]


def sizes(side: Side) -> Found:
    """Return calls with other numbers of samples, tokens and pixels."""
    base = side.shape
    before = _shapes(_inputs(side, base))
    for name, shape in (
        ("one sample", Shape(batch=1)),
        ("three samples", Shape(batch=3)),
        ("shorter", Shape(length=5)),
        ("longer", Shape(length=12)),
        ("larger images", Shape(image=2 * base.image)),
        ("one sample, longer", Shape(batch=1, length=9)),
    ):
        if _shapes(_inputs(side, shape)) != before:
            yield name, aside(shape=shape)
    yield "many sizes", _many_sizes


def _inputs(side: Side, shape: Shape) -> Arguments:
    return side.family.inputs(shape, getattr(side.model, "config", None))


def _shapes(found: Arguments) -> list[Any]:
    return [value.shape for value in found.values() if isinstance(value, torch.Tensor)]


def _many_sizes(side: Side) -> None:
    for batch in (1, 3, 4):
        for length in (5, 6, 8, 9):
            side.shape = Shape(batch=batch, length=length)
            with torch.no_grad():
                side.model.eval()(**side.arguments())


def arguments(side: Side) -> Found:
    """Return calls with more, fewer and other arguments."""
    before = _inputs(side, side.shape)
    takes = set(inspect.signature(type(side.model).forward).parameters)
    for name in before if len(before) > 1 else ():
        yield f"without {name}", aside(dropped=(name,))
    for name in ("output_attentions", "output_hidden_states", "use_cache", "output_router_logits"):
        if takes & {name, "kwargs"}:
            yield f"{name}=True", given(**{name: True})
            yield f"{name}=False", given(**{name: False})
    if takes & {"return_dict", "kwargs"}:
        yield "return_dict=False", given(return_dict=False)
    if takes & {"past_key_values", "kwargs"}:
        yield "a cache from an earlier call", aside(call=_with_cache)
    yield "arguments by position", aside(call=_by_position)
    for name, needs, change in _PREPARED:
        if needs <= takes and ("pixel_values" in before or "input_ids" in before):
            yield name, change


def _before(change: Callable[[Arguments], Arguments]) -> Callable[[Side], object]:
    return aside(before=change)


def _unmasked(found: Arguments) -> Arguments:
    return {**found, "attention_mask": torch.ones_like(found["attention_mask"])}


def _bool_mask(found: Arguments) -> Arguments:
    return {**found, "attention_mask": found["attention_mask"].bool()}


def _embedded(side: Side) -> None:
    def before(found: Arguments) -> Arguments:
        found = dict(found)
        model: Any = side.model
        with torch.no_grad():
            vectors = model.get_input_embeddings()(found.pop("input_ids"))
        return {**found, "inputs_embeds": vectors.detach().clone()}

    side.before = before


def _typed(found: Arguments) -> Arguments:
    kinds = torch.zeros_like(found["input_ids"])
    kinds[:, 3:] = 1
    return {**found, "token_type_ids": kinds}


def _placed(found: Arguments) -> Arguments:
    places = torch.arange(found["input_ids"].shape[1]).flip(0)
    return {**found, "position_ids": places.expand(found["input_ids"].shape).contiguous()}


def _head_masked(side: Side) -> None:
    config: Any = side.model.config
    mask = torch.ones(config.num_hidden_layers, config.num_attention_heads)
    mask[0, 0] = 0
    side.given["head_mask"] = mask


def _interpolated(side: Side) -> None:
    side.given["interpolate_pos_encoding"] = True
    side.shape = Shape(image=48)


# What is called how, what the model must take for that, and the change.
_PREPARED: tuple[tuple[str, set[str], Callable[[Side], object]], ...] = (
    ("nothing masked", {"attention_mask"}, _before(_unmasked)),
    ("mask of bools", {"attention_mask"}, _before(_bool_mask)),
    ("inputs_embeds", {"inputs_embeds", "input_ids"}, _embedded),
    ("token_type_ids", {"token_type_ids", "input_ids"}, _before(_typed)),
    ("position_ids", {"position_ids", "input_ids"}, _before(_placed)),
    ("head_mask", {"head_mask"}, _head_masked),
    (
        "everything returned",
        {"output_attentions", "output_hidden_states"},
        given(output_attentions=True, output_hidden_states=True),
    ),
    ("interpolate_pos_encoding", {"interpolate_pos_encoding"}, _interpolated),
    ("bool_masked_pos", {"bool_masked_pos"}, given(bool_masked_pos=torch.ones(2, 16) > 0)),
)


def _with_cache(model: Any, found: Arguments) -> Any:
    first = model(**found, use_cache=True)
    past = getattr(first, "past_key_values", None) or first.cache_params
    more = {key: value for key, value in found.items() if key != "labels"}
    is_pair = getattr(model.config, "is_encoder_decoder", False)
    more["decoder_input_ids" if is_pair else "input_ids"] = torch.full(
        (found["input_ids"].shape[0], 1), 7
    )
    if not is_pair and "attention_mask" in more:
        mask = more["attention_mask"]
        more["attention_mask"] = torch.cat([mask, torch.ones_like(mask[:, :1])], dim=1)
    return first, model(**more, past_key_values=past, use_cache=True)


def _by_position(model: nn.Module, found: Arguments) -> Any:
    first, *rest = found.items()
    return model(first[1], **dict(rest))


# ---- further uses -----------------------------------------------------------------------------------


def uses(side: Side) -> Found:
    """Return what a model is used for besides its forward."""
    if side.family.generates:
        for name, settings in (
            ("greedy", {}),
            ("by drawing", {"do_sample": True}),
            ("by beams", {"num_beams": 2}),
            ("without a cache", {"use_cache": False}),
        ):
            yield f"generate {name}", aside(further=[_generating(settings)])
        yield "generate in bfloat16", _generated_in_bfloat16
    yield "one module of each kind called alone", _alone


def _generating(settings: Arguments) -> Callable[[Any, Arguments], Any]:
    def use(model: Any, found: Arguments) -> Any:
        rest = {key: value for key, value in found.items() if key != "labels"}
        return model.generate(**rest, max_new_tokens=4, min_new_tokens=2, **settings)

    return use


def _generated_in_bfloat16(side: Side) -> None:
    cast(torch.bfloat16)(side)
    side.further = [_generating({})]


def _alone(side: Side) -> None:
    """Call one module of each kind with the arguments that it gets inside the model."""
    caught: dict[str, tuple[Any, Any]] = {}
    handles = []
    for path, module in one_of_each_kind(side.model, side.home.__name__)[1:]:

        def hook(_: nn.Module, args: Any, kwargs: Any, p: str = path) -> None:
            # A list that the model fills later is what it is now.
            caught.setdefault(p, tree_map(lambda item: item, (args, kwargs)))

        handles.append(module.register_forward_pre_hook(hook, with_kwargs=True))
    side.model.eval()(**side.arguments())
    for handle in handles:
        handle.remove()
    for path, (args, kwargs) in caught.items():
        side.further.append(
            lambda model, _, p=path, a=args, k=kwargs: model.get_submodule(p)(*a, **k)
        )
