"""Trainings under several policies in numbers, and the table that shows them.

Example: two seeds on one device, and on two with policy Cadence.

    runs     one device  seed 0  40 batches/s  loss 0.31      cadence  seed 0  76 batches/s  loss 0.33
             one device  seed 1  42 batches/s  loss 0.29      cadence  seed 1  74 batches/s  loss 0.31

    table    policy      devices  batches/s  speed  share  loss             weights
             one device        1         41   1.00      -  0.3000 ± 0.0141  -
             cadence           2         75   1.83   0.97  0.3200 ± 0.0141  0.02
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Final, final

ONE_DEVICE: Final = "one device"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRun:
    """One training of a comparison.

    Attributes:
        policy: `one device`, or the policy: `sync`, `cadence`, `async`.
        devices: how many devices trained.
        seed: the seed of the training.
        seconds: time of the epochs after the first, which also imports and traces; of the first if it is
            the only one. Evaluation and the start of processes are not in it.
        steps: batches of these epochs.
        loss: mean loss of the last epoch.
        scalars: all means of the last epoch, by name.
        share_of_ideal: part of the batches that the devices could have trained if none had waited; 0 for one.
        distance: distance of the weights from those of one device, relative to their length; 0 if they
            are equal to the bit.

    Example:
        >>> from flodl.train.comparison import PolicyRun
        >>> PolicyRun(policy="cadence", devices=2, seed=0, seconds=2.0, steps=100, loss=0.5).steps_per_second
        50.0
    """

    policy: str
    devices: int
    seed: int
    seconds: float
    steps: int
    loss: float
    scalars: Mapping[str, float] = field(default_factory=dict)
    share_of_ideal: float = 0.0
    distance: float = 0.0

    @property
    def steps_per_second(self) -> float:
        """Batches per second, of all devices together; 0 if no time was measured."""
        return self.steps / self.seconds if self.seconds else 0.0


@final
@dataclass(frozen=True, slots=True)
class PolicyComparison:
    """The trainings of a comparison; `print(comparison)` shows a table with a line for each policy.

    A cell with `±` has the mean over seeds, and their standard deviation.

    Attributes:
        runs: the trainings, in the order in which they ran.

    Example:
        >>> from flodl.train.comparison import PolicyComparison, PolicyRun
        >>> made = PolicyComparison((
        ...     PolicyRun(policy="one device", devices=1, seed=0, seconds=2.0, steps=80, loss=0.31),
        ...     PolicyRun(policy="sync", devices=2, seed=0, seconds=1.6, steps=80, loss=0.31),
        ... ))
        >>> made.speed("sync")
        1.25
        >>> print(made)
        policy      devices  batches/s  speed  share  loss    weights
        one device        1         40   1.00      -  0.3100        -
        sync              2         50   1.25      -  0.3100    equal
    """

    runs: tuple[PolicyRun, ...]

    @property
    def policies(self) -> tuple[str, ...]:
        """The policies, in order; one device first."""
        return tuple(dict.fromkeys(each.policy for each in self.runs))

    def of(self, policy: str) -> tuple[PolicyRun, ...]:
        """Return the trainings of a policy, one for each seed.

        Raises:
            KeyError: the comparison has no such policy.
        """
        found = tuple(each for each in self.runs if each.policy == policy)
        if not found:
            raise KeyError(f"{policy!r} was not compared; there are {', '.join(self.policies)}")
        return found

    def speed(self, policy: str) -> float:
        """Return how many times as many batches per second as one device a policy trains.

        Raises:
            KeyError: the comparison has no such policy, or no training on one device.
        """
        alone, ours = _rate(self.of(ONE_DEVICE)), _rate(self.of(policy))
        return ours / alone if alone else 0.0

    def to_json(self) -> str:
        """Return all runs as JSON."""
        return json.dumps([asdict(each) for each in self.runs], indent=2)

    def __str__(self) -> str:
        names = self._scalar_names()
        head = ["policy", "devices", "batches/s", "speed", "share", "loss", *names, "weights"]
        lines = [head, *(self._line(policy, names) for policy in self.policies)]
        # The first column is text, and so are those of several seeds; the others are numbers.
        is_text = [column in (0, *range(5, 6 + len(names))) for column in range(len(head))]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join(
                cell.ljust(width) if text else cell.rjust(width)
                for cell, width, text in zip(line, widths, is_text, strict=True)
            ).rstrip()
            for line in lines
        )

    def _scalar_names(self) -> list[str]:
        """Return the names of the means that each run has, without the loss."""
        common = (
            set.intersection(*(set(each.scalars) for each in self.runs)) if self.runs else set()
        )
        return sorted(common - {"loss"})

    def _line(self, policy: str, names: Sequence[str]) -> list[str]:
        runs = self.of(policy)
        shares = [each.share_of_ideal for each in runs if each.share_of_ideal]
        has_reference = ONE_DEVICE in self.policies
        return [
            policy,
            str(runs[0].devices),
            f"{_rate(runs):.4g}",
            f"{self.speed(policy):.2f}" if has_reference else "-",
            f"{statistics.fmean(shares):.2f}" if shares else "-",
            _spread([each.loss for each in runs]),
            *(_spread([each.scalars[name] for each in runs]) for name in names),
            _distance(runs) if has_reference and policy != ONE_DEVICE else "-",
        ]


def _rate(runs: Sequence[PolicyRun]) -> float:
    """Return the mean batches per second."""
    return statistics.fmean(each.steps_per_second for each in runs)


def _spread(numbers: Sequence[float]) -> str:
    """Return the mean, and the standard deviation of several numbers."""
    mean = statistics.fmean(numbers)
    if len(numbers) < 2 or not all(map(math.isfinite, numbers)):
        return f"{mean:.4f}"
    return f"{mean:.4f} ± {statistics.stdev(numbers):.4f}"


def _distance(runs: Sequence[PolicyRun]) -> str:
    largest = max(each.distance for each in runs)
    return f"{largest:.1g}" if largest else "equal"
