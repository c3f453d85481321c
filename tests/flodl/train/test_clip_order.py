"""Clipping with optimizer groups in another order than the model's: the bits of the plain loop.

The norm of all gradients is a sum of floats, and the order of its terms is that of the model.
"""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from flodl import Trainer, make_step
from flodl.nn.parameters import in_model_order

pytestmark = pytest.mark.torch

LIMIT = 0.05


def make_model():
    torch.manual_seed(3)
    layers = [nn.Linear(8, 8) for _ in range(6)]
    return nn.Sequential(
        *(part for layer in layers for part in (layer, nn.LayerNorm(8), nn.Tanh()))
    )


def make_optimizer(model):
    """Two groups, as timm and nanoGPT make them: weights that decay, and the rest."""
    decay = [each for each in model.parameters() if each.dim() > 1]
    rest = [each for each in model.parameters() if each.dim() <= 1]
    groups = [{"params": rest, "weight_decay": 0.0}, {"params": decay, "weight_decay": 0.1}]
    return torch.optim.AdamW(groups, lr=1e-2)


def train_step(model, batch):
    x, y = batch
    return F.mse_loss(model(x), y)


def batches():
    generator = torch.Generator().manual_seed(0)
    return [tuple(torch.randn(2, 4, 8, generator=generator)) for _ in range(20)]


def plain(order=lambda model, optimizer: model.parameters()):
    model = make_model()
    optimizer = make_optimizer(model)
    norms = []
    for batch in batches():
        optimizer.zero_grad()
        train_step(model, batch).backward()
        norms.append(nn.utils.clip_grad_norm_(order(model, optimizer), LIMIT))
        optimizer.step()
    return norms, model.state_dict()


def same(one, other):
    return all(torch.equal(one[name], other[name]) for name in one)


def test_order_of_the_groups_gives_other_bits():
    def by_groups(_model, optimizer):
        return [each for group in optimizer.param_groups for each in group["params"]]

    assert not same(plain()[1], plain(by_groups)[1])


def test_eager_step_clips_as_the_plain_loop():
    norms, expected = plain()
    model = make_model()
    step = make_step(
        model, make_optimizer(model), train_step, mode="eager", clip_norm=LIMIT, fused=False
    )
    found = []
    for batch in batches():
        step(batch)
        found.append(step.gradient_norm)
    assert same(model.state_dict(), expected)
    assert all(map(torch.equal, found, norms))


def test_session_clips_as_the_plain_loop():
    model = make_model()
    session = Trainer.setup(model, make_optimizer(model), max_grad_norm=LIMIT)
    for batch in batches():
        train_step(model, batch).backward()
        session.step()
    assert same(model.state_dict(), plain()[1])


@pytest.mark.slow
def test_compiled_step_clips_as_the_plain_loop():
    norms, _ = plain()
    model = make_model()
    step = make_step(model, make_optimizer(model), train_step, mode="compiled", clip_norm=LIMIT)
    for batch, norm in zip(batches(), norms, strict=True):
        step(batch)
        torch.testing.assert_close(step.gradient_norm, norm, rtol=1e-5, atol=0)


def test_order_of_the_model_keeps_what_is_not_in_it():
    model = make_model()
    other = nn.Parameter(torch.ones(1))
    mixed = [other, *reversed(list(model.parameters()))]
    ordered = in_model_order(model, mixed)
    assert [id(each) for each in ordered] == [*map(id, model.parameters()), id(other)]


def test_group_that_is_added_later_is_clipped_too():
    model = make_model()
    twin = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model[0].parameters(), lr=0.1)
    with pytest.warns(UserWarning, match="optimizer"):  # parts of the model are not trained yet
        session = Trainer.setup(model, optimizer, max_grad_norm=LIMIT)
    first, second = batches()[:2]
    train_step(model, first).backward()
    session.step()
    optimizer.add_param_group({"params": list(model[3].parameters())})
    train_step(model, second).backward()
    session.step()
    mine = torch.optim.SGD(twin[0].parameters(), lr=0.1)
    train_step(twin, first).backward()
    nn.utils.clip_grad_norm_(twin[0].parameters(), LIMIT)
    mine.step()
    mine.zero_grad()
    mine.add_param_group({"params": list(twin[3].parameters())})
    train_step(twin, second).backward()
    nn.utils.clip_grad_norm_([*twin[0].parameters(), *twin[3].parameters()], LIMIT)
    mine.step()
    assert same(model.state_dict(), twin.state_dict())
