"""The fifteen losses, as functions on torch's own; each reduces to the mean unless told otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch.nn.functional as F

if TYPE_CHECKING:
    from torch import Tensor

Reduction = Literal["mean", "sum", "none"]


def mse_loss(prediction: Tensor, target: Tensor, *, reduction: Reduction = "mean") -> Tensor:
    """Return the squared error.

    Example:
        >>> import torch
        >>> mse_loss(torch.tensor([1.0, 3.0]), torch.tensor([1.0, 1.0]))
        tensor(2.)
    """
    return F.mse_loss(prediction, target, reduction=reduction)


def l1_loss(prediction: Tensor, target: Tensor, *, reduction: Reduction = "mean") -> Tensor:
    """Return the absolute error."""
    return F.l1_loss(prediction, target, reduction=reduction)


def smooth_l1_loss(
    prediction: Tensor, target: Tensor, beta: float = 1.0, *, reduction: Reduction = "mean"
) -> Tensor:
    """Return the absolute error, quadratic below `beta`.

    Raises:
        ValueError: `beta` is not positive.
    """
    if beta <= 0:
        raise ValueError(
            f"smooth_l1_loss needs beta > 0, got {beta}; l1_loss has no quadratic part"
        )
    return F.smooth_l1_loss(prediction, target, reduction=reduction, beta=beta)


def cross_entropy_loss(
    logits: Tensor,
    target: Tensor,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: Reduction = "mean",
) -> Tensor:
    """Return the cross entropy of logits `[B, C, ...]`.

    Args:
        logits: unnormalised scores.
        target: class indices `[B, ...]` (int64), or probabilities of the shape of `logits`.
        ignore_index: a class index that counts for nothing.
        label_smoothing: how much of the target is spread over all classes.
        reduction: how the losses of the samples become one.
    """
    return F.cross_entropy(
        logits,
        target,
        ignore_index=ignore_index,
        label_smoothing=label_smoothing,
        reduction=reduction,
    )


def nll_loss(
    log_probabilities: Tensor,
    target: Tensor,
    *,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Tensor:
    """Return the negative log likelihood of class indices, from log probabilities."""
    return F.nll_loss(log_probabilities, target, ignore_index=ignore_index, reduction=reduction)


def bce_loss(probabilities: Tensor, target: Tensor, *, reduction: Reduction = "mean") -> Tensor:
    """Return the binary cross entropy of probabilities."""
    return F.binary_cross_entropy(probabilities, target, reduction=reduction)


def bce_with_logits_loss(
    logits: Tensor,
    target: Tensor,
    *,
    pos_weight: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    """Return the binary cross entropy of logits."""
    return F.binary_cross_entropy_with_logits(
        logits, target, pos_weight=pos_weight, reduction=reduction
    )


def kl_div_loss(
    log_probabilities: Tensor,
    target: Tensor,
    *,
    reduction: Literal["batchmean", "mean", "sum", "none"] = "batchmean",
) -> Tensor:
    """Return the Kullback-Leibler divergence from log probabilities to probabilities, per batch row."""
    return F.kl_div(log_probabilities, target, reduction=reduction)


def ctc_loss(  # the order of torch's own ctc_loss
    log_probabilities: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    blank: int = 0,
    *,
    zero_infinity: bool = False,
    reduction: Reduction = "mean",
) -> Tensor:
    """Return the connectionist temporal classification loss of log probabilities `[T, N, C]`."""
    return F.ctc_loss(
        log_probabilities,
        targets,
        input_lengths,
        target_lengths,
        blank=blank,
        reduction=reduction,
        zero_infinity=zero_infinity,
    )


def focal_loss(
    logits: Tensor,
    target: Tensor,
    alpha: float = 0.25,
    gamma: float = 2.0,
    *,
    reduction: Reduction = "mean",
) -> Tensor:
    """Return the focal loss: cross entropy that fades for samples which are already right.

    Each sample counts `-alpha * (1 - p)**gamma * log(p)`, where `p` is the probability of its true
    class.  Everything is computed from logits, so that confident samples do not overflow.

    Args:
        logits: `[N, C]` with class indices `[N]`, or any shape with 0/1 targets of the same shape
            and a floating dtype, where each element is a separate binary decision.
        target: class indices, or 0/1 values.
        alpha: weight of every sample.
        gamma: how fast easy samples fade; 0 gives `alpha` times the cross entropy.
        reduction: how the losses of the samples become one.

    Example:
        >>> import torch
        >>> focal_loss(torch.zeros(2, 2), torch.tensor([0, 1]), alpha=1.0, gamma=0.0)
        tensor(0.6931)
    """
    if target.is_floating_point() and target.shape == logits.shape:
        log_p = -F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    else:
        log_p = -F.cross_entropy(logits, target, reduction="none")
    # 1 - exp(log_p) would lose every digit where the model is sure.
    losses = -alpha * (-log_p.expm1()).pow(gamma) * log_p
    if reduction == "mean":
        return losses.mean()
    return losses.sum() if reduction == "sum" else losses


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    *,
    reduction: Reduction = "mean",
) -> Tensor:
    """Return how much farther than `margin` the negative should be from the anchor than the positive."""
    return F.triplet_margin_loss(anchor, positive, negative, margin=margin, reduction=reduction)


def cosine_embedding_loss(
    first: Tensor,
    second: Tensor,
    target: Tensor,
    margin: float = 0.0,
    *,
    reduction: Reduction = "mean",
) -> Tensor:
    """Return `1 - cos` for pairs with target 1 and `max(0, cos - margin)` for those with -1."""
    return F.cosine_embedding_loss(first, second, target, margin=margin, reduction=reduction)


def hinge_embedding_loss(
    distance: Tensor, target: Tensor, margin: float = 1.0, *, reduction: Reduction = "mean"
) -> Tensor:
    """Return the distance where the target is 1, and `max(0, margin - distance)` where it is -1."""
    return F.hinge_embedding_loss(distance, target, margin=margin, reduction=reduction)


def margin_ranking_loss(
    first: Tensor,
    second: Tensor,
    target: Tensor,
    margin: float = 0.0,
    *,
    reduction: Reduction = "mean",
) -> Tensor:
    """Return `max(0, -target * (first - second) + margin)`."""
    return F.margin_ranking_loss(first, second, target, margin=margin, reduction=reduction)


def poisson_nll_loss(
    prediction: Tensor,
    target: Tensor,
    log_input: bool = True,
    *,
    reduction: Reduction = "mean",
) -> Tensor:
    """Return the negative log likelihood of counts; `log_input` says that rates are given as logs."""
    return F.poisson_nll_loss(prediction, target, log_input=log_input, reduction=reduction)
