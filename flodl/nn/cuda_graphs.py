"""CUDA graphs: record the kernels of a fixed-shape step once and replay them without Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, final

import torch
from torch.utils import _pytree as pytree

from flodl.errors import DeviceError

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

CudaEvent = torch.cuda.Event
"""`torch.cuda.Event`: a point in the work of a GPU, to wait for or to time."""

CudaStream = torch.cuda.Stream
"""`torch.cuda.Stream`: a queue of work for a GPU."""

CaptureMode = Literal["global", "thread_local", "relaxed"]


def _require_cuda() -> None:
    if not torch.cuda.is_available():
        raise DeviceError(
            f"CUDA graphs need a CUDA device, and torch {torch.__version__} finds none; run the step "
            "eagerly, or `fdl diagnose` to see why"
        )


def _new_stream() -> torch.cuda.Stream:
    return torch.cuda.Stream()  # type: ignore[no-untyped-call]


@final
class CudaGraph:
    """A recording of CUDA work; shapes and addresses are fixed, inputs are refreshed with `copy_`.

    While recording, nothing may wait for the GPU: no `.item()`, no data-dependent Python.
    """

    def __init__(self) -> None:
        _require_cuda()
        self._graph = torch.cuda.CUDAGraph()
        self._stream = _new_stream()
        self._scope: Any = None

    def capture_begin(self, pool: Any = None, mode: CaptureMode = "relaxed") -> None:
        """Begin to record on a stream of the graph's own."""
        self._stream.wait_stream(torch.cuda.current_stream())
        self._scope = torch.cuda.stream(self._stream)
        self._scope.__enter__()
        arguments = {} if pool is None else {"pool": pool}
        self._graph.capture_begin(capture_error_mode=mode, **arguments)

    def capture_end(self) -> None:
        """End the recording.

        Raises:
            DeviceError: nothing is being recorded.
        """
        if self._scope is None:
            raise DeviceError("capture_end() without capture_begin()")
        try:
            self._graph.capture_end()
        finally:
            self._scope.__exit__(None, None, None)
            self._scope = None
        torch.cuda.current_stream().wait_stream(self._stream)

    def replay(self) -> None:
        """Run what was recorded."""
        self._graph.replay()

    def reset(self) -> None:
        """Forget the recording and its memory."""
        self._graph.reset()

    def pool(self) -> Any:
        """Return the memory pool, to share with another graph."""
        return self._graph.pool()


def cuda_graph_pool_handle() -> Any:
    """Return a fresh memory pool for several graphs to share.

    Raises:
        DeviceError: there is no GPU.
    """
    _require_cuda()
    return torch.cuda.graph_pool_handle()


def cuda_graph_capture(
    warmup: int, pool: Any, fn: Callable[[], Any], mode: CaptureMode = "relaxed"
) -> CudaGraph:
    """Run `fn` `warmup` times on a side stream, then record it once more.

    Raises:
        DeviceError: there is no GPU.
    """
    graph = CudaGraph()
    side = _new_stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(warmup):
            fn()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph.capture_begin(pool, mode)
    try:
        fn()
    finally:
        graph.capture_end()
    return graph


def _detached(value: Any) -> Any:
    return value.detach() if isinstance(value, torch.Tensor) else value


@final
class CapturedStep:
    """A training step as one replay: `captured(x, y)` copies the batch in, replays, and returns the loss.

    The optimizer must be capturable (`Adam(params, lr, capturable=True)`); every batch must have the
    shapes of the examples.  The returned tensors are overwritten by the next call.
    """

    def __init__(
        self, step: Callable[..., Any], examples: tuple[Tensor, ...], *, warmup: int = 3
    ) -> None:
        """Warm up and record.

        Args:
            step: takes the batch, does forward, backward and update, returns tensors.
            examples: a batch on the GPU.
            warmup: how often to run the step before recording; these are real updates.
        """
        _require_cuda()
        self._inputs = tuple(each.clone() for each in examples)
        self._outputs: Any = None

        def run() -> None:
            # A loss that keeps its autograd graph would tie the recording to the stream of the warm-up.
            self._outputs = pytree.tree_map(_detached, step(*self._inputs))

        self._graph = cuda_graph_capture(warmup, None, run)

    def __call__(self, *batch: Tensor) -> Any:
        """Run one step on a batch.

        Raises:
            ValueError: the batch does not have the recorded shapes.
        """
        shapes = [tuple(each.shape) for each in batch]
        recorded = [tuple(each.shape) for each in self._inputs]
        if shapes != recorded:
            raise ValueError(
                f"the step was recorded for shapes {recorded}, this batch has {shapes}"
            )
        for held, fresh in zip(self._inputs, batch, strict=True):
            held.copy_(fresh, non_blocking=True)
        self._graph.replay()
        return self._outputs
