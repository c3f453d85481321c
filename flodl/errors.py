"""Every way `flodl` can fail, with the place in the user's code that caused it."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from flodl.ir.graph import Problem


class FlodlError(Exception):
    """Root of all errors that flodl raises on purpose.

    Example:
        >>> from flodl import BuildError, FlodlError, FlowError, GraphError
        >>> all(issubclass(kind, FlodlError) for kind in (BuildError, FlowError, GraphError))
        True
    """


@final
class BuildError(FlodlError):
    """The description of a graph is wrong; `problems` lists everything that is.

    Attributes:
        problems: one entry per mistake, each with the call site in the user's code.

    Example:
        >>> from torch import nn
        >>> from flodl import BuildError, FlowBuilder
        >>> try:
        ...     FlowBuilder.from_(nn.ReLU()).split(nn.ReLU(), nn.Tanh()).build()
        ... except BuildError as error:
        ...     print(len(error.problems))
        1
    """

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        self.problems = problems
        count = len(problems)
        head = f"the graph has {count} wiring problem{'s' if count != 1 else ''}:"
        super().__init__("\n".join([head, *(f"  {problem}" for problem in problems)]))


@final
class FlowError(FlodlError):
    """A `flow` needs something that a description cannot give.

    Example:
        >>> import torch
        >>> from flodl import Flow, FlowError, FlowModule
        >>> class Asks(FlowModule):
        ...     def flow(self, x: Flow) -> Flow:
        ...         return x if x.sum() > 0 else -x
        >>> try:
        ...     Asks()(torch.ones(2))
        ... except FlowError:
        ...     print("a flow cannot branch on the values of a tensor")
        a flow cannot branch on the values of a tensor
    """


@final
class BytecodeError(FlodlError):
    """This version of Python, or one of its instructions, is unknown, so that no flow can be traced.

    Example:
        >>> from flodl import BytecodeError, FlodlError
        >>> issubclass(BytecodeError, FlodlError)
        True
    """


class GraphError(FlodlError):
    """A built graph was used in a way that it does not offer.

    Example:
        >>> from flodl import Flow, FlowModule, GraphError
        >>> class Batched(FlowModule):
        ...     def flow(self, x: Flow) -> Flow:
        ...         return x if x.shape[0] > 1 else x * 2
        >>> try:
        ...     Batched().code
        ... except GraphError:
        ...     print("it depends on the input, so it has no code before the first call")
        it depends on the input, so it has no code before the first call
    """


@final
class NotRecordedError(GraphError, AttributeError):
    """The description or the code of a flow that was never called.

    It is an AttributeError too, because tools that look through a module (`torch.jit.trace`, debuggers,
    completion) ask `hasattr` for every name of its class.

    Example:
        >>> from flodl import Flow, FlowModule
        >>> class Batched(FlowModule):
        ...     def flow(self, x: Flow) -> Flow:
        ...         return x if x.shape[0] > 1 else x * 2
        >>> hasattr(Batched(), "code")
        False
    """


@final
class CheckpointError(FlodlError):
    """A checkpoint is damaged, does not fit the model, or cannot be written.

    Attributes:
        path: the file, or nothing for a stream.
        differences: how the architecture of the file differs from the model's, one line each.
    """

    def __init__(
        self, message: str, *, path: str | None = None, differences: tuple[str, ...] = ()
    ) -> None:
        self.path = path
        self.differences = differences
        head = f"{path}: {message}" if path else message
        super().__init__("\n".join([head, *(f"  {line}" for line in differences)]))


@final
class DataError(FlodlError):
    """A data set, a sampler or a loader was used in a way that cannot give batches.

    Example:
        >>> import torch
        >>> from flodl import DataError, DataLoader
        >>> try:
        ...     DataLoader([torch.ones(3)], batch_size=0)
        ... except DataError as error:
        ...     print(error)
        batch_size is 0; it must be at least 1
    """


@final
class DeviceError(FlodlError):
    """An operation needs a device that this machine, or this build of torch, does not have."""


@final
class RunError(FlodlError):
    """A run directory is not there, is there already, or is held by another process.

    Example:
        >>> from flodl import RunDirectory, RunError
        >>> try:
        ...     RunDirectory.open("/no/such/run")
        ... except RunError:
        ...     print("there is no run here")
        there is no run here
    """


@final
class TrainingError(FlodlError):
    """A training was set up in a way that cannot work, or what it was given failed."""


@final
class NonFiniteError(FlodlError):
    """A loss is infinite or not a number; the message names the step, the batch and the parameters.

    Attributes:
        epoch: the epoch, from 0.
        step: the step, from 0.
        position: the batch of the epoch, from 0.
        culprits: names of parameters or modules whose values are not finite, the first one first.

    Example:
        >>> from flodl import NonFiniteError
        >>> NonFiniteError("the loss is nan", epoch=0, step=3, position=3, culprits=("fc.weight",)).step
        3
    """

    def __init__(
        self, message: str, *, epoch: int, step: int, position: int, culprits: tuple[str, ...] = ()
    ) -> None:
        self.epoch = epoch
        self.step = step
        self.position = position
        self.culprits = culprits
        super().__init__(message)


@final
class UnknownNameError(FlodlError):
    """A path, tag or metric does not exist; the message lists those that do.

    Example:
        >>> from flodl.errors import UnknownNameError
        >>> from flodl.observe.metrics import MetricLog
        >>> try:
        ...     MetricLog().trend("loss")
        ... except UnknownNameError as error:
        ...     print(error)
        there is no metric `loss` (known: none)
    """
