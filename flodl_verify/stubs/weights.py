"""Initial weights in place of pretrained ones that cannot be had."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, final

import torch
from torch import nn

# Values in a checkpoint beside weights, by a part of their name: a training that begins.
_NUMBERS = ("epoch", "iter", "step", "best", "loss", "acc")


@final
class MissingWeights(dict[str, Any]):
    """A checkpoint that is not there: it has no entries, and whatever is looked up is missing, too."""

    def __missing__(self, key: str) -> Any:
        return 0 if any(word in str(key) for word in _NUMBERS) else MissingWeights()


def keep_own_weights(note: Callable[[str], None]) -> None:
    """Answer downloads and files of weights that fail, from now on; loading them does nothing."""
    _answer_downloads(note)
    _answer_files(note)
    _skip_loading(nn.Module, nn.modules.module._IncompatibleKeys([], []))
    _skip_loading(torch.optim.Optimizer, None)


def _answer_downloads(note: Callable[[str], None]) -> None:
    download = torch.hub.load_state_dict_from_url

    def answered(url: str, *args: Any, **kwargs: Any) -> Any:
        try:
            return download(url, *args, **kwargs)  # type: ignore[no-untyped-call,unused-ignore]
        except OSError:
            note(f"the weights {url.rpartition('/')[2]}")
            return MissingWeights()

    torch.hub.load_state_dict_from_url = answered


def _answer_files(note: Callable[[str], None]) -> None:
    load = torch.load

    def answered(f: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(f, str | os.PathLike) and not Path(f).exists():
            note(f"the weights {Path(f).name}")
            return MissingWeights()
        return load(f, *args, **kwargs)

    torch.load = answered


def _skip_loading(owner: Any, result: object) -> None:
    load = owner.load_state_dict

    def loaded(self: Any, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(state_dict, MissingWeights):
            return result
        return load(self, state_dict, *args, **kwargs)

    owner.load_state_dict = loaded
