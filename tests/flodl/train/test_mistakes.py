"""What is said of mistakes: bad losses, batches, settings, devices and functions that raise."""

import math

import pytest
import torch
from torch.utils.data import TensorDataset

from flodl import (
    Ddp,
    DeviceError,
    NonFiniteError,
    Trainer,
    TrainingError,
)
from tests.flodl.train.small_training import BATCHES, X, Y, builder, make, sgd, train_step

pytestmark = pytest.mark.torch


def test_a_callback_that_raises_is_named():
    def breaks(training, metrics):
        raise KeyError("x")

    with pytest.raises(KeyError) as caught:
        builder().on("epoch", breaks).run()
    assert "raised by the on_epoch callback `test_a_callback" in caught.value.__notes__[0]
    assert "test_mistakes.py:" in caught.value.__notes__[0]


def test_builder_optimizer_of_another_model_raises():
    other = make()
    with pytest.raises(TrainingError, match="holds no parameter of the Sequential"):
        builder(optimizer=sgd(other.parameters())).run()
    with pytest.raises(TrainingError, match="holds no parameter of the Sequential"):
        Trainer(make(), sgd(other.parameters()), train_step).fit(BATCHES)


def test_a_train_function_that_raises_tells_where():
    def breaks(model, batch):
        if torch.equal(batch[0], BATCHES[3][0]):
            raise ZeroDivisionError
        return train_step(model, batch)

    with pytest.raises(ZeroDivisionError) as caught:
        builder(fn=breaks).num_epochs(2).run()
    assert caught.value.__notes__ == ["in step 3 of the training (epoch 0, batch 3)"]


def test_a_loss_of_several_numbers_is_named_with_its_shape():
    def several(model, batch):
        return (model(batch[0]) - batch[1]).square()

    with pytest.raises(
        TrainingError, match=r"the loss has the shape \[8, 1\].* `loss\.mean\(\)`"
    ) as caught:
        builder(fn=several).run()
    assert caught.value.__notes__ == ["in step 0 of the training (epoch 0, batch 0)"]
    with pytest.raises(TrainingError, match=r"returned 'loss' with the shape \[8, 1\]"):
        builder().evaluate(BATCHES, several).run()
    model = make()
    session = Trainer.setup(model, sgd)
    with pytest.raises(TrainingError, match=r"the loss has the shape \[8, 1\]"):
        session.backward(several(model, BATCHES[0]))
    builder(fn=lambda model, batch: several(model, batch).mean().reshape(1)).run()


@pytest.mark.parametrize(("bad", "said"), [(math.nan, "nan"), (math.inf, "inf")])
def test_a_bad_loss_names_step_batch_and_parameter(bad, said):
    def explodes(model, batch):
        loss = train_step(model, batch)
        return loss * (bad if torch.equal(batch[0], BATCHES[2][0]) else 1.0)

    with pytest.raises(NonFiniteError) as caught:
        builder(fn=explodes).num_epochs(3).run()
    error = caught.value
    assert (error.epoch, error.step, error.position) == (0, 2, 2)
    assert f"the loss of step 2 (epoch 0, batch 2) is {said}" in str(error)
    assert error.culprits[0] == "0.weight"
    assert "the first gradient that is not finite is `0.weight`" in str(error)


def test_a_bad_batch_is_told_from_a_bad_weight():
    broken = [*BATCHES[:1], (torch.full((8, 3), math.nan), BATCHES[1][1])]
    with pytest.raises(NonFiniteError, match="24 of 24 values of `0` are not finite"):
        builder(broken).run()
    state = builder(broken).nan_guard(False).num_epochs(2).run().join()
    assert math.isnan(state.history[-1].avg_loss)


@pytest.mark.parametrize(
    ("prepare", "said"),
    [
        (lambda: Trainer.builder(make, sgd, train_step), "there is no data: add"),
        (lambda: builder([]), "the list of batches is empty"),
        (lambda: builder(TensorDataset(X, Y)), "say how many make a batch"),
        (lambda: builder(3), "int gives no batches"),
        (lambda: builder(iter(BATCHES)).num_epochs(2), "gives its batches only once"),
        (lambda: builder(iter([])), "the data gave no batches in epoch 0"),
        (lambda: builder(model=lambda: 3), "the model factory returned int"),
        (lambda: builder(optimizer=lambda params: 3), "the optimizer factory returned int"),
        (lambda: builder(optimizer=3), "int makes no optimizer"),
        (lambda: builder().accumulate(0), "accumulate is 0; it must be above 0"),
        (lambda: builder().ema(1.5), "a decay is at least 0 and below 1"),
        (lambda: builder().scheduler(lambda o: 3), "the scheduler function returned int"),
        (lambda: builder().scheduler(3), "int is no schedule"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_mistakes_are_said(prepare, said):
    with pytest.raises(TrainingError, match=said):
        prepare().run()


def test_one_device_is_said_and_not_silently_taken():
    assert builder().device("cpu").devices(1).run().devices() == (torch.device("cpu"),)
    assert builder().devices(1).device("cpu").run().devices() == (torch.device("cpu"),)
    if not torch.cuda.is_available():
        with pytest.raises(DeviceError, match="torch sees no GPU"):
            builder().device("cuda").run()


def test_one_of_several_processes_is_refused(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(DeviceError, match="this is one of 2 processes"):
        builder().run()


def test_old_names_warn():
    with pytest.warns(DeprecationWarning, match=r"Ddp\.builder is called Trainer\.builder now"):
        Ddp.builder(make, sgd, train_step)
