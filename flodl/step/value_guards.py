"""Value guards: values that Python has read while a step was recorded, looked up before each replay.

`if attention_mask.all():` takes one way or the other, and a recorded step knows one way alone. The
operations that lead from the batch to the value are cut out of the recorded ones. They run on each new
batch, and the step runs only where they give the values that were read.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Never, final

import torch
from torch import Tensor, fx
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from flodl.step.refusal import RefusedStepError

if TYPE_CHECKING:
    from collections.abc import Sequence

_READS = "the step reads the value of a tensor (.item(), if, int())"
_BYPASSES = frozenset(
    {
        Tensor.tolist, Tensor.numpy, Tensor.__array__, Tensor.__dlpack__, Tensor.__deepcopy__,
        Tensor.apply_, Tensor.map_, torch._pad_packed_sequence,
    }
)  # fmt: skip
# These take numbers or tensors of whole numbers, and read the latter in C++.
_READ_IN_C = frozenset(
    {
        torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu, torch.tensor_split,
        Tensor.tensor_split,
    }
)  # fmt: skip
# The packed values are as many as the lengths say, and recurrent layers read those in C++.
_OPEN = frozenset({torch.ops.aten._pack_padded_sequence.default})
# A small convolution is recorded as a product, which rounds otherwise than the eager one: a value beside a
# limit could fall on the other side of it.
_INEXACT = frozenset({torch.ops.aten.mm.default})
_MASKS = (torch.bool, torch.uint8)


@final
class Reads(TorchDispatchMode):
    """Answers what Python reads while a step is recorded, and notes it.

    Attributes:
        tensors: a copy of each tensor that was read; the copies are operations of the recorded step.
        values: the value of each of them, exactly.
        refusals: the reads that no guard can repeat; the step may have caught the errors.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.tensors: list[Tensor] = []
        self.values: list[str] = []
        self.refusals: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation of the step.

        Raises:
            RefusedStepError: a whole tensor is read, or the values of one decide a shape.
        """
        del types
        kwargs = kwargs or {}
        if func is torch.ops.aten._local_scalar_dense.default:
            return self._read(args[0])
        if torch.Tag.data_dependent_output in func.tags:
            self.refuse(f"{_READS}: `{func}`")
        if _is_open(func, args, kwargs):
            self.refuse(f"the values of a tensor decide the shape of another: `{func}`")
        return func(*args, **kwargs)

    def refuse(self, why: str) -> Never:
        """Note that the step cannot be recorded, and end it.

        Raises:
            RefusedStepError: always.
        """
        self.refusals.append(why)
        raise RefusedStepError(why)

    def _read(self, tensor: Tensor) -> Any:
        # Recorded, so that the place of the read among the operations is known.
        self.tensors.append(torch.ops.aten.clone.default(tensor))
        with disable_proxy_modes_tracing():
            value = torch.ops.aten._local_scalar_dense.default(tensor)
        self.values.append(repr(value))
        return value


@final
class NoBypass(TorchFunctionMode):
    """Refuses calls that read the memory of a tensor without an operation."""

    def __init__(self, reads: Reads) -> None:
        super().__init__()
        self._reads = reads

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call a function of torch.

        Raises:
            RefusedStepError: it hands values of a tensor to Python.
        """
        del types
        if func in _BYPASSES or (func in _READ_IN_C and _has_whole(args[1:2], kwargs or {})):
            self._reads.refuse(f"{_READS}: `{func.__name__}`")
        return func(*args, **(kwargs or {}))


def _has_whole(args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Return True if an argument is a tensor of whole numbers, such as the sizes of packed batches."""
    given = [each for each in (*args, *kwargs.values()) if isinstance(each, Tensor)]
    return any(not each.is_floating_point() for each in given)


def _is_open(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Return True if the shape of the result is not known before the values are."""
    if torch.Tag.dynamic_output_shape not in func.tags:
        return func in _OPEN
    if func is torch.ops.aten.index.Tensor:
        return any(isinstance(each, Tensor) and each.dtype in _MASKS for each in args[1])
    return kwargs.get("output_size") is None


@final
class _Look:
    """The operations that find one value of a batch, and the value that was read."""

    def __init__(self, value: str, cut: fx.Graph, constants: tuple[Tensor, ...]) -> None:
        self.value = value
        self.text = str(cut)
        self._find = fx.GraphModule({}, cut).forward
        self._constants = constants

    def holds(self, tensors: Sequence[Tensor]) -> bool:
        """Return True if the value is the one that was read."""
        return repr(self._find(*tensors, *self._constants).item()) == self.value


@final
class ValueGuard:
    """The values that a recorded step has read of its batch; none, in most steps.

    Attributes:
        values: the exact values, in the order of the reads.
    """

    def __init__(self, looks: Sequence[_Look] = ()) -> None:
        self._looks = tuple(looks)
        self.values = tuple(each.value for each in looks)

    def holds(self, tensors: Sequence[Tensor]) -> bool:
        """Return True if the step would read the same values of a batch with these tensors."""
        if not self._looks:
            return True
        # The recorded operations are those below autograd and autocast.
        with torch.no_grad(), torch._C._DisableAutocast():
            # In order: a later read is only made, and may only be possible, where the earlier ones hold.
            try:
                return all(each.holds(tensors) for each in self._looks)
            except (RuntimeError, IndexError):
                return False  # the eager step fails in the same place, with an error of its own


def cut_out(
    graph: fx.GraphModule, reads: Reads, batch: slice, constants: tuple[Tensor, ...]
) -> ValueGuard:
    """Return the guard of a recorded step, and end the step without the tensors that were read.

    Args:
        graph: the recorded step; the tensors that were read are its last outputs.
        reads: the reads of the recording.
        batch: the places of the batch among the inputs; all later ones are `constants`.
        constants: tensors that are neither state nor batch.

    Raises:
        RefusedStepError: a value depends on more than the batch.
    """
    if reads.refusals:
        raise RefusedStepError(reads.refusals[0])
    if not reads.tensors:
        return ValueGuard()
    (output,) = (node for node in graph.graph.nodes if node.op == "output")
    outputs = list(output.args[0])
    results = len(outputs) - len(reads.tensors)
    output.args = (outputs[:results],)
    inputs = [node for node in graph.graph.nodes if node.op == "placeholder"]
    given, held = inputs[batch], inputs[len(inputs) - len(constants) :]
    steps = _Steps(graph.graph, frozenset(given), frozenset(filter(_is_literal, held)))
    looks: dict[str, _Look] = {}  # each layer may read the same mask
    for node, tensor, value in zip(outputs[results:], reads.tensors, reads.values, strict=True):
        way = steps.leading_to(node)
        if way.isdisjoint(given):
            continue  # it is the same in every step
        if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
            raise RefusedStepError(f"{_READS} with a fraction, which is hardly ever the same")
        look = _Look(value, _copied(graph.graph, [*given, *held], way, node), constants)
        looks.setdefault(look.text, look)
    for node in outputs[results:]:
        graph.graph.erase_node(node)
    graph.recompile()
    return ValueGuard(list(looks.values()))


def _is_literal(constant: fx.Node) -> bool:
    """Return True if a constant was made in the step, as in `torch.tensor(3)`.

    A program can exchange others between two steps, without a trace.
    """
    made = torch.ops.aten.lift_fresh_copy.default
    return all(user.target is made for user in constant.users)


def _copied(
    graph: fx.Graph, inputs: list[fx.Node], needed: set[fx.Node], found: fx.Node
) -> fx.Graph:
    """Return the needed operations as a function of the batch and the constants."""
    cut = fx.Graph()
    made = {node: cut.placeholder(f"given_{number}") for number, node in enumerate(inputs)}
    for node in graph.nodes:
        if node in needed and node not in made:
            args = fx.map_arg(node.args, lambda each: made[each])
            kwargs = fx.map_arg(node.kwargs, lambda each: made[each])
            # Names that depend on nothing else, so that equal graphs have equal texts.
            name = f"value_{len(made)}"
            made[node] = cut.create_node(node.op, node.target, args, kwargs, name)
    cut.output(made[found])
    return cut


@final
class _Steps:
    """The operations of a recorded step, with which of their values share memory."""

    def __init__(
        self, graph: fx.Graph, batch: frozenset[fx.Node], literals: frozenset[fx.Node]
    ) -> None:
        self._batch = batch
        self._literals = literals
        self._order = {node: number for number, node in enumerate(graph.nodes)}
        self._memory: dict[fx.Node, fx.Node] = {}
        self._writes: list[tuple[fx.Node, fx.Node]] = []
        for node in self._order:
            self._note(node)

    def _owner(self, node: fx.Node) -> fx.Node:
        while node in self._memory:
            node = self._memory[node]
        return node

    def _note(self, node: fx.Node) -> None:
        """Note the inputs whose memory an operation returns or writes."""
        for each, aliased, written in _memory_of(node):
            if written:
                self._writes.append((node, each))
            if aliased and self._owner(each) is not self._owner(node):
                self._memory[self._owner(node)] = self._owner(each)

    def leading_to(self, read: fx.Node) -> set[fx.Node]:
        """Return all operations that decide a value, with their inputs.

        Raises:
            RefusedStepError: it depends on more than the batch.
        """
        found: set[fx.Node] = set()
        left = [read]
        while left:
            node = left.pop()
            if node in found:
                continue
            found.add(node)
            self._require_repeatable(node)
            left += node.all_input_nodes
            left += [
                writer
                for writer, target in self._writes
                if self._order[writer] < self._order[read]
                and self._owner(target) is self._owner(node)
            ]
        if not found.isdisjoint(self._batch):
            self._require_untouched(self._order[read])
        return found

    def _require_repeatable(self, node: fx.Node) -> None:
        if node.op == "placeholder":
            if node not in self._batch and node not in self._literals:
                raise RefusedStepError(f"{_READS} that depends on more than the batch")
            return
        target: Any = node.target
        if target is operator.getitem:
            return
        if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
            raise RefusedStepError(f"{_READS} that `{target}` has made")
        if torch.Tag.nondeterministic_seeded in target.tags:
            raise RefusedStepError(f"{_READS} that is drawn at random")
        if target in _INEXACT:
            raise RefusedStepError(f"{_READS} that is a product of matrices")

    def _require_untouched(self, end: int) -> None:
        """Refuse a step that writes into its batch first: a guard would do it a second time."""
        owners = {self._owner(node) for node in self._batch}
        for writer, target in self._writes:
            if self._order[writer] < end and self._owner(target) in owners:
                raise RefusedStepError(f"{_READS} after it has written into its batch")


def _memory_of(node: fx.Node) -> list[tuple[fx.Node, bool, bool]]:
    """Return the inputs of an operation that it returns as a view, or writes into."""
    target: Any = node.target
    if node.op != "call_function":
        return []
    if not isinstance(target, torch._ops.OpOverload):  # an item of several results, or unknown
        return [(each, True, False) for each in node.all_input_nodes]
    if "unsafe" in str(target):  # a view that autograd takes for a copy
        return [(each, True, False) for each in node.all_input_nodes]
    found: list[tuple[fx.Node, bool, bool]] = []
    for place, argument in enumerate(target._schema.arguments):
        info = argument.alias_info
        given = node.args[place] if place < len(node.args) else node.kwargs.get(argument.name)
        if info is None or given is None:
            continue
        several = given if isinstance(given, (list, tuple)) else [given]
        found += [(each, True, info.is_write) for each in several if isinstance(each, fx.Node)]
    return found
