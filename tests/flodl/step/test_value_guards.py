"""What a recorded step reads of its batch is looked up before each replay, and is else refused."""

import copy
from collections import UserDict

import numpy as np
import pytest
import torch
from torch import nn

from flodl.nn.optimizers import SGD
from flodl.step import tiering as tiering_module
from flodl.step.batch_key import read, rebuilt
from flodl.step.binding import Binding
from flodl.step.program import record
from flodl.step.recipe import Recipe
from flodl.step.step import make_step
from tests.flodl.step.helpers import Replay

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("replay")]

FULL = [[1, 1, 1, 1], [1, 1, 1, 1]]
PADDED = [[1, 1, 1, 1], [1, 1, 0, 0]]
SHORT = [[1, 1, 0, 0], [1, 0, 0, 0]]


class Masked(nn.Module):
    """Takes another way where all of the mask is one, as models of transformers do."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.inner = nn.Linear(4, 4)

    def forward(self, x, mask):
        x = self.inner(x)
        if mask.all():
            return x.square().mean()
        return (x.abs() * mask).sum() / mask.sum()


def batch(mask, seed=0):
    x = torch.randn(2, 4, generator=torch.Generator().manual_seed(seed))
    return {"x": x, "mask": torch.tensor(mask)}


def of_model(model, given):
    return model(**given)


def plain_loop(model, fn, batches, between=lambda number: None):
    """Train as a loop of one's own does, with torch alone."""
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    losses = []
    for number, each in enumerate(batches):
        between(number)
        optimizer.zero_grad()
        loss = fn(model, each)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().clone())
    return torch.stack(losses)


def compared(fn, batches, *, make=Masked, between=lambda number: None, mode="compiled"):
    """Train both ways and require equal losses and weights; return the modes and what was said."""
    model, twin = make(), make()
    said, modes, losses = [], [], []
    step = make_step(model, SGD(model, 0.1), fn, mode=mode, report=said.append)
    for number, each in enumerate(copy.deepcopy(batches)):
        between(number)
        losses.append(step(each).clone())
        modes.append(step.mode)
    expected = plain_loop(twin, fn, copy.deepcopy(batches), between)
    torch.testing.assert_close(torch.stack(losses), expected, rtol=1e-5, atol=1e-6)
    for one, other in zip(model.state_dict().values(), twin.state_dict().values(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
    return modes, said


def guard_of(fn, given, make=Masked):
    model = make()
    optimizer = SGD(model, 0.1)
    make_step(model, optimizer, fn, mode="eager")(given)
    recipe = Recipe(model=model, optimizer=optimizer, train_fn=fn)
    return record(recipe, Binding(recipe).layout, given).guard


def test_masks_that_change_have_one_step_per_outcome():
    masks = [FULL, FULL, PADDED, PADDED, FULL, SHORT, PADDED, FULL]
    modes, said = compared(of_model, [batch(each, n) for n, each in enumerate(masks)])
    assert modes == ["eager", "compiled", "eager", *["compiled"] * 5]
    assert len(said) == 3  # eager at first, then two steps


def test_mask_written_in_place_between_calls_is_read_again():
    given = batch(FULL)
    values = [FULL, FULL, PADDED, PADDED, FULL, PADDED]
    twin_of = [dict(given, mask=torch.tensor(each)) for each in values]
    model, twin = Masked(), Masked()
    step = make_step(model, SGD(model, 0.1), of_model, mode="compiled")
    losses = []
    for each in values:
        given["mask"].copy_(torch.tensor(each))
        losses.append(step(given))
    expected = plain_loop(twin, of_model, twin_of)
    torch.testing.assert_close(torch.stack(losses), expected, rtol=1e-5, atol=1e-6)
    assert step.mode == "compiled"


@pytest.mark.parametrize("seed", range(3))
def test_random_masks_give_the_losses_of_a_plain_loop(seed):
    drawn = torch.Generator().manual_seed(seed)
    masks = [(torch.rand(2, 4, generator=drawn) < 0.85).long() for _ in range(20)]
    masks = [each if each.any() else torch.ones_like(each) for each in masks]
    batches = [dict(batch(FULL, n), mask=each) for n, each in enumerate(masks)]

    def fn(model, given):
        loss = model(**given)
        if given["mask"][0].all():
            loss = loss * 2
        elif given["mask"][:, -1].any():
            loss = loss + model.inner.bias.sum()
        return loss

    modes, _ = compared(fn, batches)
    assert modes.count("compiled") > 8


def test_number_that_is_read_has_one_step_per_number():
    def fn(model, given):
        longest = int(given["mask"].sum(1).max())
        return model.inner(given["x"])[:, :longest].square().mean()

    masks = [FULL, SHORT, FULL, SHORT, PADDED, SHORT]
    modes, said = compared(fn, [batch(each, n) for n, each in enumerate(masks)])
    assert modes[2:] == ["compiled"] * 4, said


def test_more_outcomes_than_steps_run_eagerly():
    def fn(model, given):
        return model.inner(given["x"]).mean() * int(given["mask"].sum())

    masks = [[[n, 1, 1, 1], [1, 1, 1, 1]] for n in (1, 2, 3, 4, 5, 5, 6, 2)]
    modes, said = compared(fn, [batch(each) for each in masks])
    assert modes == ["eager"] * 7 + ["compiled"]
    assert said[-1].endswith("batches of more than 4 forms; others are eager")


def test_read_within_a_way_is_made_only_there():
    def fn(model, given):
        places = given["mask"]
        loss = model(given["x"], places * 0 + 1)
        # The second read fails where the first one has another outcome.
        if places.max() < 2 and torch.arange(2)[places].any():
            loss = loss * 3
        return loss

    masks = [FULL, FULL, [[7, 1, 1, 1]] * 2, FULL, [[7, 1, 1, 1]] * 2, [[0] * 4] * 2]
    modes, _ = compared(fn, [batch(each, n) for n, each in enumerate(masks)])
    assert modes == ["eager", "compiled", "eager", "compiled", "compiled", "eager"]


def test_values_written_before_the_read_are_part_of_the_guard():
    def fn(model, given):
        rows = given["mask"].clone()
        rows.view(-1)[0] = 0
        rows += 1
        loss = model(**given)
        return loss * 2 if rows.sum() > 13 else loss

    masks = [FULL, FULL, PADDED, SHORT, FULL, SHORT, PADDED]
    modes, _ = compared(fn, [batch(each, n) for n, each in enumerate(masks)])
    assert "compiled" in modes[3:]


def test_equal_reads_are_looked_up_once():
    def fn(model, given):
        loss = model(**given)
        return loss if given["mask"].all() and given["mask"].all() else loss * 2

    assert guard_of(fn, batch(FULL)).values == ("True",)


def test_value_that_the_step_has_made_itself_is_no_guard():
    def fn(model, given):
        loss = model.inner(given["x"]).mean()
        return loss if torch.ones(3).all() and torch.tensor(2).item() == 2 else loss * 2

    guard = guard_of(fn, batch(FULL))
    assert guard.values == ()
    assert guard.holds([])


def test_guard_is_the_same_under_autocast():
    def fn(model, given):
        big = given["x"].sum() * 0 + given["mask"].float().matmul(torch.ones(4)).max()
        return model(**given) * (2 if (given["x"] * 1.001 > 1.0).any() and big.ndim == 0 else 1)

    guard = guard_of(fn, batch(FULL))
    tensors = read(batch(FULL))[0]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert guard.holds(tensors)


@pytest.mark.parametrize("settings", [{"accumulate": 2}, {"precision": "bf16"}])
def test_masks_that_change_in_other_steps_give_eager_losses(settings):
    masks = [FULL, FULL, PADDED, PADDED, FULL, SHORT, PADDED, FULL]
    found = []
    for mode in ("compiled", "eager"):
        model = Masked()
        step = make_step(model, SGD(model, 0.1), of_model, mode=mode, **settings)
        found.append(torch.stack([step(batch(each, n)) for n, each in enumerate(masks)]))
    assert step.mode == "eager"
    torch.testing.assert_close(*found, rtol=2e-2, atol=1e-2)


def reads_a_parameter(model, given):
    loss = model(**given)
    return loss * 2 if model.inner.weight.sum() > 0 else loss


def reads_a_buffer(model, given):
    loss = model(**given)
    return loss * 2 if model.limit > 0 else loss


def reads_the_loss(model, given):
    loss = model(**given)
    return loss * 2 if loss > 0.5 else loss


def reads_a_fraction(model, given):
    return model(**given) * given["x"].sum().item()


def reads_a_random_number(model, given):
    loss = model(**given)
    return loss * 2 if torch.rand(()) < 2 else loss


def reads_a_list(model, given):
    return model(**given) * sum(given["mask"].tolist()[0])


def reads_an_array(model, given):
    return model(**given) * float(np.asarray(given["mask"])[0, 0])


def catches_the_refusal(model, given):
    try:
        factor = given["mask"].tolist()[1][3]
    except Exception:  # as some libraries do
        factor = 1
    return model(**given) * (1 + factor)


def compares_tensors(model, given):
    loss = model(**given)
    return loss * 2 if torch.equal(given["mask"][0], given["mask"][1]) else loss


def picks_by_a_mask(model, given):
    return model.inner(given["x"])[given["mask"] > 0].mean()


def packs_by_lengths(model, given):
    packed = nn.utils.rnn.pack_padded_sequence(
        model.inner(given["x"])[..., None],
        given["mask"].sum(1),
        batch_first=True,
        enforce_sorted=False,
    )
    return packed.data.mean()


def splits_by_a_tensor(model, given):
    places = given["mask"].sum(1)[:1]
    return model.inner(given["x"]).tensor_split(places, dim=1)[0].mean()


def writes_into_its_batch(model, given):
    given["mask"].mul_(2)
    loss = model.inner(given["x"]).mean()
    return loss * 2 if given["mask"].sum() > 12 else loss


def copies_its_batch(model, given):
    mask = copy.deepcopy(given["mask"])
    return (model.inner(given["x"]) * mask).mean()


class Limited(Masked):
    def __init__(self):
        super().__init__()
        self.register_buffer("limit", torch.tensor(1))


@pytest.mark.parametrize(
    ("fn", "why"),
    [
        (reads_a_parameter, "that depends on more than the batch"),
        (reads_a_buffer, "that depends on more than the batch"),
        (reads_the_loss, "that depends on more than the batch"),
        (reads_a_fraction, "with a fraction, which is hardly ever the same"),
        (reads_a_list, "`tolist`"),
        (reads_an_array, "`__array__`"),
        (catches_the_refusal, "`tolist`"),
        (compares_tensors, "`aten.equal.default`"),
        (picks_by_a_mask, "decide the shape of another: `aten.index.Tensor`"),
        (packs_by_lengths, "decide the shape of another"),
        (splits_by_a_tensor, "`tensor_split`"),
        (writes_into_its_batch, "after it has written into its batch"),
        (copies_its_batch, "`__deepcopy__`"),
    ],
)
def test_read_that_no_guard_repeats_runs_eagerly(fn, why):
    masks = [FULL, FULL, PADDED, SHORT, FULL, PADDED]
    batches = [batch(each, n) for n, each in enumerate(masks)]
    if (
        fn is writes_into_its_batch
    ):  # recording runs it on the batch, which is for the caller to know
        model, said = Limited(), []
        step = make_step(model, SGD(model, 0.1), fn, mode="compiled", report=said.append)
        modes = [step(each) is None or step.mode for each in batches]
    else:
        modes, said = compared(fn, batches, make=Limited)
    assert set(modes) == {"eager"}
    assert why in said[-1]
    if "shape" not in why:
        assert said[-1].startswith(
            "eager: the step reads the value of a tensor (.item(), if, int())"
        )


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_sizes_of_a_packed_batch_run_eagerly(kind):
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.cell = kind(3, 4)

    def fn(model, given):
        return model.cell(given)[0].data.square().mean()

    batches = []
    for number, lengths in enumerate([[3, 3, 1, 1], [3, 3, 1, 1], [3, 2, 2, 1], [3, 2, 2, 1]]):
        values = torch.randn(4, 4, 3, generator=torch.Generator().manual_seed(number))
        batches.append(nn.utils.rnn.pack_padded_sequence(values, lengths, batch_first=True))
    modes, said = compared(fn, batches, make=Recurrent)
    assert set(modes) == {"eager"}
    assert said[-1].startswith("eager: the step reads the value of a tensor")


def test_recurrent_layer_over_whole_batches_is_compiled():
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.cell = nn.GRU(4, 4)

    def fn(model, given):
        return model.cell(given["x"], torch.zeros(1, 4))[0].square().mean()

    modes, said = compared(fn, [batch(FULL, n) for n in range(3)], make=Recurrent)
    assert modes[1:] == ["compiled"] * 2, said


def test_random_read_runs_eagerly():
    model, said = Masked(), []
    step = make_step(
        model, SGD(model, 0.1), reads_a_random_number, mode="compiled", report=said.append
    )
    step(batch(FULL))
    assert said[-1].endswith("that is drawn at random")


class Flag:
    """A tensor outside of model and batch."""

    def __init__(self):
        self.tensor = torch.tensor(0)

    def __call__(self, model, given):
        loss = model(**given)
        return loss * 2 if self.tensor else loss


@pytest.mark.parametrize("how", ["written", "exchanged"])
def test_outside_tensor_that_is_read_is_never_kept(how):
    fn = Flag()

    def between(number):
        if how == "written":
            fn.tensor.fill_(number % 2)
        else:
            fn.tensor = torch.tensor(number % 2)

    modes, said = compared(fn, [batch(FULL, n) for n in range(6)], between=between)
    assert set(modes) == {"eager"}
    assert said[-1].endswith("that depends on more than the batch")


@pytest.fixture
def eager_counts(monkeypatch):
    """Let recording be watched: return the number of recorded steps."""
    counted = []
    known = tiering_module.record_all

    def counting(*parts):
        counted.append(1)
        return known(*parts)

    monkeypatch.setattr(tiering_module, "record_all", counting)
    return counted


def test_auto_waits_for_values_that_come_again(eager_counts):
    def fn(model, given):
        return model.inner(given["x"]).mean() * int(given["mask"][0, 0])

    batches = [dict(batch(FULL, n), mask=torch.full((2, 4), n)) for n in range(30)]
    modes, said = compared(fn, batches, mode="auto")
    assert set(modes) == {"eager"}
    assert "more than 4 forms" in said[-1]
    assert len(eager_counts) == 4


def test_auto_compiles_values_that_come_often(eager_counts):
    masks = [FULL if n % 3 else PADDED for n in range(140)]
    model, said = Masked(), []
    twin = Masked()
    step = make_step(model, SGD(model, 0.1), of_model, mode="auto", report=said.append)
    batches = [batch(each, n) for n, each in enumerate(masks)]
    losses = torch.stack([step(each) for each in batches])
    torch.testing.assert_close(losses, plain_loop(twin, of_model, batches), rtol=1e-4, atol=1e-6)
    assert sum("ms eager)" in each for each in said) == 2, said
    assert len(eager_counts) >= 2


def test_auto_with_a_loader_that_fills_the_same_memory_gives_eager_losses():
    masks = [FULL if n % 3 else PADDED for n in range(90)]
    model, twin = Masked(), Masked()
    step = make_step(model, SGD(model, 0.1), of_model, mode="auto")
    given, losses = batch(FULL), []
    for n, each in enumerate(masks):
        given["x"].copy_(batch(each, n)["x"])
        given["mask"].copy_(torch.tensor(each))
        losses.append(step(given))
    expected = plain_loop(twin, of_model, [batch(each, n) for n, each in enumerate(masks)])
    torch.testing.assert_close(torch.stack(losses), expected, rtol=1e-4, atol=1e-6)


def test_wrong_step_of_one_outcome_leaves_the_other_one(monkeypatch):
    class Wrong(Replay):
        def result(self):
            if self.program.guard.values != ("False",):
                return super().result()

            def call(inputs):
                outputs = self.program.graph(*inputs)
                inputs[0].add_(1e-2)
                return outputs

            return call

    monkeypatch.setattr(tiering_module, "Compilation", Wrong)
    masks = [FULL, FULL, PADDED, PADDED, FULL, SHORT]
    modes, said = compared(of_model, [batch(each, n) for n, each in enumerate(masks)])
    assert modes == ["eager", "compiled", "eager", "eager", "compiled", "eager"]
    assert "differ from eager ones by" in said[-1]


def test_dictionary_of_a_tokenizer_is_a_batch():
    class Encoded(UserDict):
        def __init__(self, data, beside=None):
            super().__init__(data)
            self.beside = beside

    masks = [FULL, FULL, PADDED, FULL, PADDED]
    batches = [Encoded(batch(each, n)) for n, each in enumerate(masks)]
    modes, _ = compared(of_model, batches)
    assert modes[3:] == ["compiled", "compiled"]
    tensors, key = read(batches[0])
    again = rebuilt(batches[0], iter([each + 1 for each in tensors]))
    assert type(again) is Encoded
    assert torch.equal(again["mask"], batches[0]["mask"] + 1)
    assert read(Encoded(batch(FULL), "more"))[1] != key
    assert read(batch(FULL))[1] != key
