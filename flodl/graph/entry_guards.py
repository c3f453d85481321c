"""Entry guards of a plan: an expression over the module and its inputs, evaluated before each call."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from flodl.graph.expressions import Writer
from flodl.ir.graph import Literally, Ref

if TYPE_CHECKING:
    from flodl.ir.graph import Arg, GraphSpec


def admission(spec: GraphSpec) -> str:
    """Return the expression over `self` and the inputs that admits a call to this plan."""
    checks = (
        []
        if spec.training is None
        else ["self.training" if spec.training else "not self.training"]
    )
    checks += [each.check for each in spec.inputs if each.check]
    checks += spec.checks
    entry_writer = _EntryWriter(spec)
    for guard in spec.guards:
        if guard.at_entry:
            checks.append(entry_writer.condition(guard.value, guard.expected))
    return " and ".join(dict.fromkeys(checks)) or "True"


@final
class _EntryWriter:
    """Writes metadata expressions over the inputs alone."""

    def __init__(self, spec: GraphSpec) -> None:
        self._spec = spec
        self._writer = Writer(name_of=self._text, from_self=True)

    def _text(self, index: int) -> str:
        node = self._spec.nodes[index]
        if node.kind == "item" and isinstance(owner := node.args[0], Ref):
            source = self._spec.nodes[owner.node]
            if source.kind == "unpack":
                return f"{self._writer.receiver(source.args[0])}[{self._writer.arg(node.args[1])}]"
        text = self._writer.node(node)
        return f"({text})" if node.kind == "operator" else text

    def condition(self, value: Arg, expected: Arg) -> str:
        text = self._writer.operand(value)
        match expected:
            case Literally(True):
                return text
            case Literally(False):
                return f"not {text}"
            case Literally(None):
                return f"{text} is None"
            case _:
                return f"{text} == {self._writer.arg(expected)}"
