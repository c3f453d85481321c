"""Kind of a result: of an operator, of a container, of an attribute that changes."""

from fdl_cli.porter.ir.expressions import Expr, Kind
from fdl_cli.porter.lower.environment import FLOWING


def stored_kind(kind: Kind) -> Kind:
    """Return the kind of an attribute at the start of a call, given the kind that sets it first."""
    return kind if kind in {"parameter", "module", "modules"} else "maybe"


def container_kind(parts: tuple[Expr, ...]) -> Kind:
    """Return the kind of a container of such parts."""
    kinds = {part.kind for part in parts}
    unknown = any(part.op == "attribute" and part.kind == "python" for part in parts)
    if kinds & {"parameter", "parameters"} or (unknown and kinds & FLOWING):
        return "parameters"
    if kinds & FLOWING:
        return "flows"
    if "maybe" in kinds:
        return "maybe"
    if kinds & {"module", "modules"}:
        return "modules"
    return "size" if "size" in kinds else "python"


def arithmetic_kind(symbol: str, left: Expr, right: Expr) -> Kind:
    """Return the kind of an operator's result on two values."""
    kinds = {left.kind, right.kind}
    several = kinds & {"flows", "parameters"}
    if several and symbol in {"+", "*"}:
        # A list plus a list; the other one may be a list that the caller gave.
        return "parameters" if "parameters" in kinds else "flows"
    if kinds & {"flow", "parameter"} or several:
        return "flow"
    if "result" in kinds:
        return "result"
    if "maybe" in kinds:
        return "maybe"
    return "size" if "size" in kinds else "python"
