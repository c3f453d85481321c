"""Tags of plain torch models: what hooks keep equals what hand-written hooks see."""

import copy
import gc
import io
import pickle
import weakref

import pytest
import torch
from torch import nn

from flodl import Flow, FlowModule, GraphError
from flodl.errors import UnknownNameError
from flodl.inspect import observation as obs
from tests.flodl.tree.plain_models import MODELS, ResNet, Vgg, Wayward

pytestmark = pytest.mark.torch

OBSERVED = {
    "resnet": ("conv1", "bn1", "layer1", "layer2.0", "layer2.1.relu"),
    "vgg": ("features", "features.0", "classifier.2"),
    "vit": ("patch", "encoder.layer.0", "encoder.layer.1.qkv", "head"),
}


class Token:
    pass


class Double(torch.autograd.Function):
    """Doubles, and reports whether its autograd node is still alive."""

    @staticmethod
    def forward(ctx, x, alive):
        ctx.token = Token()
        alive.append(weakref.ref(ctx.token))
        return 2 * x

    @staticmethod
    def backward(ctx, gradient):
        return 2 * gradient, None


class Doubling(nn.Module):
    def __init__(self):
        super().__init__()
        self.alive = []

    def forward(self, x):
        return Double.apply(x, self.alive)


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin, self.spare = nn.Linear(3, 3), nn.Linear(3, 3)
        self.uses_spare = False

    def forward(self, x):
        x = self.lin(self.lin(x))
        return {"y": self.spare(x) if self.uses_spare else x, "parts": (x, 2)}


class Inner(FlowModule):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)

    def flow(self, x: Flow) -> Flow:
        return x.through(self.lin).tag("hidden").through(torch.relu)


def made(name):
    torch.manual_seed(0)
    make, shape = MODELS[name]
    return make(), torch.randn(shape)


def hook_count(model):
    return sum(len(each._forward_hooks) + len(each._forward_pre_hooks) for each in model.modules())


def equal(one, two):
    torch.testing.assert_close(one, two, rtol=0, atol=0)


def gradients(model, x):
    torch.manual_seed(1)
    loss = model(x).square().mean()
    loss.backward()
    return loss.detach(), [each.grad for each in model.parameters()]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_tagged_of_a_plain_model_equals_hand_written_hooks(name, training):
    model, x = made(name)
    twin = copy.deepcopy(model.train(training))
    seen = {}
    for path in OBSERVED[name]:
        twin.get_submodule(path).register_forward_hook(
            lambda _, __, out, path=path: seen.update({path: out.detach().clone()})
        )
    obs.observe_tags(model, *OBSERVED[name])
    for _ in range(2):
        torch.manual_seed(3)
        twin(x)
        torch.manual_seed(3)
        model(x)
        for path in OBSERVED[name]:
            assert not obs.tagged(model, path).requires_grad
            equal(obs.tagged(model, path), seen[path])
            assert obs.tagged_at(model, path) is obs.tagged(model, path)


@pytest.mark.parametrize("name", MODELS)
def test_observing_leaves_loss_and_gradients_as_they_are(name):
    model, x = made(name)
    twin = copy.deepcopy(model)
    obs.observe_tags(model, *OBSERVED[name])
    equal(gradients(model, x), gradients(twin, x))
    equal(model.state_dict(), twin.state_dict())


def test_tagged_value_before_a_step_in_place_is_kept():
    model, x = made("resnet")
    obs.observe_tags(model, "bn1")
    model(x)
    assert obs.tagged(model, "bn1").min() < 0, "the ReLU after it works in place"


def test_observe_tags_without_tags_removes_every_hook():
    model, x = made("vit")
    obs.observe_tags(model, *OBSERVED["vit"])
    obs.observe_tags(model, "head")
    assert hook_count(model) == 2
    model(x)
    obs.observe_tags(model)
    assert hook_count(model) == 0
    with pytest.raises(GraphError, match="observe_tags"):
        obs.tagged(model, "head")


def test_removed_observation_keeps_no_value_alive():
    model, x = made("vgg")
    obs.observe_tags(model, "features")
    model(x)
    kept = weakref.ref(obs.tagged(model, "features"))
    assert kept() is not None
    obs.observe_tags(model)
    gc.collect()
    assert kept() is None


def test_tagged_value_keeps_no_autograd_graph_alive():
    model = nn.Sequential(nn.Linear(3, 3), Doubling())
    obs.observe_tags(model, "1")
    out = model(torch.randn(2, 3))
    assert model[1].alive[0]() is not None
    del out
    gc.collect()
    assert model[1].alive[0]() is None
    assert obs.tagged(model, "1") is not None


def test_tagged_without_observing_says_what_to_call():
    model, x = made("resnet")
    model(x)
    with pytest.raises(GraphError, match=r'observe_tags\("layer1"\) before the forward'):
        obs.tagged(model, "layer1")
    obs.observe_tags(model, "fc")
    with pytest.raises(GraphError, match=r'observe_tags\("layer1"\)'):
        obs.tagged_at(model, "layer1")
    assert obs.tagged(model, "fc") is None, "observed, and no forward yet"


def test_tagged_after_a_part_was_replaced_asks_for_observing_again():
    model, x = made("resnet")
    obs.observe_tags(model, "fc")
    model.fc = nn.Linear(8, 2)
    model(x)
    with pytest.raises(GraphError, match=r'observe_tags\("fc"\)'):
        obs.tagged(model, "fc")


@pytest.mark.parametrize("name", ["layer11", "layer1.9", "layer1..0", "conv1.weight"])
def test_unknown_path_of_a_plain_model_is_reported(name):
    model, _ = made("resnet")
    obs.observe_tags(model, "fc")
    for use in (obs.observe_tags, obs.tagged):
        with pytest.raises(UnknownNameError, match="there is no submodule"):
            use(model, name)
    with pytest.raises(UnknownNameError, match=r"did you mean `layer1\.1`"):
        obs.observe_tags(model, "layer1.11")
    assert hook_count(model) == 2, "what was observed still is"


def test_tagged_of_a_module_called_twice_is_the_last_and_of_one_not_called_none():
    model, x = Twice(), torch.randn(2, 3)
    obs.observe_tags(model, "lin", "spare")
    model.uses_spare = True
    model(x)
    assert obs.tagged(model, "spare") is not None
    model.uses_spare = False
    equal(obs.tagged(model, "lin"), model(x)["y"].detach())
    assert obs.tagged(model, "spare") is None


def test_tagged_nest_is_detached_inside():
    model, x = nn.Sequential(Twice()), torch.randn(2, 3)
    obs.observe_tags(model, "0")
    out = model(x)
    kept = obs.tagged(model, "0")
    assert kept["parts"][1] == 2
    equal(kept["y"], out["y"].detach())
    assert not kept["parts"][0].requires_grad


def pickled(model):
    return pickle.loads(pickle.dumps(model))


def saved(model):
    file = io.BytesIO()
    torch.save(model, file)
    return torch.load(io.BytesIO(file.getvalue()), weights_only=False)


@pytest.mark.parametrize("copied", [copy.deepcopy, pickled, saved])
def test_copy_of_an_observed_model_keeps_its_own_values(copied):
    model, x = made("resnet")
    obs.observe_tags(model, "layer1", "fc")
    model.eval()(x)
    before = obs.tagged(model, "fc").clone()
    twin = copied(model)
    assert obs.tagged(twin, "fc") is None
    out = twin(2 * x)
    equal(obs.tagged(twin, "fc"), out.detach())
    equal(obs.tagged(model, "fc"), before)
    obs.observe_tags(twin)
    assert (hook_count(twin), hook_count(model)) == (0, 3)


def test_pickle_of_an_observed_model_does_not_carry_its_values():
    model = Vgg()
    obs.observe_tags(model, "features")
    empty = len(pickle.dumps(model))
    model(torch.randn(64, 3, 8, 8))
    assert obs.tagged(model, "features").nbytes > 8000
    assert abs(len(pickle.dumps(model)) - empty) < 100


def test_state_dict_and_loading_of_an_observed_model_are_those_of_the_plain_one():
    model, x = made("resnet")
    obs.observe_tags(model, "layer1")
    model(x)
    assert model.state_dict().keys() == ResNet().state_dict().keys()
    ResNet().load_state_dict(model.state_dict())


def test_collect_of_a_plain_model_makes_a_trend():
    model, x = made("resnet")
    obs.observe_tags(model, "layer2.0", "fc")
    means = []
    for _ in range(2):
        model(x)
        means.append(float(obs.tagged(model, "layer2.0").mean()))
        obs.collect(model, iter(["layer2.0"]), "mean")
    assert obs.log_of(model).collected("layer2.0") == tuple(means)
    obs.record_at(model, "layer1.loss", 3.0)
    epoch = obs.flush(model)
    assert epoch == {"layer2.0": sum(means) / 2, "layer1.loss": 3.0}
    assert obs.log_of(model).trend("layer2.0").latest == epoch["layer2.0"]
    assert obs.trend_at(model, "layer2.0").latest == epoch["layer2.0"]
    assert obs.log_of(model).trend("fc").values == ()


def test_collect_at_of_a_plain_model_equals_collect():
    model, x = made("vit")
    obs.observe_tags(model, "encoder.layer.0")
    model(x)
    obs.collect_at(model, ["encoder.layer.0"], "norm")
    wanted = float(torch.linalg.vector_norm(obs.tagged(model, "encoder.layer.0")))
    assert obs.log_of(model).collected("encoder.layer.0") == (wanted,)


def test_collect_of_a_plain_model_without_a_value_is_an_error():
    model, _ = made("resnet")
    with pytest.raises(GraphError, match=r'observe_tags\("fc"\)'):
        obs.collect(model, ["fc"])
    with pytest.raises(UnknownNameError, match="did you mean `fc`"):
        obs.collect(model, ["fcc"])
    obs.observe_tags(model, "fc")
    with pytest.raises(GraphError, match="no value yet"):
        obs.collect(model, ["fc"])


def test_tags_of_a_flow_inside_a_plain_model_are_both_paths_and_tags():
    model, x = nn.Sequential(nn.Linear(3, 3), Inner()), torch.randn(2, 3)
    obs.observe_tags(model, "1.lin", "1")
    out = model(x)
    equal(obs.tagged(model, "1"), out.detach())
    equal(obs.tagged(model, "1.lin"), obs.tagged_at(model, "1.hidden"))


def test_observation_of_a_part_and_of_the_whole_do_not_disturb_each_other():
    model, x = made("resnet")
    obs.observe_tags(model, "layer1")
    obs.observe_tags(model.layer1, "0")
    out = model(x)
    assert out.shape == (2, 5)
    equal(obs.tagged(model.layer1, "0").shape, obs.tagged(model, "layer1").shape)
    obs.observe_tags(model)
    assert hook_count(model) == 2
    assert obs.tagged(model.layer1, "0") is not None


def test_exporting_and_tracing_leave_no_values_behind():
    model, x = made("vgg")
    obs.observe_tags(model.eval(), "features")
    model(x)
    before = obs.tagged(model, "features")
    torch.export.export(model, (x,))
    torch.fx.symbolic_trace(model)
    assert obs.tagged(model, "features") is before


@pytest.mark.slow
def test_tagged_of_a_compiled_plain_model_are_those_of_its_forward():
    torch.compiler.reset()
    model, x = made("resnet")
    obs.observe_tags(model.eval(), "bn1", "layer1")
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    for scale in (1, 2):
        compiled(scale * x)
        found = {path: obs.tagged(model, path) for path in ("bn1", "layer1")}
        model(scale * x)
        for path, value in found.items():
            torch.testing.assert_close(value, obs.tagged(model, path))


def test_wayward_model_is_observed_like_any_other():
    model = Wayward()
    obs.observe_tags(model, "stem")
    model(torch.ones(1, 4))
    equal(obs.tagged(model, "stem"), model.stem(torch.ones(1, 4)).detach())
