"""Settings of a training, as one value that can be stored and compared."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, final

import torch

from flodl.errors import DeviceError, TrainingError
from flodl.runs.checkpoints import Keep
from flodl.step.recipe import Precision
from flodl.step.step import Mode

if TYPE_CHECKING:
    from flodl.distributed.team.place import Place

_DIVIDE: Final = '`.devices("all")` and `.policy("sync")` to `Trainer.builder(...)`'
OnSignal = Literal["exit", "return"]
Exactness: TypeAlias = Literal["sum", "bits"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Every number and choice of a training.  Positive where they count something.

    Attributes:
        epochs: epochs in total, those before a resume included.
        max_steps: end after so many batches, in total.
        max_seconds: end after so much time, in this process.
        step: how a step runs; see `make_step`.
        precision: `bf16` or `fp16` for mixed precision.
        clip_norm: the limit for the norm of all gradients.
        accumulate: batches per update.
        ema: the decay of averaged weights; none are kept without it.
        fused: use fused optimizer kernels where they were left open.
        seed: seeds everything before the model is made.
        nan_guard: end with `NonFiniteError` at the first loss that is infinite or not a number.
        flush_every: steps between two looks at the losses on a device.
        progress: show progress; `None` for yes, unless a monitor shows it.
        evaluate_every: epochs between two evaluations.
        save_steps: steps between two checkpoints.
        save_seconds: seconds between two checkpoints.
        save_epochs: epochs between two checkpoints.
        save_beside: write checkpoints beside the training, from a copy; by default those that take long.
        keep: which checkpoints stay.
        on_signal: end the process after a signal was obeyed, or return the state as it is.
    """

    epochs: int = 1
    max_steps: int | None = None
    max_seconds: float | None = None
    step: Mode = "auto"
    precision: Precision | None = None
    clip_norm: float | None = None
    accumulate: int = 1
    ema: float | None = None
    fused: bool = True
    seed: int | None = None
    nan_guard: bool = True
    flush_every: int = 50
    progress: bool | None = None
    evaluate_every: int = 1
    save_steps: int | None = None
    save_seconds: float | None = None
    save_epochs: int | None = 1
    save_beside: bool | None = None
    keep: Keep = field(default_factory=Keep)
    on_signal: OnSignal = "exit"

    def __post_init__(self) -> None:
        problems = [
            f"{name} is {value}; it must be above 0"
            for name in _COUNTS
            if (value := self._value(name)) is not None and not value > 0
        ]
        if self.epochs < 0:
            problems.append(f"epochs is {self.epochs}; it cannot be negative")
        if self.ema is not None and not 0.0 <= self.ema < 1.0:
            problems.append(f"ema is {self.ema}; a decay is at least 0 and below 1")
        if problems:
            raise TrainingError("; ".join(problems))

    def _value(self, name: str) -> Any:
        return getattr(self, name)

    def plain(self) -> dict[str, Any]:
        """Return all of it as plain values, without which checkpoints stay."""
        return {each.name: self._value(each.name) for each in fields(self) if each.name != "keep"}


def hyper_parameters(
    settings: Settings, optimizer: torch.optim.Optimizer, data: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the choices that decide how well a model trains, as plain values; defaults are left out.

    Args:
        settings: those of the training.
        optimizer: its optimizer; several groups give lists.
        data: the identity of the batches.
    """
    found: dict[str, Any] = {"optimizer": type(optimizer).__name__}
    groups = optimizer.param_groups
    for name in _OPTIMIZER:
        # A schedule of torch has changed the rates already, and keeps the first ones under this name.
        values = [_plain(group.get(f"initial_{name}", group.get(name))) for group in groups]
        if any(values):
            found[name] = values[0] if len(set(map(str, values))) == 1 else values
    found |= {name: data[name] for name in ("batch_size", "sampler") if data.get(name)}
    found["epochs"] = settings.epochs
    plain, default = settings.plain(), Settings().plain()
    found |= {name: plain[name] for name in _DECISIVE if plain[name] != default[name]}
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.item()
    return list(value) if isinstance(value, tuple) else value


def require_one_process(cure: str = _DIVIDE) -> None:
    """Refuse to be one of several processes, which would train models that know nothing of each other.

    Args:
        cure: the words to add so that they train one model.

    Raises:
        DeviceError: a launcher such as torchrun has started several.
    """
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        count = max(count, torch.distributed.get_world_size())
    if count > 1:
        raise DeviceError(
            f"this is one of {count} processes (WORLD_SIZE), and each would train a model of its own; add "
            f"{cure}, start the script without a launcher, or use torch's DistributedDataParallel in a loop "
            "of your own"
        )


def started_place() -> Place | None:
    """Return the place of this process among those that a launcher started, if any."""
    if "RANK" not in os.environ and "FLODL_STORE" not in os.environ:
        return None
    # Here, so that a training on one device does not import it.
    from flodl.distributed.team.place import place_of

    return place_of(os.environ)


_OPTIMIZER = ("lr", "momentum", "betas", "alpha", "weight_decay", "nesterov", "amsgrad")
_DECISIVE = ("max_steps", "precision", "clip_norm", "accumulate", "ema", "seed")
# Settings that do not decide the numbers of a run.
HARMLESS = (
    "epochs", "max_steps", "max_seconds", "nan_guard", "flush_every", "progress", "save_steps",
    "save_seconds", "save_epochs", "save_beside", "on_signal",
)  # fmt: skip
_COUNTS = (
    "max_steps", "max_seconds", "clip_norm", "accumulate", "flush_every", "evaluate_every",
    "save_steps", "save_seconds", "save_epochs",
)  # fmt: skip


def chosen_device(wanted: str | torch.device | None) -> torch.device:
    """Return the device to train on: the requested one, else a GPU, else the CPU.

    Raises:
        DeviceError: the device is not there.
    """
    if wanted is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    device = torch.device(wanted)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise DeviceError(
            f"{device} was asked for, and torch sees no GPU here; leave it away for the CPU"
        )
    return device


def named_devices(devices: int | str | Sequence[str]) -> tuple[str, ...]:
    """Return the names of devices to train on; none for one device that is chosen as without `devices`.

    Args:
        devices: names; a number of GPUs, or of processes on the CPU where there is no GPU; or `"all"` for
            every GPU, else the CPU.

    Raises:
        DeviceError: there is none, or a device is not there.
    """
    gpus = [f"cuda:{index}" for index in range(torch.cuda.device_count())]
    if devices == "all":
        devices = gpus or 1
    if isinstance(devices, str):
        devices = [devices]
    if devices == 1:
        return ()
    if isinstance(devices, int) and gpus and devices > len(gpus):
        raise DeviceError(
            f"{devices} devices were asked for, and only {', '.join(gpus)} is there; name the devices, "
            'as in ["cuda:0", "cpu"]'
        )
    names = (
        (gpus or ["cpu"] * devices)[: max(devices, 0)]
        if isinstance(devices, int)
        else list(devices)
    )
    if not names:
        raise DeviceError(
            f"{devices!r} names no device; give a number, names such as 'cuda:0', or \"all\""
        )
    for name in names:
        chosen_device(name)
    return tuple(names)
