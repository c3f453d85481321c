"""A whole step as one CUDA graph: the kernels of the eager step, launched together without Python."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, final

import torch

from flodl.errors import DeviceError
from flodl.step.batch_key import rebuilt
from flodl.step.binding import twin
from flodl.step.eager import EagerStep
from flodl.step.refusal import RefusedStepError
from flodl.step.step_guards import StepGuards

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor, optim

    from flodl.step.recipe import Recipe

_WARM_STEPS = 3  # torch wants libraries to be set up on a side stream before it records
_TOLERANCE = 1e-4  # for models whose eager steps are not repeatable either


def require_cuda(recipe: Recipe) -> None:
    """Check that the step runs on a GPU.

    Raises:
        DeviceError: it does not.
    """
    device = recipe.device()
    if device.type != "cuda":
        raise DeviceError(
            f"mode='graph' records a CUDA graph, and the parameters are on {device}; "
            "move the model to a GPU before its optimizer is made, or use mode='compiled' or 'auto'"
        )


def make_capturable(optimizer: optim.Optimizer) -> None:
    """Let an optimizer keep its counters and rates where a recorded kernel finds them.

    Raises:
        RefusedStepError: its update waits for the CPU.
    """
    for group in optimizer.param_groups:
        device = group["params"][0].device
        if "capturable" in group:
            group["capturable"] = True
        elif not group.get("fused") and not group.get("foreach", True):
            raise RefusedStepError(f"{type(optimizer).__name__} cannot be captured")
        if not isinstance(group["lr"], torch.Tensor):
            group["lr"] = torch.tensor(float(group["lr"]), device=device)
        for each in group["params"]:
            state = optimizer.state.get(each, {})
            for name in ("step", "mu_product"):
                if isinstance(state.get(name), torch.Tensor):
                    state[name] = state[name].to(device, torch.float32)


@final
class GraphStep:
    """The recorded step of one shape of batches.

    Attributes:
        metrics: those of the last step.
        gradient_norm: that of the last step, if it clips.
    """

    def __init__(self, recipe: Recipe, batch: Any, tensors: Sequence[Tensor]) -> None:
        """Record the step; model and optimizer stay as they are."""
        self._recipe = recipe
        self._inputs = [each.clone() for each in tensors]
        self._eager = EagerStep(recipe)
        groups = recipe.optimizer.param_groups
        trained = [each for group in groups for each in group["params"]]
        self._rates = [group["lr"] for group in groups]
        self._settings = self._look()
        recipe.optimizer.zero_grad(set_to_none=True)
        held = rebuilt(batch, iter(self._inputs))
        self._graph = torch.cuda.CUDAGraph()
        # Other threads use the GPU meanwhile: a monitor fetches values, a loader copies.
        with torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
            self._loss = self._eager(held)
        self._step_guards = StepGuards(recipe, trained)
        self.metrics: dict[str, Tensor] = {}
        self.gradient_norm: Tensor | None = None

    def _look(self) -> list[tuple[object, ...]]:
        """Return the settings of the optimizer that the recorded kernels contain."""
        rest = [
            {name: each for name, each in group.items() if name not in ("params", "lr")}
            for group in self._recipe.optimizer.param_groups
        ]
        return [tuple(sorted((name, str(each)) for name, each in group.items())) for group in rest]

    def stale(self) -> str | None:
        """Return why the recording no longer says what the step is."""
        return self._step_guards.stale()

    def __call__(self, tensors: Sequence[Tensor]) -> Tensor | None:
        """Run the step on the tensors of a batch; nothing if the update is no longer the recorded one."""
        if self._look() != self._settings:
            return None
        for group, rate in zip(self._recipe.optimizer.param_groups, self._rates, strict=True):
            if group["lr"] is not rate:
                rate.fill_(float(group["lr"]))
                group["lr"] = rate
        torch._foreach_copy_(self._inputs, list(tensors), non_blocking=True)
        self._graph.replay()
        # The next replay overwrites what this one returns.
        self.metrics = {name: each.clone() for name, each in self._eager.metrics.items()}
        norm = self._eager.gradient_norm
        self.gradient_norm = None if norm is None else norm.clone()
        return self._loss.clone()


def prove_graph(
    recipe: Recipe, batches: Sequence[Any], tensors: Sequence[Sequence[Tensor]]
) -> str:
    """Record and replay on a copy, run eagerly on another, and return how far they differ, in words.

    Raises:
        RefusedStepError: the step cannot be recorded, or does something else when it is replayed.
    """
    device = recipe.device().index or 0
    with torch.random.fork_rng(devices=[device]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one, other = twin(recipe), twin(recipe)
        eager, warm = EagerStep(other), EagerStep(one)
        start = torch.cuda.get_rng_state(device)
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(_WARM_STEPS):
                warm(batches[0])
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.set_rng_state(start, device)  # both draw the same masks of dropout
        for _ in range(_WARM_STEPS):
            eager(batches[0])
        state = torch.cuda.get_rng_state(device)
        try:
            step = GraphStep(one, batches[0], tensors[0])
        except RuntimeError as error:
            raise RefusedStepError(f"recording failed: {str(error).splitlines()[0]}") from error
        losses = [step(each) for each in tensors]
        torch.cuda.set_rng_state(state, device)
        expected = [eager(each) for each in batches]
    found = torch.stack([each for each in losses if each is not None])
    wanted = torch.stack(expected)
    pairs = zip(one.model.state_dict().values(), other.model.state_dict().values(), strict=True)
    if torch.equal(found, wanted) and all(torch.equal(a, b) for a, b in pairs):
        return f"bit-identical to eager in {len(batches)} steps"
    worst = float(((found - wanted).abs() / wanted.abs().clamp(min=1e-12)).max())
    if not worst <= _TOLERANCE:
        raise RefusedStepError(f"its losses differ from eager ones by {worst:.1e}")
    return f"losses within {worst:.0e} of eager in {len(batches)} steps"
