"""Narrowing of a name by a comparison with `None`, for the block that depends on it.

def forward(self, x, mask=None):
    scale = self.embedding.weight if self.scaled else None
    if mask is not None:                # a parameter of the call: a traced value
    if scale is not None:               # a raw parameter of the module: it has no `through`

A parameter of the method is a traced value as long as no other value is bound to its name.
"""

from typing import final

from fdl_cli.porter.ir.expressions import Expr, Kind
from fdl_cli.porter.lower.environment import Environment


@final
class narrowed:  # noqa: N801 - reads as a statement about the block it opens
    """Within the block, a name compared with None is a tensor or None, as the test says."""

    def __init__(self, env: Environment, test: Expr, outcome: bool) -> None:
        self._env = env
        self._names = [name for name, present in none_tests(env, test, outcome) if present]
        self._saved: dict[str, Kind] = {}

    def __enter__(self) -> None:
        for name in self._names:
            kind = self._env.kinds.get(name)
            if kind == "maybe" and name in self._env.optional:
                self._saved[name] = kind
                self._env.kinds[name] = "flow"

    def __exit__(self, *_: object) -> None:
        for name, kind in self._saved.items():
            if self._env.kinds.get(name) == "flow":
                self._env.kinds[name] = kind


def none_tests(env: Environment, test: Expr, outcome: bool) -> list[tuple[str, bool]]:
    """Return the names which the outcome of a test shows to be present (True) or None."""
    if test.op == "compare" and test.name in {"is", "is not"} and test.parts[1].kind == "none":
        if test.parts[0].op != "name":
            return []
        return [(test.parts[0].name, (test.name == "is not") == outcome)]
    if test.op == "unary" and test.name == "not":
        return none_tests(env, test.parts[0], not outcome)
    if test.op == "boolean" and (test.name == "and") == outcome:
        return [found for part in test.parts for found in none_tests(env, part, outcome)]
    if test.op == "call" and len(test.parts) == 2 and test.parts[1].op == "name":
        fact = env.functions.get(test.parts[0].name)
        known = fact.none_test if fact is not None else None
        if known is None and test.parts[0].name == "exists":
            known = False
        return [] if known is None else [(test.parts[1].name, known != outcome)]
    return []
