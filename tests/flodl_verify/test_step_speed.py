"""Weights of two trainings: equal bit for bit, apart by rounding, or different."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from flodl_verify.compare.step_speed import ROUNDINGS, compared  # noqa: E402
from flodl_verify.sides import step_variants  # noqa: E402
from flodl_verify.sides.wire import Store  # noqa: E402

pytestmark = pytest.mark.torch
EPS = torch.finfo(torch.float32).eps


def weights() -> list[torch.Tensor]:
    draws = torch.Generator().manual_seed(0)
    return [torch.randn(6, 5, generator=draws), torch.randn(5, generator=draws)]


def moved(by: float) -> list[torch.Tensor]:
    return [each * (1 + by) for each in weights()]


def test_compared_same_bits_are_equal_also_nan() -> None:
    assert compared(weights(), weights(), moved(1e-3)) == ("equal", 0.0, 0.0)
    lost = [torch.full((3,), math.nan)]
    assert compared(lost, [each.clone() for each in lost], lost)[0] == "equal"


def test_compared_last_bits_are_rounding_with_their_distance() -> None:
    equality, difference, rounding = compared(weights(), moved(2 * EPS), moved(3 * EPS))
    assert equality == "rounding"
    assert difference == pytest.approx(2 * EPS, rel=0.3)
    assert rounding == pytest.approx(3 * EPS, rel=0.3)


@pytest.mark.parametrize(("factor", "wanted"), [(0.8, "rounding"), (1.3, "different")])
def test_compared_limit_is_the_rounding_that_was_added(factor: float, wanted: str) -> None:
    added = 1e-4
    assert compared(weights(), moved(factor * ROUNDINGS * added), moved(added))[0] == wanted


def test_compared_one_small_tensor_that_differs_is_enough() -> None:
    own = [torch.randn(1000, 100), torch.full((2,), 1e-6)]
    fused = [own[0].clone(), torch.full((2,), 1.1e-6)]
    shaken = [own[0] * (1 + 1e-4), own[1] * (1 + 1e-4)]
    equality, difference, _ = compared(own, fused, shaken)
    assert equality == "different"
    assert difference == pytest.approx(0.1, rel=1e-3)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_compared_number_that_is_none_is_different(value: float) -> None:
    other = weights()
    other[0][0, 0] = value
    assert compared(weights(), other, moved(1e-3))[0] == "different"


def test_compared_other_forms_are_different() -> None:
    assert compared(weights(), weights()[:1], weights())[0] == "different"
    assert compared(weights(), [each.double() for each in weights()], weights())[0] == "different"
    assert (
        compared(weights(), [each.reshape(-1) for each in weights()], weights())[0] == "different"
    )


def test_compared_weights_of_zero_have_no_rounding() -> None:
    zero, small = [torch.zeros(3)], [torch.full((3,), 1e-20)]
    assert compared(zero, small, zero)[0] == "different"


def test_copy_with_weights_too_large_to_compare_tells_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copy = step_variants._Copy("own", None, Store.make())  # type: ignore[arg-type]
    weight = torch.nn.Parameter(torch.ones(4))
    copy._optimizers.append(torch.optim.SGD([weight], 0.1))
    (row,) = copy._weights() or ()
    dtype, shape, _ = row
    assert (dtype, shape) == ("torch.float32", [4])
    monkeypatch.setattr(step_variants, "MAX_WEIGHT_BYTES", 15)
    assert copy._weights() is None
