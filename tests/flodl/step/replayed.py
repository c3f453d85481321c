"""Steps that are recorded and replayed without a compiler, and the same steps eagerly."""

import torch

from flodl.nn.optimizers import Adam
from flodl.step.ema import Ema
from flodl.step.step import make_step
from tests.flodl.step.helpers import batches, net, train_fn


def both(optimizer, *, make=net, fn=train_fn, data=None, between=lambda *parts: None, **settings):
    """Run the same steps compiled and eagerly; return both models and the losses."""
    found = []
    for mode in ("compiled", "eager"):
        model = make()
        made = optimizer(model)
        if settings.pop("with_ema", False) or "ema" in settings:
            settings["ema"] = Ema(model, 0.9)
        step = make_step(model, made, fn, mode=mode, **settings)
        torch.manual_seed(3)
        losses = []
        for number, batch in enumerate(data or batches()):
            losses.append(step(batch))
            between(number, model, made, step)
        found.append((model, torch.stack(losses), step))
    return found


def assert_close(found, **tolerance):
    (model, losses, step), (twin, expected, _) = found
    assert step.mode == "compiled", step.decision
    torch.testing.assert_close(losses, expected, **tolerance)
    for (name, a), b in zip(model.state_dict().items(), twin.state_dict().values(), strict=True):
        torch.testing.assert_close(a, b, msg=name, **tolerance)


def compiled_step(model, fn=train_fn, optimizer=None, steps=2, **settings):
    said = []
    step = make_step(
        model, optimizer or Adam(model, 0.01), fn, mode="compiled", report=said.append, **settings
    )
    for batch in batches(steps):
        step(batch)
    return step, said
