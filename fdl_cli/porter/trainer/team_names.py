"""Calls and names of a script for several processes: which ones move, and why the others do not.

Example: after `ddp = DDP(net)` and `train(ddp)` with `def train(model):`, `ddp` and `model` are the
wrapped model. `ddp.no_sync()` is refused, because a builder averages in every update.
"""

import ast
from collections.abc import Iterator
from typing import Final

from fdl_cli.porter.lower.names import Names
from fdl_cli.porter.trainer.training_step import NotMovedError, is_method, receiver

DDP: Final = frozenset({"torch.nn.parallel.DistributedDataParallel",
                        "torch.nn.parallel.distributed.DistributedDataParallel"})  # fmt: skip
SAMPLERS: Final = frozenset({"torch.utils.data.DistributedSampler",
                             "torch.utils.data.distributed.DistributedSampler"})  # fmt: skip
_MOVED: Final = frozenset({"init_process_group", "destroy_process_group", "barrier", "get_rank",
                           "get_world_size"})  # fmt: skip
_OPTIONS: Final = frozenset({"device_ids", "output_device", "find_unused_parameters",
                             "gradient_as_bucket_view", "static_graph", "bucket_cap_mb"})  # fmt: skip
_ORDER: Final = frozenset({"num_replicas", "rank", "shuffle", "seed", "drop_last"})
# Methods of a wrapped model that mean something else on the plain one.
_METHODS: Final = {
    "no_sync": "it holds gradients back with `no_sync`; use `.accumulate(n)` of the builder",
    "join": "it trains uneven data with `join`; let the samples of all processes be equally many",
    "register_comm_hook": "a hook changes how gradients travel; take it out",
    "state_dict": "the names of its weights begin with `module.`; write `.module.state_dict()`",
    "load_state_dict": "the names of its weights begin with `module.`; load them before it is wrapped",
    "named_parameters": "the names of its weights begin with `module.`; write `.module.named_parameters()`",
}


def refuse_foreign(tree: ast.Module, names: Names) -> None:
    """Refuse what a plain training with a builder cannot express.

    Raises:
        NotMovedError: the first such place, with what to do.
    """
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    for call in calls:
        dotted = names.dotted(call.func)
        _refuse_call(dotted, call)
        if dotted in DDP:
            _refuse_wrapping(tree, call)
        elif dotted in SAMPLERS:
            _refuse_order(call, calls)
    _refuse_environment(tree, names)
    if not any(names.dotted(call.func) in DDP for call in calls):
        raise _refusal("no model of it is wrapped with `DistributedDataParallel`", calls[0])
    if not any(names.dotted(call.func) in SAMPLERS for call in calls):
        message = "its batches come from no `DistributedSampler`; give the `DataLoader` one"
        raise _refusal(message, calls[0])
    _refuse_other_epochs(tree, names, calls)
    wrapped = wrapped_names(tree, names)
    for call in calls:
        if not isinstance(call.func, ast.Attribute) or call.func.attr not in _METHODS:
            continue
        always = call.func.attr in {"no_sync", "register_comm_hook"}
        if always or ast.unparse(receiver(call)) in wrapped:
            raise _refusal(_METHODS[call.func.attr], call)


def _refusal(message: str, node: ast.AST) -> NotMovedError:
    return NotMovedError("FDL428", message, node)


def _refuse_call(dotted: str, call: ast.Call) -> None:
    if "SyncBatchNorm" in dotted:
        raise _refusal(
            "`SyncBatchNorm` needs the batches of all processes at once; use `BatchNorm`", call
        )
    if dotted.startswith("torch.multiprocessing."):
        raise _refusal("it starts its processes itself; let `torchrun` start them", call)
    if dotted.startswith("torch.distributed.fsdp"):
        raise _refusal("weights are divided by FSDP; every process of a builder has all", call)
    if dotted.startswith(("accelerate.", "horovod.", "torch_xla.")):
        raise _refusal(f"`{dotted}` is no part of torch", call)
    if dotted.startswith("torch.distributed.") and dotted.rpartition(".")[2] not in _MOVED:
        what = dotted.rpartition(".")[2]
        raise _refusal(
            f"its processes exchange values with `{what}`; a builder has the losses of all", call
        )


def _refuse_wrapping(tree: ast.Module, call: ast.Call) -> None:
    others = {item.arg for item in call.keywords} - _OPTIONS
    if others or len(call.args) != 1:
        shown = ", ".join(sorted(map(str, others))) or "arguments by position"
        raise _refusal(f"`DistributedDataParallel` has {shown}; take it out", call)
    if not any(isinstance(node, ast.Assign) and node.value is call for node in ast.walk(tree)):
        raise _refusal(
            "the wrapped model has no name; write `model = DistributedDataParallel(model)`", call
        )


def _refuse_order(call: ast.Call, calls: list[ast.Call]) -> None:
    others = {item.arg for item in call.keywords} - _ORDER
    if others or len(call.args) != 1:
        raise _refusal("`DistributedSampler` has arguments that are not its names", call)
    shuffle = next((item.value for item in call.keywords if item.arg == "shuffle"), None)
    fixed = isinstance(shuffle, ast.Constant) and shuffle.value is False
    if not fixed and not any(is_method(each, "set_epoch") for each in calls):
        raise _refusal(
            "every epoch has the same order; call `sampler.set_epoch(epoch)`, or use shuffle=False",
            call,
        )


def _refuse_other_epochs(tree: ast.Module, names: Names, calls: list[ast.Call]) -> None:
    """Refuse `set_epoch` of something else: that of the sampler goes away, and this would go with it."""
    samplers = _names_of(tree, names, SAMPLERS)
    for call in calls:
        if not is_method(call, "set_epoch"):
            continue
        owner = ast.unparse(receiver(call))
        if owner not in samplers and not owner.endswith(".sampler"):
            raise _refusal(f"`{owner}.set_epoch` may be of no `DistributedSampler`", call)


def _refuse_environment(tree: ast.Module, names: Names) -> None:
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Subscript)
            and isinstance(node.ctx, ast.Store)
            and names.dotted(node.value) == "os.environ"
        ):
            raise _refusal("it sets the environment of its processes; let `torchrun` do it", node)


# ---- the wrapped model -----------------------------------------------------------------------------


def wrapped_names(tree: ast.Module, names: Names) -> frozenset[str]:
    """Return the names that hold a wrapped model: assigned, or parameters of functions that get it."""
    return _names_of(tree, names, DDP)


def _names_of(tree: ast.Module, names: Names, kinds: frozenset[str]) -> frozenset[str]:
    found = {
        ast.unparse(target)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and names.dotted(node.value.func) in kinds
        for target in node.targets
    }
    while True:
        more = found | set(_handed_on(tree, names, found))
        if more == found:
            return frozenset(found)
        found = more


def _handed_on(tree: ast.Module, names: Names, held: set[str]) -> Iterator[str]:
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            continue
        function = names.functions.get(call.func.id)
        if function is None:
            continue
        for parameter, given in zip(function.args.args, call.args, strict=False):
            if ast.unparse(given) in held:
                yield parameter.arg
        for item in call.keywords:
            if item.arg and ast.unparse(item.value) in held:
                yield item.arg
