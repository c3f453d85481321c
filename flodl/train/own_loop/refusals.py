"""Limits of a loop of your own in one of several processes, each refused with its cure."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader as TorchLoader

from flodl.errors import TrainingError


def require_policy(policy: str | None, exact: str) -> None:
    """Refuse a policy that needs a loop of the library.

    Raises:
        TrainingError: the message names the cure.

    Example:
        >>> require_policy("sync", "bits")
        >>> require_policy("cadence", "sum")
        Traceback (most recent call last):
        ...
        flodl.errors.TrainingError: policy 'cadence' lets each process train windows of its own length, \
so the library must have the loop: use `Trainer.builder(...).policy("cadence")`, or policy="sync" here
    """
    if policy is not None and str(policy) in ("cadence", "async"):
        raise TrainingError(
            f"policy {str(policy)!r} lets each process train windows of its own length, so the library must "
            f'have the loop: use `Trainer.builder(...).policy("{policy}")`, or policy="sync" here'
        )
    if policy is not None and str(policy) != "sync":
        raise TrainingError(
            f'there is no policy {str(policy)!r}; a loop of your own has policy="sync"'
        )
    if exact not in ("sum", "bits"):
        raise TrainingError(
            f'there is no exact={exact!r}: use "sum", equal to one process up to rounding, or "bits", equal '
            "to the bit for two or more processes"
        )


def require_divisible(accumulate: int, processes: int) -> None:
    """Refuse an update that has too few batches for the processes.

    Raises:
        TrainingError: a process would never train.

    Example:
        >>> require_divisible(4, 2)
    """
    if accumulate < processes:
        raise TrainingError(
            f"an update has {accumulate} of the batches, in total over {processes} processes, and a batch is "
            f"not divided: give accumulate={processes} or more, or start {accumulate}"
        )


def require_shareable(model: nn.Module, data: Any) -> None:
    """Refuse a model or data that another library divides over processes already.

    Raises:
        TrainingError: the message names the cure.

    Example:
        >>> require_shareable(nn.Linear(1, 1), [torch.ones(2, 1)])
    """
    if data is None:
        raise TrainingError(
            "a session of several processes divides the batches, so it needs them: give "
            "`Trainer.setup(..., data=...)`, and loop over `session.batches(epoch)`"
        )
    if isinstance(model, nn.parallel.DistributedDataParallel):
        raise TrainingError(
            'DistributedDataParallel sums gradients in each batch, and policy="sync" in each update: give '
            "the plain model"
        )
    sampler = data.sampler if isinstance(data, TorchLoader) else None
    if isinstance(sampler, torch.utils.data.DistributedSampler) and sampler.num_replicas > 1:
        raise TrainingError(
            "the DistributedSampler of the data divides the samples, and `session.batches` divides the "
            "batches: leave the sampler out (shuffle=True), or make it with num_replicas=1, rank=0"
        )
