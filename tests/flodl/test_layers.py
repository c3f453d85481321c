"""Classes that extend a layer or container of torch and are flow graphs as well."""

import copy
import pickle

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402 - torch may be missing

from flodl import FlowModule  # noqa: E402

pytestmark = pytest.mark.torch

IMAGE = (2, 3, 8, 8)
LAYERS = (
    (nn.Conv1d, (3, 4, 3), [(2, 3, 8)]),
    (nn.ConvTranspose2d, (3, 4, 3), [IMAGE]),
    (nn.Linear, (8, 4), [IMAGE]),
    (nn.BatchNorm1d, (3,), [(2, 3, 8)]),
    (nn.BatchNorm2d, (3,), [IMAGE]),
    (nn.InstanceNorm2d, (3,), [IMAGE]),
    (nn.LayerNorm, (8,), [IMAGE]),
    (nn.GroupNorm, (3, 3), [IMAGE]),
    (nn.Dropout2d, (0.5,), [IMAGE]),
    (nn.MaxPool2d, (2,), [IMAGE]),
    (nn.PReLU, (), [IMAGE]),
    (nn.Upsample, (None, 2), [IMAGE]),
    (nn.ZeroPad2d, (1,), [IMAGE]),
    (nn.Flatten, (), [IMAGE]),
    (nn.GRU, (8, 4), [(3, 2, 8)]),
    (nn.LSTMCell, (8, 4), [(3, 8)]),
    (nn.MultiheadAttention, (8, 2), [(3, 2, 8)] * 3),
    (nn.TransformerEncoderLayer, (8, 2, 16), [(3, 2, 8)]),
    (nn.MSELoss, (), [IMAGE, IMAGE]),
    (nn.CosineSimilarity, (), [IMAGE, IMAGE]),
)


def flat(value):
    return [one for item in value for one in flat(item)] if isinstance(value, tuple) else [value]


class Block(nn.Sequential, FlowModule):
    def __init__(self):
        super().__init__(nn.Linear(4, 4), nn.Tanh())


@pytest.mark.parametrize("graph_first", [False, True])
@pytest.mark.parametrize(("kind", "args", "shapes"), LAYERS, ids=lambda value: str(value)[-30:])
def test_a_layer_described_computes_the_same_bits(kind, args, shapes, graph_first):
    bases = (FlowModule, kind) if graph_first else (kind, FlowModule)
    described = type("Described", bases, {})
    torch.manual_seed(0)
    plain = kind(*args)
    torch.manual_seed(0)
    graph = described(*args)
    assert list(graph.state_dict()) == list(plain.state_dict())
    for is_training in (True, False):
        for _ in range(2):
            inputs = [torch.randn(shape) for shape in shapes]
            outputs = []
            for module in (plain, graph):
                module.train(is_training)
                torch.manual_seed(1)
                outputs.append(flat(module(*inputs)))
            assert all(
                one is two or torch.equal(one, two) for one, two in zip(*outputs, strict=True)
            )
    assert all(map(torch.equal, plain.buffers(), graph.buffers()))
    assert graph.spec.nodes


def test_a_container_is_described_by_its_children():
    block = Block()
    assert [node.kind for node in block.spec.nodes] == ["input", "module", "module"]
    block.append(nn.Linear(4, 2))
    block.insert(0, nn.Identity())
    assert block(torch.ones(2, 4)).shape == (2, 2)
    assert len(block.spec.nodes) == 5


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_are_independent(copied):
    block = Block()
    twin = copied(block)
    with torch.no_grad():
        twin[0].weight.zero_()
    assert not torch.equal(block(torch.ones(1, 4)), twin(torch.ones(1, 4)))


def test_settings_of_the_layer_stay_live():
    class Norm(nn.BatchNorm1d, FlowModule):
        pass

    norm, plain = Norm(3), nn.BatchNorm1d(3)
    for momentum in (0.1, 0.7):
        norm.momentum = plain.momentum = momentum
        x = torch.randn(4, 3)
        assert torch.equal(norm(x), plain(x))
        assert torch.equal(norm.running_mean, plain.running_mean)


def test_a_base_that_is_a_graph_constructs_the_layer_behind_it():
    class Scaled(FlowModule):
        def __init__(self, *args):
            super().__init__(*args)
            self.scale = 2.0

        def flow(self, x):
            return super().flow(x) * self.scale

    class Chain(Scaled, nn.Sequential):
        def flow(self, x):
            for each in self:
                x = x.through(each)
            return x * self.scale

    x = torch.randn(3, 4)
    chain = Chain(nn.Linear(4, 4), nn.Tanh())
    assert torch.equal(chain(x), chain[1](chain[0](x)) * 2)
    with pytest.raises(TypeError, match="takes 1 positional argument but 2 were given"):
        Scaled(4)


def test_methods_of_the_module_are_called_on_the_copy():
    class Net(FlowModule):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(2, 2)

        def helper(self, x):
            return self.linear(x.detach()) if type(x) is torch.Tensor else x

        def flow(self, x):
            return x.through(self.helper)

    net = Net()
    net(torch.ones(1, 2))
    twin = copy.deepcopy(net)
    with torch.no_grad():
        twin.linear.weight.zero_()
        twin.linear.bias.zero_()
    assert twin(torch.ones(1, 2)).abs().sum() == 0
