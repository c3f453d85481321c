"""Calls of a flow by a tool that traces the module: no recording, the plain body instead.

    torch.compile(port, fullgraph=True)(x)
      -> forward (generated): is_traced_by_tool() is True, a constant for Dynamo
      -> run_traced -> has_plain_body(type(port), key), which Dynamo runs and does not trace
      -> type(port)._flodl_plain_...(port, x), which Dynamo traces like the original forward

The plan cache is not read and not written. So an eager call afterwards records as if the tool had never
called, and what a tool sees does not depend on the calls before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flodl.module.plain_body import attribute_of, plain_body

if TYPE_CHECKING:
    from flodl.graph.plan_cache import PlanCache


def run_traced(module: Any, plans: PlanCache, key: str, inputs: tuple[Any, ...]) -> Any:
    """Run a flow for a tool that traces the call.

    Args:
        module: the flow module.
        plans: the plans of the flow, for a flow without a plain body.
        key: the key of its definition.
        inputs: one value per parameter.
    """
    if has_plain_body(type(module), key):
        return getattr(type(module), attribute_of(key))(module, *inputs)
    return plans.dispatch_plainly(module, *inputs)


def has_plain_body(kind: Any, key: str) -> bool:
    """Make the plain body of a definition where it is needed first, and return whether there is one."""
    name = attribute_of(key)
    if name not in vars(kind):
        type.__setattr__(kind, name, plain_body(kind._flodl_definitions[key], kind))
    return vars(kind)[name] is not None


# Dynamo runs such a function instead of tracing it (torch.compiler.assume_constant_result would import all of
# torch._dynamo). Its result is a constant of the class and the key, both of which Dynamo guards.
vars(has_plain_body)["_dynamo_marked_constant"] = True
