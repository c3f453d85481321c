"""Made-up scripts compute the same bits, draw the same numbers and write into the same memory."""

import pytest
from hypothesis import given, settings

from tests.porter.conftest import Porter
from tests.porter.porter_sources import scripts

pytestmark = pytest.mark.torch


def run(text, mode):
    """Run the first class of a script a few times; return everything that can be seen."""
    import torch

    space = {"__name__": "script"}
    exec(text, space)  # made by our own strategy
    torch.manual_seed(0)
    net = space["Net0"]()
    net.train(mode)
    seen = []
    for size, extra in ((4, False), (4, True), (4, False)):
        torch.manual_seed(1)
        x = torch.randn(size, 4)
        kept = x.clone().requires_grad_(True)
        given_ = kept * 1
        y = torch.randn(size, 4) if extra else None
        try:
            out = net(given_, y)
        except Exception as error:  # the scripts are made up: some do not run
            seen.append(type(error).__name__)
            continue
        seen += [out.detach().clone(), given_.detach().clone(), torch.rand(1)]
        if out.requires_grad:
            try:
                grads = torch.autograd.grad(
                    out.sum(), [kept, *net.parameters()], allow_unused=True
                )
            except RuntimeError:
                seen.append("no gradient")
            else:
                seen += [None if grad is None else grad.clone() for grad in grads]
    return seen


def same(old, new):
    import torch

    if isinstance(old, torch.Tensor):
        return isinstance(new, torch.Tensor) and torch.equal(old.nan_to_num(), new.nan_to_num())
    return old == new


@pytest.mark.parametrize("training", [True, False])
@settings(max_examples=40)
@given(text=scripts())
@pytest.mark.slow
def test_made_up_scripts(training, text):
    before = run(text, training)
    ported = Porter().text(text)
    after = run(ported, training)
    assert len(before) == len(after), ported
    for old, new in zip(before, after, strict=True):
        if not (isinstance(old, str) and isinstance(new, str)):
            assert same(old, new), ported
