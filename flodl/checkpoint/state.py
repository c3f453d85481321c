"""Any state made of tables, lists, plain values and tensors, as a sealed file: never a pickle."""

from __future__ import annotations

import json
from typing import Any, Final, final

from torch import Tensor

from flodl.checkpoint.contents import AbstractContents, Source, open_contents, stored_table
from flodl.checkpoint.store import Target, write
from flodl.errors import CheckpointError

__all__ = ["Source", "Target", "encode", "load_state", "save_state"]

_STATE: Final = "fdl.state"
_OF: Final = "fdl.state_of"
_PLAIN: Final = (type(None), bool, int, float, str)


def save_state(target: Target, state: object, *, of: str) -> None:
    """Write a state; `of` names what it belongs to, such as the class of an optimizer.

    Raises:
        CheckpointError: the state holds an object without a plain form, or the file cannot be written.
    """
    tensors: dict[str, Tensor] = {}
    text = json.dumps(encode(state, "state", tensors))
    write(target, tensors, {_STATE: text, _OF: of}, kind="state")


def load_state(source: Source, *, of: str) -> Any:
    """Read a state that was saved for the same kind of thing.

    Raises:
        CheckpointError: the file is damaged, holds no state, or the state of something else.
    """
    contents = open_contents(source)
    found = contents.metadata.get(_OF)
    if found is None:
        raise CheckpointError(
            "the file holds no state; was it written by save_state?", path=contents.path
        )
    if found != of:
        raise CheckpointError(
            f"the file holds the state of {found}, not of {of}", path=contents.path
        )
    contents.require_sound()
    return decode_text(contents.metadata.get(_STATE, ""), contents)


# ---- plain form ------------------------------------------------------------------------------------


def encode(value: object, path: str, tensors: dict[str, Tensor]) -> Any:
    """Return the JSON form of a state; its tensors are put aside under their paths.

    Raises:
        CheckpointError: an object has no plain form.
    """
    if isinstance(value, Tensor):
        name = path
        while name in tensors:  # keys 1 and "1" have one path
            name += "'"
        tensors[name] = value
        return {"tensor": name}
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, list | tuple):
        items = [encode(each, f"{path}/{index}", tensors) for index, each in enumerate(value)]
        return {"tuple" if isinstance(value, tuple) else "list": items}
    if isinstance(value, dict):
        pairs = [
            [encode(key, path, tensors), encode(each, f"{path}/{key}", tensors)]
            for key, each in value.items()
        ]
        return {"dict": pairs}
    raise CheckpointError(
        f"the state holds a {type(value).__name__} at {path}, which has no plain form; "
        "numbers, texts, lists, tables and tensors do"
    )


def decode_text(text: str, contents: AbstractContents) -> Any:
    """Return the state whose JSON form is given.

    Raises:
        CheckpointError: the text is not such a form.
    """
    try:
        return _Decoder(contents).decode(json.loads(text))
    except (ValueError, RecursionError, TypeError, KeyError) as error:
        raise CheckpointError(
            f"the stored state is not readable: {error!r}", path=contents.path
        ) from error


@final
class _Decoder:
    """Makes a state from its JSON form; tensors are copies, and tied ones share theirs as they did."""

    def __init__(self, contents: AbstractContents) -> None:
        self._contents = contents
        self._tied = stored_table(contents.metadata, "fdl.tied", contents.path)
        # One copy for each stored tensor: a text that names one tensor a million times takes no memory.
        self._copies: dict[str, Tensor] = {}

    def decode(self, form: Any) -> Any:
        """Return the state of a form."""
        if not isinstance(form, dict):
            if isinstance(form, list):
                raise TypeError("a list without its kind")
            return form
        ((kind, inner),) = form.items()
        match kind:
            case "tensor":
                return self._tensor(inner)
            case "list":
                return [self.decode(each) for each in inner]
            case "tuple":
                return tuple(self.decode(each) for each in inner)
            case "dict":
                return {self.decode(key): self.decode(each) for key, each in inner}
            case _:
                raise ValueError(f"unknown form {kind!r}")

    def _tensor(self, name: str) -> Tensor:
        place = self._tied.get(name, name)
        if place not in self._copies:
            self._copies[place] = self._contents.tensor(place).clone()
        return self._copies[place]
