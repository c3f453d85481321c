"""Whether a value is new: writing into it then changes nothing that anybody else sees."""

from fdl_cli.porter.ir.expressions import Expr
from fdl_cli.porter.knowledge.tensor_methods import VIEW_METHODS
from fdl_cli.porter.knowledge.torch_names import ALIASING_LAYERS
from fdl_cli.porter.plan.spine import receiver


def is_fresh(expr: Expr) -> bool:
    """Say whether the value was made by the expression itself, not handed on or viewed."""
    match expr.op:
        case "name" | "index" | "attribute" | "conditional":
            return False
        case "through":
            return _makes_new(expr.parts[1]) or is_fresh(expr.parts[0])
        case "call" if expr.role == "method":
            value = receiver(expr)
            name = expr.parts[0].name
            kept = name in VIEW_METHODS or name.endswith("_")
            return not kept or (value is not None and is_fresh(value))
        case "call" if expr.role == "torch":
            return _makes_new(expr.parts[0]) or is_fresh(expr.parts[1])
        case "also" | "also_with" | "merge" | "binary" | "unary":
            return True
        case _:
            return False


def _makes_new(stage: Expr) -> bool:
    return (stage.maker or stage.dotted) not in ALIASING_LAYERS
