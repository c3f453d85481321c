"""Losses and metrics of an epoch: summed in order, with no waiting for a GPU inside the loop."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol, final

import torch
from torch import Tensor

from flodl.errors import TrainingError
from flodl.observe.stored_values import require_count, require_number
from flodl.train.scalars import drain_scalars


class Meter(Protocol):
    """Takes the loss and the metrics of every step.

    Attributes:
        last: the last loss that has been looked at.
    """

    last: float

    def add(self, loss: Tensor, metrics: Mapping[str, Tensor], /) -> bool:
        """Take one step; return whether a check is due at once."""
        ...

    def flush(self) -> int:
        """Bring everything to the host; return how many steps ago a loss was first not finite, else -1."""
        ...

    def means(self) -> dict[str, float]:
        """Return the means since the epoch began, and begin a new one."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return the sums of the epoch so far."""
        ...

    def load_state_dict(self, state: dict[str, Any], /) -> None:
        """Continue an epoch."""
        ...


def meter_for(device: torch.device, capacity: int) -> Meter:
    """Return the meter that suits a device."""
    return HostMeter() if device.type == "cpu" else DeviceMeter(device, capacity)


@final
class _Sums:
    """Sums and counts by name, added in the order of the steps, so that they do not depend on flushes."""

    def __init__(self) -> None:
        self.sums: dict[str, float] = {}
        self.counts: dict[str, int] = {}

    def add(self, name: str, value: float) -> None:
        self.sums[name] = self.sums.get(name, 0.0) + value
        self.counts[name] = self.counts.get(name, 0) + 1

    def means(self) -> dict[str, float]:
        found = {name: self.sums[name] / count for name, count in self.counts.items()}
        self.sums, self.counts = {}, {}
        return found

    def add_recorded(self) -> None:
        for name, values in drain_scalars().items():
            for value in values:
                self.add(name, value)

    def state_dict(self) -> dict[str, Any]:
        return {"sums": dict(self.sums), "counts": dict(self.counts)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        sums, counts = dict(state["sums"]), dict(state["counts"])
        if sums.keys() != counts.keys():
            raise ValueError("sums and counts have different names")
        for name, total in sums.items():
            require_number(name, total)
            require_count(name, counts[name])
        self.sums, self.counts = sums, counts


@final
class HostMeter:
    """On the CPU reading a number costs nothing, so a bad loss is noticed in its own step."""

    def __init__(self) -> None:
        self.last = math.nan
        self._since = 0
        self._broken = -1
        self._total = 0.0
        self._count = 0
        self._others = _Sums()

    def add(self, loss: Tensor, metrics: Mapping[str, Tensor]) -> bool:
        """Take one step; return whether the loss is not finite."""
        self.last = value = loss.item()
        self._total += value
        self._count += 1
        if metrics:
            for name, each in metrics.items():
                self._others.add(name, _number(name, each))
        self._since += 1
        if value - value == 0.0:  # an infinite value or NaN does not give 0
            return False
        if self._broken < 0:
            self._broken = self._since
        return True

    def flush(self) -> int:
        """Take what `record_scalar` has put aside."""
        self._others.add_recorded()
        behind = self._since - self._broken if self._broken >= 0 else -1
        self._since, self._broken = 0, -1
        return behind

    def means(self) -> dict[str, float]:
        """Return the means since the epoch began, and begin a new one."""
        self.flush()
        loss = {"loss": self._total / self._count} if self._count else {}
        self._total, self._count = 0.0, 0
        return {**loss, **self._others.means()}

    def state_dict(self) -> dict[str, Any]:
        """Return the sums of the epoch so far."""
        self._others.add_recorded()
        return {**self._others.state_dict(), "loss": [self._total, self._count]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue an epoch."""
        total, count = state["loss"]
        require_number("loss", total)
        require_count("loss", count)
        self._others.load_state_dict(state)
        self._total, self._count = total, count


@final
class DeviceMeter:
    """On a GPU values are put in a row there and fetched together, one flush after the copy began."""

    def __init__(self, device: torch.device, capacity: int) -> None:
        self.last = math.nan
        self._device = device
        self._capacity = capacity
        self._rows: dict[str, tuple[Tensor, tuple[Tensor, ...]]] = {}
        self._filled: dict[str, int] = {}
        self._sums = _Sums()

    def add(self, loss: Tensor, metrics: Mapping[str, Tensor]) -> bool:
        """Take one step."""
        self._put("loss", loss)
        if metrics:
            for name, each in metrics.items():
                if each.numel() != 1:
                    _number(name, each)
                self._put(name, each)
        return self._filled["loss"] == self._capacity

    def _put(self, name: str, value: Tensor) -> None:
        if name not in self._rows:
            dtype = value.dtype if value.is_floating_point() else torch.float64
            row = torch.zeros(self._capacity, dtype=dtype, device=self._device)
            self._rows[name] = (row, row.unbind())
        place = self._filled.get(name, 0)
        self._rows[name][1][place].copy_(value.detach().reshape(()))
        self._filled[name] = place + 1

    def flush(self) -> int:
        """Fetch everything in one go."""
        behind = -1
        fetched = {
            name: self._rows[name][0][:count].to("cpu", non_blocking=True)
            for name, count in self._filled.items()
        }
        if fetched and self._device.type == "cuda":
            torch.cuda.current_stream(self._device).synchronize()
        for name, row in fetched.items():
            values = row.tolist()
            for value in values:
                self._sums.add(name, value)
            if name == "loss":
                self.last = values[-1]
                bad = [index for index, value in enumerate(values) if not math.isfinite(value)]
                behind = len(values) - 1 - bad[0] if bad else -1
        self._filled = {}
        self._sums.add_recorded()
        return behind

    def means(self) -> dict[str, float]:
        """Return the means since the epoch began, and begin a new one."""
        self.flush()
        return self._sums.means()

    def state_dict(self) -> dict[str, Any]:
        """Return the sums of the epoch so far."""
        self.flush()
        return self._sums.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue an epoch."""
        state = dict(state)
        loss = state.pop("loss", None)  # written on a CPU
        self._sums.load_state_dict(state)
        if loss and loss[1]:
            self._sums.sums["loss"], self._sums.counts["loss"] = loss


def _number(name: str, value: Tensor) -> float:
    if value.numel() != 1:
        raise TrainingError(
            f"the metric `{name}` has the shape {list(value.shape)}; a metric is one number per step, "
            "such as its mean"
        )
    return float(value)
