"""The switch of a model to its ported classes, in place.

`BertModel` (class of transformers) -> `BertModel` (class of its port), the same object.  Only the
classes of the modules change, so weights, buffers, ties, hooks, the configuration and the modes stay.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from typing import Any, TypeVar

from torch import nn

from flodl.hf.cache import HuggingFaceError, ported, require
from flodl.module.flow_module import FlowModule

ModelT = TypeVar("ModelT", bound=nn.Module)
_PORTS = "flodl.hf.ported."


def graph(model: ModelT) -> ModelT:
    """Switch a model of transformers to flow graphs, in place, and return it.

    A class that the porter keeps runs its own forward as before, and a warning names it.

    Args:
        model: a `PreTrainedModel`, loaded or made from a configuration.

    Raises:
        HuggingFaceError: transformers is missing, or no part of the model is from one of its model files.

    Example:
        >>> import flodl.hf
        >>> flodl.hf.graph("bert")
        Traceback (most recent call last):
        ...
        TypeError: flodl.hf.graph takes a model, not str; for a family type: flodl.hf.port('bert')
    """
    given: Any = model  # whatever a caller without types gives
    if not isinstance(given, nn.Module):
        wanted = f"; for a family type: flodl.hf.port({given!r})" if isinstance(given, str) else ""
        raise TypeError(f"flodl.hf.graph takes a model, not {type(given).__name__}{wanted}")
    require()
    found = [each for each in model.modules() if _is_of_transformers(type(each))]
    if not found:
        if any(type(each).__module__.startswith(_PORTS) for each in model.modules()):
            return model
        raise HuggingFaceError(
            f"{type(model).__name__} of {type(model).__module__} has no part from a model file of"
            " transformers; for a model of your own type: fdl port FILE"
        )
    _tell_beforehand(found)
    # All classes are looked up before the first one changes: an error leaves the model as it was.
    classes = {kind: _counterpart(kind) for kind in {type(each) for each in found}}
    kept = sorted(kind.__name__ for kind, (_, status) in classes.items() if status == "kept")
    for each in found:
        each.__class__ = classes[type(each)][0]
        if isinstance(each, FlowModule):
            each.__setstate__(each.__dict__)  # the object was made without plans
        _register_outputs(each)
    if kept:
        warnings.warn(
            f"the porter keeps {', '.join(kept)} of {type(model).__name__}: "
            "it runs as before, and its values have no names"
            if len(kept) == 1
            else f"the porter keeps {', '.join(kept)} of {type(model).__name__}: "
            "they run as before, and their values have no names",
            stacklevel=2,
        )
    return model


def _is_of_transformers(kind: type) -> bool:
    return kind.__module__.startswith("transformers.models.") and ".modeling_" in kind.__module__


def _tell_beforehand(modules: list[nn.Module]) -> None:
    """Let transformers note that it told which loss it takes.

    It tells that at the first loss alone.  In a flow, the second one would then be another program.
    """
    base: Any = importlib.import_module("transformers").PreTrainedModel
    log: Any = importlib.import_module("transformers.utils.logging")
    before = log.get_verbosity()
    log.set_verbosity_error()  # most models have no loss, and then it would be noise
    try:
        for each in modules:
            _ = each.loss_function if isinstance(each, base) else None
    finally:
        log.set_verbosity(before)


def _counterpart(kind: type) -> tuple[type, str]:
    module, record = ported(kind.__module__)
    found = vars(module).get(kind.__qualname__)
    if not isinstance(found, type):
        raise HuggingFaceError(
            f"the port of {kind.__module__} has no class {kind.__qualname__}: the class was made at run time;"
            " call flodl.hf.graph before other libraries change the model"
        )
    return found, record["classes"].get(kind.__name__, "kept")


def _register_outputs(module: nn.Module) -> None:
    """Enter what a model can record where transformers looks for it: by the text of the class."""
    generic: Any = sys.modules.get("transformers.utils.generic")
    registry = vars(generic).get("_CAN_RECORD_REGISTRY") if generic else None
    outputs = vars(type(module)).get("_can_record_outputs") or _inherited(type(module))
    if registry is not None and outputs is not None:
        registry[str(type(module))] = outputs


def _inherited(kind: type) -> Any:
    return next(
        (
            vars(base)["_can_record_outputs"]
            for base in kind.__mro__
            if "_can_record_outputs" in vars(base)
        ),
        None,
    )
