"""Every loss against the formula written out by hand, in values, dtypes and gradients."""

import math

import pytest
import torch
import torch.nn.functional as F

from flodl.nn import losses

pytestmark = pytest.mark.torch

CASES = {
    "mse_loss": (lambda a, b, i: (a, b), lambda a, b, i: ((a - b) ** 2).mean()),
    "l1_loss": (lambda a, b, i: (a, b), lambda a, b, i: (a - b).abs().mean()),
    "smooth_l1_loss": (
        lambda a, b, i: (a, b, 0.5),
        lambda a, b, i: torch.where(
            (a - b).abs() < 0.5, (a - b) ** 2, (a - b).abs() - 0.25
        ).mean(),
    ),
    "cross_entropy_loss": (
        lambda a, b, i: (a, i),
        lambda a, b, i: -(a - a.logsumexp(1, keepdim=True))[torch.arange(len(i)), i].mean(),
    ),
    "nll_loss": (
        lambda a, b, i: (a.log_softmax(1), i),
        lambda a, b, i: -a.log_softmax(1)[torch.arange(len(i)), i].mean(),
    ),
    "bce_loss": (
        lambda a, b, i: (a.sigmoid(), (b > 0).to(b.dtype)),
        lambda a, b, i: -torch.where(b > 0, a.sigmoid().log(), (1 - a.sigmoid()).log()).mean(),
    ),
    "bce_with_logits_loss": (
        lambda a, b, i: (a, (b > 0).to(b.dtype)),
        lambda a, b, i: -torch.where(b > 0, a.sigmoid().log(), (1 - a.sigmoid()).log()).mean(),
    ),
    "kl_div_loss": (
        lambda a, b, i: (a.log_softmax(1), b.softmax(1)),
        lambda a, b, i: (b.softmax(1) * (b.log_softmax(1) - a.log_softmax(1))).sum() / len(a),
    ),
    "focal_loss": (
        lambda a, b, i: (a, i, 0.25, 2.0),
        lambda a, b, i: (
            -0.25
            * (1 - a.softmax(1)[torch.arange(len(i)), i]) ** 2
            * a.log_softmax(1)[torch.arange(len(i)), i]
        ).mean(),
    ),
    "triplet_margin_loss": (
        lambda a, b, i: (a, b, b.flip(0), 1.0),
        lambda a, b, i: (
            ((a - b).norm(dim=1) - (a - b.flip(0)).norm(dim=1) + 1).clamp_min(0).mean()
        ),
    ),
    "cosine_embedding_loss": (
        lambda a, b, i: (a, b, 1 - 2 * (i % 2), 0.1),
        lambda a, b, i: torch.where(
            i % 2 == 0,
            1 - F.cosine_similarity(a, b),
            (F.cosine_similarity(a, b) - 0.1).clamp_min(0),
        ).mean(),
    ),
    "hinge_embedding_loss": (
        lambda a, b, i: (a, torch.where(b > 0, 1.0, -1.0).to(a.dtype), 1.0),
        lambda a, b, i: torch.where(b > 0, a, (1 - a).clamp_min(0)).mean(),
    ),
    "margin_ranking_loss": (
        lambda a, b, i: (a[:, 0], a[:, 1], torch.where(b[:, 0] > 0, 1.0, -1.0).to(a.dtype), 0.5),
        lambda a, b, i: (
            (-torch.where(b[:, 0] > 0, 1.0, -1.0) * (a[:, 0] - a[:, 1]) + 0.5).clamp_min(0).mean()
        ),
    ),
    "poisson_nll_loss": (
        lambda a, b, i: (a, b.abs()),
        lambda a, b, i: (a.exp() - b.abs() * a).mean(),
    ),
}


def example(dtype):
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(6, 4, dtype=torch.float64, generator=generator).to(dtype)
    b = torch.randn(6, 4, dtype=torch.float64, generator=generator).to(dtype)
    return a.requires_grad_(), b, torch.tensor([0, 1, 2, 3, 1, 0])


@pytest.mark.parametrize("name", CASES)
def test_value_and_gradient_follow_the_formula(name):
    arguments, formula = CASES[name]
    a, b, i = example(torch.float64)
    value = getattr(losses, name)(*arguments(a, b, i))
    expected = formula(a, b, i)
    torch.testing.assert_close(value, expected, rtol=1e-5, atol=1e-6)
    (got,) = torch.autograd.grad(value, a, retain_graph=True)
    (wanted,) = torch.autograd.grad(expected, a)
    torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_dtype_stays(name, dtype):
    arguments, _ = CASES[name]
    assert getattr(losses, name)(*arguments(*example(dtype))).dtype == dtype


@pytest.mark.parametrize("name", CASES)
def test_reductions_agree(name):
    arguments, _ = CASES[name]
    function = getattr(losses, name)
    given = arguments(*example(torch.float64))
    each = function(*given, reduction="none")
    torch.testing.assert_close(function(*given, reduction="sum"), each.sum())
    mean = each.sum() / len(each) if name == "kl_div_loss" else each.mean()
    torch.testing.assert_close(function(*given), mean)


def test_ctc_loss_of_the_only_alignment():
    log_probabilities = torch.randn(3, 1, 4, dtype=torch.float64).log_softmax(2)
    target = torch.tensor([[1, 2, 3]])
    lengths = torch.tensor([3])
    # Three frames for three different labels leave one way to say them.
    expected = -(
        log_probabilities[0, 0, 1] + log_probabilities[1, 0, 2] + log_probabilities[2, 0, 3]
    )
    value = losses.ctc_loss(log_probabilities, target, lengths, lengths)
    torch.testing.assert_close(value, expected / 3)


def test_ignored_targets_count_for_nothing():
    logits = torch.randn(3, 4)
    target = torch.tensor([1, -100, 2])
    value = losses.cross_entropy_loss(logits, target)
    torch.testing.assert_close(value, F.cross_entropy(logits[[0, 2]], target[[0, 2]]))


def test_cross_entropy_takes_probabilities():
    logits = torch.randn(3, 4)
    soft = F.one_hot(torch.tensor([1, 0, 3]), 4).float()
    torch.testing.assert_close(
        losses.cross_entropy_loss(logits, soft),
        losses.cross_entropy_loss(logits, torch.tensor([1, 0, 3])),
    )


def test_focal_loss_of_binary_decisions():
    logits = torch.randn(5, dtype=torch.float64)
    target = torch.tensor([0.0, 1.0, 1.0, 0.0, 1.0], dtype=torch.float64)
    p = torch.where(target == 1, logits.sigmoid(), 1 - logits.sigmoid())
    expected = (-0.25 * (1 - p) ** 2 * p.log()).mean()
    torch.testing.assert_close(losses.focal_loss(logits, target), expected)


def test_focal_loss_is_finite_where_the_model_is_sure():
    logits = torch.tensor([[80.0, -80.0], [-80.0, 80.0]], requires_grad=True)
    value = losses.focal_loss(logits, torch.tensor([0, 0]))
    value.backward()
    assert math.isclose(value.item(), 0.25 * 160 / 2, rel_tol=1e-5)
    assert torch.isfinite(logits.grad).all()


def test_triplet_gradient_at_distance_zero_is_finite():
    anchor = torch.ones(2, 3, requires_grad=True)
    losses.triplet_margin_loss(anchor, torch.ones(2, 3), torch.ones(2, 3)).backward()
    assert torch.isfinite(anchor.grad).all()


def test_smooth_l1_needs_a_positive_beta():
    with pytest.raises(ValueError, match="beta > 0"):
        losses.smooth_l1_loss(torch.ones(1), torch.ones(1), 0.0)


def test_poisson_of_rates():
    rate, count = torch.tensor([0.5, 2.0]), torch.tensor([1.0, 3.0])
    expected = (rate - count * torch.log(rate + 1e-8)).mean()
    torch.testing.assert_close(losses.poisson_nll_loss(rate, count, log_input=False), expected)
