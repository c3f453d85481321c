"""Compiled steps of models of transformers against a plain loop with the original classes."""

import copy

import pytest
import torch

import flodl
import flodl.hf
from flodl.step import tiering
from flodl.step.artifact import compiler_missing
from flodl.step.step import make_step
from tests.flodl.hf.tiny import bert, gpt2, llama, vit
from tests.flodl.step.helpers import Replay

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

FULL, RIGHT, LEFT, NONE = "full", "right", "left", "none"
MASKS = [FULL, FULL, RIGHT, RIGHT, FULL, LEFT, NONE, NONE, RIGHT, FULL, LEFT, NONE]
MODELS = {"bert": bert, "gpt2": gpt2, "llama": llama, "vit": vit}


@pytest.fixture
def replay(monkeypatch):
    """Let recorded steps be replayed where others are compiled."""
    monkeypatch.setattr(tiering, "Compilation", Replay)
    monkeypatch.setattr(tiering, "compiler_missing", lambda device: None)


def mask_of(kind):
    mask = torch.ones(4, 9, dtype=torch.long)
    if kind == RIGHT:
        mask[0, 6:] = mask[2, 4:] = 0
    elif kind == LEFT:
        mask[1, :3] = 0
    return mask


def texts(kinds, *, classified):
    """Return batches of tokens with each kind of mask in turn; the lengths of all are equal."""
    drawn = torch.Generator().manual_seed(1)
    batches = []
    for kind in kinds:
        tokens = torch.randint(4, 60, (4, 9), generator=drawn)
        labels = torch.randint(0, 2, (4,), generator=drawn) if classified else tokens.clone()
        given = {"input_ids": tokens, "labels": labels}
        if kind != NONE:
            mask = mask_of(kind)
            given["attention_mask"] = mask
            if not classified:
                labels[mask == 0] = -100
        batches.append(given)
    return batches


def pictures(count):
    drawn = torch.Generator().manual_seed(1)
    return [
        {
            "pixel_values": torch.randn(4, 3, 16, 16, generator=drawn),
            "labels": torch.randint(0, 3, (4,), generator=drawn),
        }
        for _ in range(count)
    ]


def batches_of(family, kinds=MASKS):
    if family == "vit":
        return pictures(len(kinds))
    return texts(kinds, classified=family == "bert")


def loss_of(model, batch):
    return model(**batch).loss


def plain_loop(model, batches):
    """Train as a loop of one's own does, with torch and transformers alone."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    torch.manual_seed(3)
    losses = []
    for batch in batches:
        optimizer.zero_grad()
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().clone())
    return torch.stack(losses)


def stepped(model, batches, *, between=lambda number: None, **settings):
    """Train with compiled steps; return losses, modes and what was said."""
    said, modes, losses = [], [], []
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    step = make_step(model, optimizer, loss_of, mode="compiled", report=said.append, **settings)
    torch.manual_seed(3)
    for number, batch in enumerate(batches):
        between(number)
        losses.append(step(batch).clone())
        modes.append(step.mode)
    return torch.stack(losses), modes, said


def require_equal(model, losses, twin, expected):
    torch.testing.assert_close(losses, expected, rtol=1e-4, atol=1e-5)
    for (name, one), other in zip(
        model.state_dict().items(), twin.state_dict().values(), strict=True
    ):
        # AdamW makes a whole step of the rounding where a gradient should be zero, as in keys' biases.
        torch.testing.assert_close(one, other, rtol=1e-3, atol=2e-2, msg=name)
        assert (one - other).abs().mean() < 1e-3, name


@pytest.mark.usefixtures("replay")
@pytest.mark.parametrize("switched", [True, False], ids=["flow", "plain"])
@pytest.mark.parametrize("family", MODELS)
def test_model_whose_masks_change_trains_as_a_plain_loop(library, family, switched):
    twin = MODELS[family](library).train()
    model = copy.deepcopy(twin)
    if switched:
        flodl.hf.graph(model)
    batches = batches_of(family)
    losses, modes, said = stepped(model, copy.deepcopy(batches))
    require_equal(model, losses, twin, plain_loop(twin, batches))
    outcomes = 1 if family == "vit" else 3  # all ones, padded, and no mask
    assert len(said) == 1 + outcomes, said
    assert modes.count("compiled") == len(batches) - outcomes


@pytest.mark.usefixtures("replay")
@pytest.mark.parametrize("family", ["bert", "gpt2", "llama"])
def test_mask_written_in_place_between_steps_is_read_again(library, family):
    twin = MODELS[family](library).train()
    model = flodl.hf.graph(copy.deepcopy(twin))
    kinds = [FULL, FULL, RIGHT, LEFT, FULL, RIGHT]
    batches = batches_of(family, kinds)
    memory = copy.deepcopy(batches[0])

    def between(number):
        for name, each in memory.items():
            each.copy_(batches[number][name])

    losses, modes, _ = stepped(model, [memory] * len(kinds), between=between)
    require_equal(model, losses, twin, plain_loop(twin, batches))
    assert modes == ["eager", "compiled", "eager", "compiled", "compiled", "compiled"]


@pytest.mark.usefixtures("replay")
def test_padding_without_a_mask_is_read_of_the_tokens(library):
    twin = bert(library).train()
    model = flodl.hf.graph(copy.deepcopy(twin))
    batches = batches_of("bert", [NONE] * 6)
    for number in (2, 3, 5):
        batches[number]["input_ids"][0, -1] = twin.config.pad_token_id
    losses, modes, said = stepped(model, copy.deepcopy(batches))
    require_equal(model, losses, twin, plain_loop(twin, batches))
    assert modes == ["eager", "compiled", "eager", "compiled", "compiled", "compiled"], said


@pytest.mark.usefixtures("replay")
def test_model_that_changes_between_steps_trains_as_a_plain_loop(library):
    twin = gpt2(library).train()
    model = flodl.hf.graph(copy.deepcopy(twin))
    batches = batches_of("gpt2", [FULL, FULL, RIGHT, RIGHT, FULL, FULL, RIGHT, FULL, FULL])
    losses = []
    for each, steps in ((model, make_step), (twin, None)):
        optimizer = torch.optim.AdamW(each.parameters(), lr=1e-3)
        step = steps and steps(each, optimizer, loss_of, mode="compiled")
        torch.manual_seed(3)
        found = []
        for number, batch in enumerate(copy.deepcopy(batches)):
            each.train(number != 5)
            each.transformer.h[0].attn.c_attn.weight.requires_grad_(number < 4)
            if number == 7:
                optimizer.param_groups[0]["lr"] = 1e-4
            if step is None:
                optimizer.zero_grad()
                loss = loss_of(each, batch)
                loss.backward()
                optimizer.step()
            else:
                loss = step(batch)
            found.append(loss.detach().clone())
        losses.append(torch.stack(found))
    require_equal(model, losses[0], twin, losses[1])


def test_trainer_with_compiled_steps_trains_as_a_plain_loop(library, monkeypatch):
    made = []

    class Counted(Replay):
        def result(self):
            made.append(self.program.guard.values)
            return super().result()

    monkeypatch.setattr(tiering, "Compilation", Counted)
    monkeypatch.setattr(tiering, "compiler_missing", lambda device: None)
    twin = llama(library).train()
    model = flodl.hf.graph(copy.deepcopy(twin))
    batches = batches_of("llama", [FULL, FULL, RIGHT, RIGHT, FULL, LEFT])
    trained = (
        flodl.Trainer.builder(model, lambda weights: torch.optim.AdamW(weights, lr=1e-3), loss_of)
        .dataset(copy.deepcopy(batches))
        .num_epochs(2)
        .step("compiled")
        .run()
        .join()
    )
    expected = plain_loop(twin, [*batches, *batches])
    assert made == [("True",), ("False",)]
    require_equal(trained.load_into(llama(library)), expected, twin, expected)


@pytest.mark.skipif(
    compiler_missing(torch.device("cpu")) is not None, reason="there is no C++ compiler"
)
def test_compiler_takes_a_model_with_a_cache_of_keys(library, tmp_path, monkeypatch):
    twin = gpt2(library).train()
    model = flodl.hf.graph(copy.deepcopy(twin))
    monkeypatch.setenv("FLODL_CACHE_DIR", str(tmp_path))
    batches = batches_of("gpt2", [FULL] * 4)
    losses, modes, said = stepped(model, copy.deepcopy(batches))
    require_equal(model, losses, twin, plain_loop(twin, batches))
    assert modes == ["eager", *["compiled"] * 3], said
