"""Models in the style of published code: a port runs like the original, whatever is changed between calls.

Each model is ported without a proof and called beside its original: in eval and train, with other batch
sizes, and after changes of its world. Values, strides, gradients, buffers and random states are the same
bits, and an error is the same error.
"""

import pytest

from tests.porter.models_in_style import COMMON, NAMES, World, changes_of

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore"),
]  # torch warns once in a process

# Kept for reasons that their reports name: an original that stays is right.
KEPT = {"decorated", "try_except"}
QUICK = {
    "closures",
    "early_returns",
    "integers",
    "kv_cache",
    "layer_drop",
    "losses_and_texts",
    "parametrized",
}


@pytest.fixture
def world(porter, tmp_path):
    return lambda name: World(porter, tmp_path, name)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in NAMES]
)
def test_port_of_a_model_repeats_its_calls(world, name):
    made = world(name)
    assert ("class Net(nn.Module)" in made.twins.text) == (name in KEPT)
    for training in (False, True):
        made.twins.train(training)
        made.calls(times=2, rows=(3, 2))


@pytest.mark.slow
@pytest.mark.parametrize(("number", "name"), [*enumerate(sorted({*NAMES} - KEPT))])
def test_port_of_a_model_follows_changes_of_its_world(world, number, name):
    made = world(name)
    own = vars(made.twins.modules[0])["CHANGES"]
    # Of what every model can meet, each gets every second change in turn.
    left_out = {*COMMON}.difference(own, [*COMMON][number % 2 :: 2])
    for change in [each for each in changes_of(made.twins) if each not in left_out]:
        made.renew()
        made.twins.train()
        made.calls()
        made.change(change)
        made.calls(wide=change == "double")
        made.twins.train(False)
        made.calls(times=2, wide=change == "double")
