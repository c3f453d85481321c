"""`make_step`: the training step in the requested mode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, final, get_args

import torch

from flodl.nn.optimizers import require_trains
from flodl.step.captured import require_cuda
from flodl.step.eager import EagerStep
from flodl.step.fusing import fuse
from flodl.step.recipe import Precision, Recipe, TrainFn
from flodl.step.tiering import Tiering, TriedMode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor, nn, optim

    from flodl.step.ema import Ema

Mode: TypeAlias = Literal["eager", "graph", "compiled", "auto"]
Report: TypeAlias = "Callable[[str], object]"
_SCALERS = (torch.amp.GradScaler, torch.cuda.amp.GradScaler)


@final
class TrainStep:
    """A training step: `loss = step(batch)`; the loss stays on the device, nothing waits for it.

    Example:
        >>> import torch
        >>> from flodl import TrainStep, make_step
        >>> model = torch.nn.Linear(2, 1)
        >>> optimizer = torch.optim.Adam(model.parameters())
        >>> step = make_step(model, optimizer, lambda m, b: m(b).mean(), mode="eager")
        >>> isinstance(step, TrainStep), step.decision
        (True, 'eager with fused Adam')

    Attributes:
        asked: the requested mode.
        recipe: model, optimizer, loss, and what happens between backward and update.
        decision: the running mode and why, in one line.
    """

    def __init__(self, recipe: Recipe, asked: Mode, report: Report | None) -> None:
        self.asked = asked
        self.decision = ""
        self.recipe = recipe
        self._report = report
        self._eager = EagerStep(recipe)
        self._tiering: Tiering | None = None

    def __call__(self, batch: Any) -> Tensor:
        """Train on one batch and return its loss, detached."""
        if self._tiering is None:
            return self._eager(batch)
        return self._tiering(batch)

    @property
    def mode(self) -> str:
        """The running mode: `eager`, `graph` or `compiled`."""
        return "eager" if self._tiering is None else self._tiering.mode

    @property
    def metrics(self) -> Mapping[str, Tensor]:
        """The metrics that the train function returned in the last step, on the device."""
        return self._eager.metrics

    @property
    def gradient_norm(self) -> Tensor | None:
        """The norm of all gradients before the last clipping, on the device."""
        return self._eager.gradient_norm

    @property
    def scaler(self) -> torch.amp.GradScaler | None:
        """The scaler of the loss, if there is one."""
        return self._eager.scaler

    @property
    def at_boundary(self) -> bool:
        """Whether the last batch ended an accumulation, so that no gradients are pending."""
        return self._eager.position == 0

    def flush(self) -> bool:
        """Update with the batches of an unfinished accumulation; return whether there were any."""
        if self.at_boundary:
            return False
        if self._tiering is None:
            self._eager.update()
        else:
            self._tiering.update()
        return True

    def say(self, line: str) -> None:
        """Note and report what runs now and why."""
        self.decision = line
        if self._report is not None:
            self._report(line)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of a resumed run beyond model and optimizer: scaler, averages, accumulation."""
        eager = self._eager
        state: dict[str, Any] = {"position": eager.position}
        if eager.position:
            state["gradients"] = eager.gradients()
        if eager.scaler is not None:
            state["scaler"] = eager.scaler.state_dict()
        if self.recipe.ema is not None:
            state["ema"] = self.recipe.ema.state_dict()
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from a saved state; parts that it does not mention start again.

        Raises:
            ValueError: the state is from the middle of an epoch of which ranks trained separate parts.
        """
        require_consecutive(state_dict)
        self._eager.restore(int(state_dict.get("position", 0)), state_dict.get("gradients", []))
        if self._eager.scaler is not None and state_dict.get("scaler"):
            self._eager.scaler.load_state_dict(dict(state_dict["scaler"]))
        if self.recipe.ema is not None and "ema" in state_dict:
            self.recipe.ema.load_state_dict(dict(state_dict["ema"]))

    def foresee(self, batches_left: Callable[[], float | None]) -> None:
        """Let `auto` weigh the batches that are left against the cost of a compiled step.

        Args:
            batches_left: returns their number, or `None` if it is not known; then one is always tried.

        Example:
            >>> import torch
            >>> from flodl import make_step
            >>> model = torch.nn.Linear(2, 1)
            >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            >>> step = make_step(model, optimizer, lambda m, b: m(b).mean())
            >>> step.foresee(lambda: 20)
        """
        if self._tiering is not None:
            self._tiering.batches_left = batches_left

    def close(self) -> None:
        """End background work; the step can still be called."""
        if self._tiering is not None:
            self._tiering.close()

    def climb(self) -> None:
        """Prepare the requested mode beyond eager steps."""
        recipe = self.recipe
        cuda = recipe.device().type == "cuda"
        if recipe.scaled and cuda:
            why = "whether an fp16 update is skipped is known on the GPU, and a captured step would wait"
            self.say(f"{self.decision}: {why}; precision='bf16' needs no such decision")
        elif recipe.scaler is not None and type(recipe.scaler) not in _SCALERS:
            self.say(f"{self.decision}: how a {type(recipe.scaler).__name__} scales is its own")
        elif recipe.accumulate > 1 and self.asked == "graph":
            why = "a CUDA graph holds a whole step, and this one gathers gradients over batches"
            self.say(f"{self.decision}: {why}; use mode='compiled' or 'auto'")
        else:
            tried_modes: tuple[TriedMode, ...] = ("compiled",)
            if self.asked == "graph":
                tried_modes = ("graph",)
            elif self.asked == "auto" and cuda and not recipe.in_parts:
                tried_modes = ("graph", "compiled")
            wanted = self.asked != "auto"
            self._tiering = Tiering(
                self._eager, self.say, patient=wanted, measured=not wanted, tried_modes=tried_modes
            )


def make_step(  # noqa: PLR0913  # each is one decision of the caller
    model: nn.Module,
    optimizer: optim.Optimizer,
    train_fn: TrainFn,
    *,
    mode: Mode = "auto",
    clip_norm: float | None = None,
    precision: Precision | None = None,
    accumulate: int = 1,
    ema: Ema | None = None,
    scaler: torch.amp.GradScaler | None = None,
    fused: bool = True,
    report: Report | None = None,
) -> TrainStep:
    """Return the training step of a model.

    Args:
        model: any module.
        optimizer: any optimizer of its parameters.
        train_fn: `train_fn(model, batch)` returns the loss, or `(loss, {"name": tensor})`.
        mode: how the step runs; `auto` starts with `eager` and moves on when that is proved and faster.
        clip_norm: clip the norm of all gradients to this before the update.
        precision: run the forward under autocast; `fp16` scales the loss.
        accumulate: update after this many batches, with the mean of their gradients.
        ema: averages that follow the weights.
        scaler: scales the loss; without one, `fp16` makes one.
        fused: use the fused kernel of the optimizer where it was left open.
        report: called with one line whenever another way of running the step is chosen.

    Raises:
        ValueError: an argument is out of range.
        DeviceError: `mode="graph"` without a GPU.
        TrainingError: the optimizer holds parameters of another model.

    Example:
        >>> import torch
        >>> from flodl import make_step
        >>> model = torch.nn.Linear(2, 1)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> step = make_step(model, optimizer, lambda m, b: (m(b) - 1).square().mean(), mode="eager")
        >>> losses = [step(torch.ones(4, 2)).item() for _ in range(20)]
        >>> losses[-1] < losses[0], step.mode
        (True, 'eager')
    """
    _check(mode, precision, accumulate, clip_norm)
    require_trains(optimizer, model)
    recipe = Recipe(
        model=model, optimizer=optimizer, train_fn=train_fn, clip_norm=clip_norm,
        precision=precision, accumulate=accumulate, ema=ema, scaler=scaler,
    )  # fmt: skip
    if mode == "graph":
        require_cuda(recipe)
    update = fuse(optimizer) if fused else type(optimizer).__name__
    step = TrainStep(recipe, mode, report)
    step.say(f"eager with {update}")
    if mode != "eager":
        step.climb()
    return step


def require_consecutive(state: Mapping[str, Any]) -> None:
    """Refuse a state of an epoch of which ranks trained separate parts, because its position is no number.

    Raises:
        ValueError: it is such a state.
    """
    if not state.get("cadence", {}).get("complete", True):
        raise ValueError(
            "this checkpoint is from the middle of an epoch with policy cadence, in which each rank trains "
            "a part of its own; continue with .policy('cadence'), on any number of devices, or from the "
            "end of an epoch"
        )


def _check(mode: str, precision: str | None, accumulate: int, clip_norm: float | None) -> None:
    if mode not in get_args(Mode):
        raise ValueError(f"mode is one of {', '.join(get_args(Mode))}, got {mode!r}")
    if precision is not None and precision not in get_args(Precision):
        raise ValueError(f"precision is bf16, fp16 or None, got {precision!r}")
    if accumulate < 1:
        raise ValueError(f"accumulate is at least 1, got {accumulate}")
    if clip_norm is not None and not clip_norm > 0:
        raise ValueError(f"clip_norm is above 0, got {clip_norm}")
