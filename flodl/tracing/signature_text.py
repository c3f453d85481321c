"""The parameters of a flow as text, for generated functions with the same signature."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, final

if TYPE_CHECKING:
    from flodl.tracing.call_inputs import Definition


def signature_text(definition: Definition) -> tuple[str, dict[str, Any]]:
    """Return the parameter list of the generated forward, with defaults taken from a namespace."""
    namespace: dict[str, Any] = {}
    parameters = []
    for each in definition.signature.parameters.values():
        bare = each.replace(annotation=inspect.Parameter.empty)
        if each.default is not each.empty:
            namespace[f"default_{each.name}"] = each.default
            bare = bare.replace(default=_Text(f"default_{each.name}"))
        parameters.append(bare)
    text = str(inspect.Signature(parameters))[1:-1]
    return f"self, {text}" if text else "self", namespace


@final
class _Text:
    """A default that prints as bare text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text
