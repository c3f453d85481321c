"""Classes of modules by the names of arguments: `encoder` is an `Encoder`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

from torch import nn

_PLURAL = re.compile(r"(layers|blocks|cells|modules|stages|heads|convs|nets|experts)$")
# Names that mostly mean a size, a text or a flag, though a class beside has the same name.
_NUMBERS = re.compile(
    r"(^|_)(embed|embedding|dropout|norm|activation|act|linear|conv|pool|loss|position|hidden)(_|$)"
)


def named_after(made: type, name: str) -> Iterator[type]:
    """Yield the modules known beside a class that its argument is called by, the best match first."""
    words = _plain(name)
    if len(words) < 3 or _NUMBERS.search(name.lower()):
        return
    known = list(modules_beside(made))
    yield from (kind for kind in known if _plain(kind.__name__) == words)
    yield from (
        kind
        for kind in known
        if _plain(kind.__name__) != words and _plain(kind.__name__).endswith(words)
    )


def items_of(made: type, name: str) -> Iterator[type]:
    """Yield the modules that a list of modules may hold: `layers` of an `Encoder` are `EncoderLayer`."""
    found = _PLURAL.search(name.lower())
    if found is None:
        return
    item = found[1].removesuffix("s")
    known = [kind for kind in modules_beside(made) if _plain(kind.__name__).endswith(item)]
    owner = _plain(made.__name__)
    # `EncoderLayer` for `Encoder`, `ConvLayer` for `conv_layers`, then whatever is a layer.
    yield from sorted(
        known,
        key=lambda kind: (
            not _plain(kind.__name__).startswith(owner),
            _plain(kind.__name__) != _plain(name).removesuffix("s"),
        ),
    )


def modules_beside(made: type) -> Iterator[type]:
    """Yield the modules of the program that the file of a class knows."""
    for kind in vars(sys.modules.get(made.__module__, sys)).values():
        if (
            isinstance(kind, type)
            and issubclass(kind, nn.Module)
            and kind is not made
            and not kind.__module__.startswith("torch.nn.")
        ):
            yield kind


def _plain(name: str) -> str:
    return name.lower().replace("_", "")
