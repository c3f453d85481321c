"""Training of switched models with the tools of Hugging Face: the same losses and weights, bit for bit."""

import copy
import warnings

import pytest
import torch

import flodl.hf
from tests.flodl.hf.tiny import gpt2

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def pair(library):
    plain = gpt2(library)
    with warnings.catch_warnings():
        return plain, flodl.hf.graph(copy.deepcopy(plain))


def tokens():
    return torch.randint(4, 60, (16, 9), generator=torch.Generator().manual_seed(1))


def trained(model, folder):
    """Train with the `Trainer` of transformers; return the losses."""
    import transformers

    settings = transformers.TrainingArguments(
        str(folder), num_train_epochs=2, per_device_train_batch_size=4, report_to=[], logging_steps=1,
        save_strategy="no", use_cpu=True, seed=0, disable_tqdm=True,
    )  # fmt: skip
    data = [{"input_ids": row, "labels": row} for row in tokens()]
    trainer = transformers.Trainer(model, settings, train_dataset=data)
    trainer.train()
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def equal_states(one, other):
    states = one.state_dict(), other.state_dict()
    return list(states[0]) == list(states[1]) and all(
        torch.equal(a, b) for a, b in zip(*(each.values() for each in states), strict=True)
    )


def test_trainer_of_transformers_gives_the_same_losses_and_weights(pair, tmp_path):
    pytest.importorskip(
        "accelerate", reason="accelerate is not installed: `pip install accelerate`"
    )
    plain, twin = pair
    assert trained(plain, tmp_path) == trained(twin, tmp_path)
    assert equal_states(plain, twin)


def test_lora_of_peft_gives_the_same_losses_and_weights(pair, tmp_path):
    peft = pytest.importorskip("peft", reason="peft is not installed: `pip install peft`")
    pytest.importorskip(
        "accelerate", reason="accelerate is not installed: `pip install accelerate`"
    )
    settings = peft.LoraConfig(r=4, target_modules=["c_attn"], fan_in_fan_out=True)
    made = []
    for model in pair:
        torch.manual_seed(1)
        made.append(peft.get_peft_model(model, settings))
    plain, twin = made
    assert trained(plain, tmp_path) == trained(twin, tmp_path)
    assert equal_states(plain, twin)


def test_gradient_checkpointing_gives_the_same_gradients(pair):
    for model in pair:
        model.gradient_checkpointing_enable()
        torch.manual_seed(3)
        model.train()(input_ids=tokens(), labels=tokens()).loss.backward()
    plain, twin = pair
    for one, other in zip(plain.parameters(), twin.parameters(), strict=True):
        assert torch.equal(one.grad, other.grad)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_moved_model_computes_the_same(pair, dtype):
    plain, twin = (each.to(dtype).eval() for each in pair)
    with torch.no_grad():
        assert torch.equal(plain(tokens()).logits, twin(tokens()).logits)
    assert twin.lm_head.weight is twin.transformer.wte.weight  # tied as before
