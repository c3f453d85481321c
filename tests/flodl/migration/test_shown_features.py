"""Features of the list that no other test shows by itself, each with the call that the list names."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import flodl
from flodl import (
    AdamW,
    BatchDataSet,
    BuildError,
    CheckpointError,
    CosineScheduler,
    DataError,
    DataLoader,
    DataSet,
    FlodlError,
    FlowBuilder,
    FlowError,
    FlowModule,
    GraphError,
    Identity,
    LearnedHalt,
    Linear,
    Parameter,
    RandomSampler,
    SequentialSampler,
    SigmoidRouter,
    StepDecay,
    Trainer,
    TrainingError,
    Variable,
    WarmupScheduler,
    load_checkpoint,
    save_checkpoint,
)

pytestmark = pytest.mark.torch


# ---- package and protocol --------------------------------------------------------------------------


def test_star_import_gives_each_public_name_and_hides_no_module():
    names = {"nn": "mine", "data": "mine", "step": "mine"}
    exec("from flodl import *", names)
    assert {name: names[name] for name in flodl.__all__} == {
        name: vars(flodl)[name] for name in flodl.__all__
    }
    assert {names["nn"], names["data"], names["step"]} == {"mine"}
    assert not any(name.startswith("_") for name in flodl.__all__)


def test_errors_have_one_root():
    kinds = (BuildError, FlowError, GraphError, CheckpointError, DataError, TrainingError)
    assert all(issubclass(kind, FlodlError) for kind in kinds)
    with pytest.raises(FlodlError, match="split"):
        FlowBuilder.from_(Linear(2, 2)).split(Linear(2, 2), Linear(2, 2)).build()


def test_parameter_has_the_name_of_its_place():
    class Scaled(FlowModule):
        def __init__(self):
            super().__init__()
            self.scale = Parameter(torch.tensor(3.0))

        def flow(self, x):
            return x * self.scale

    graph = FlowBuilder.from_(Scaled()).tag("scaled").build()
    assert [name for name, _ in graph.named_parameters()] == ["scaled.scale"]
    assert graph(torch.tensor(2.0)).item() == 6.0


def test_eval_reaches_each_part_of_a_graph():
    inner = FlowBuilder.from_(nn.Dropout(0.5)).label("inner").build()
    graph = FlowBuilder.from_(inner).through(Identity()).build()
    x = torch.ones(64)
    assert not torch.equal(graph.train()(x), x)
    assert torch.equal(graph.eval()(x), x)
    assert not any(each.training for each in graph.modules())
    assert all(each.training for each in graph.train().modules())


def test_graph_is_freed_by_backward():
    graph = FlowBuilder.from_(Linear(2, 2)).through(nn.Tanh()).tag("h").build()
    loss = graph(torch.ones(1, 2)).sum()
    loss.backward()
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()
    assert graph.tagged("h").grad_fn is None


def test_variable_is_a_leaf_that_collects_a_gradient():
    leaf = Variable(torch.ones(2), requires_grad=True)
    (leaf * 3).sum().backward()
    assert type(leaf) is torch.Tensor
    assert leaf.is_leaf
    assert leaf.grad.tolist() == [3.0, 3.0]


# ---- builder ---------------------------------------------------------------------------------------


def test_new_builder_starts_with_its_input():
    x = torch.randn(3)
    assert torch.equal(FlowBuilder.new().build()(x), x)
    assert FlowBuilder.new().through(torch.neg).build()(x).equal(-x)


class BasicBlock(nn.Module):
    def __init__(self, narrow, wide, stride):
        super().__init__()
        self.a = nn.Conv2d(narrow, wide, 3, stride, 1, bias=False)
        self.b = nn.Conv2d(wide, wide, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(wide) for _ in range(2))
        self.project = nn.Conv2d(narrow, wide, 1, stride) if narrow != wide else nn.Identity()

    def forward(self, x):
        main = self.norms[1](self.b(torch.relu(self.norms[0](self.a(x)))))
        return torch.relu(self.project(x) + main)


def resnet_graph(blocks, stem, head):
    """Build a ResNet with a residual path for each block: `also_with` adds projection and main path."""
    builder = FlowBuilder.from_(stem).through(F.relu)
    for block in blocks:
        main = (block.a, block.norms[0], F.relu, block.b, block.norms[1])
        builder = builder.also_with(skip=block.project, main=main).through(F.relu)
    return builder.through(lambda x: x.mean((2, 3))).through(head).build()


def test_resnet_20_of_also_with_equals_the_hand_written_network():
    torch.manual_seed(0)
    sizes = [(4, 4, 1)] * 3 + [(4, 8, 2)] + [(8, 8, 1)] * 2 + [(8, 16, 2)] + [(16, 16, 1)] * 2
    blocks = [BasicBlock(*size) for size in sizes]
    stem, head = nn.Conv2d(3, 4, 3, padding=1), nn.Linear(16, 10)
    graph, x = resnet_graph(blocks, stem, head), torch.randn(2, 3, 16, 16)
    expected = head(nn.Sequential(*blocks)(torch.relu(stem(x))).mean((2, 3)))
    assert torch.equal(graph(x), expected)
    convolutions = [each for each in graph.modules() if isinstance(each, nn.Conv2d)]
    assert len(convolutions) == 1 + 2 * 9 + 2, "20 layers with the head, and two projections"


def test_sigmoid_router_weighs_each_expert_by_itself():
    router, one, two = SigmoidRouter(4, 2), Linear(4, 3), Linear(4, 3)
    x = torch.randn(5, 4)
    weights = torch.sigmoid(router.linear(x))
    assert not torch.allclose(weights.sum(-1), torch.ones(5))
    expected = weights[:, :1] * one(x) + weights[:, 1:] * two(x)
    torch.testing.assert_close(FlowBuilder.new().gate(router, one, two).build()(x), expected)


def test_learned_halt_ends_a_loop_where_its_layer_is_positive():
    halt, x = LearnedHalt(2), torch.ones(1, 2)
    with torch.no_grad():
        halt.linear.weight.fill_(1.0)
        halt.linear.bias.fill_(-20.0)
    loop = FlowBuilder.new().loop_body(lambda h: h * 2)
    assert loop.while_cond(halt, 9).build()(x)[0, 0].item() == 16.0
    assert loop.until_cond(halt, 9).build()(x)[0, 0].item() == 16.0
    assert loop.until_cond(halt, 2).build()(x)[0, 0].item() == 4.0


# ---- training --------------------------------------------------------------------------------------


def test_builder_moves_the_model_before_it_makes_the_optimizer():
    order = []

    class Net(nn.Linear):
        def to(self, *args, **named):
            order.append("moved")
            return super().to(*args, **named)

    def optimizer(params):
        order.append("optimizer")
        return torch.optim.SGD(params, lr=0.1)

    def train_step(model, batch):
        return model(batch).square().mean()

    builder = Trainer.builder(lambda: Net(2, 1), optimizer, train_step).dataset([torch.ones(1, 2)])
    builder.num_epochs(1).step("eager").progress(False).run()
    assert order[:2] == ["moved", "optimizer"]


def test_state_is_loaded_into_a_fresh_model_for_inference():
    def train_step(model, batch):
        return F.mse_loss(model(batch), 3 * batch)

    def make():
        return nn.Sequential(nn.Linear(1, 1), nn.BatchNorm1d(1))

    data = [torch.randn(8, 1) for _ in range(4)]
    builder = Trainer.builder(make, lambda p: torch.optim.SGD(p, lr=0.1), train_step).dataset(data)
    handle = builder.num_epochs(2).seed(0).step("eager").progress(False).run()
    state = handle.join()
    model = state.load_into(make()).eval()
    assert set(state.parameters) == {name for name, _ in model.named_parameters()}
    assert all(torch.equal(state.buffers[name], each) for name, each in model.named_buffers())
    assert model[1].num_batches_tracked.item() == 8


def test_warmup_leads_into_a_cosine():
    cosine = CosineScheduler(1.0, 0.0, 10)
    schedule = WarmupScheduler(cosine, 1.0, 5)
    assert [schedule.lr(step) for step in range(5)] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert [schedule.lr(5 + step) for step in range(11)] == [cosine.lr(n) for n in range(11)]


def test_one_schedule_drives_two_optimizers_and_owns_neither():
    schedule = StepDecay(0.1, 2, 0.5)
    optimizers = [AdamW(Linear(2, 2), 0.1), torch.optim.SGD(Linear(2, 2).parameters(), lr=0.1)]
    for optimizer in optimizers:
        schedule.apply(optimizer, 3)
    assert [each.param_groups[0]["lr"] for each in optimizers] == [0.05, 0.05]
    assert schedule == StepDecay(0.1, 2, 0.5)


def test_initialisers_are_nine():
    names = (
        "xavier_uniform", "xavier_normal", "kaiming_uniform", "kaiming_normal", "uniform", "normal",
        "orthogonal", "trunc_normal", "uniform_bias",
    )  # fmt: skip
    calls = {
        "uniform": ((4, 4), -1.0, 1.0), "normal": ((4, 4), 0.0, 1.0), "orthogonal": ((4, 4),),
        "trunc_normal": ((4, 4), 0.0, 1.0, -2.0, 2.0), "uniform_bias": (4, (4, 4)),
        "kaiming_uniform": ((4, 4), 4), "kaiming_normal": ((4, 4), 4),
    }  # fmt: skip
    for name in names:
        made = getattr(flodl, name)(*calls.get(name, ((4, 4), 4, 4)))
        assert made.shape == (4, 4), name
        assert made.std() > 0, name


def test_suffix_gz_compresses_a_checkpoint(tmp_path):
    net = nn.Linear(64, 64)
    with torch.no_grad():
        net.weight.zero_()
    sizes = {}
    for name in ("net.fdl", "net.fdl.gz"):
        net_again = nn.Linear(64, 64)
        save_checkpoint(tmp_path / name, net)
        assert len(load_checkpoint(tmp_path / name, net_again).loaded) == 2
        assert torch.equal(net_again.weight, net.weight)
        sizes[name] = (tmp_path / name).stat().st_size
    assert (tmp_path / "net.fdl.gz").read_bytes()[:2] == b"\x1f\x8b"
    assert sizes["net.fdl.gz"] < sizes["net.fdl"] / 4


# ---- data ------------------------------------------------------------------------------------------


class Squares:
    """A data set of single samples, without a base class."""

    def __len__(self):
        return 6

    def get(self, index):
        return [torch.tensor(float(index)), torch.tensor(float(index**2))]


class SquaresAtOnce:
    """A data set that reads a whole batch at once."""

    def __init__(self):
        self.calls = []

    def __len__(self):
        return 6

    def get_batch(self, indices):
        self.calls.append(list(indices))
        x = torch.tensor(indices, dtype=torch.float32)
        return [x, x.square()]


@pytest.mark.parametrize(("kind", "protocol"), [(Squares, DataSet), (SquaresAtOnce, BatchDataSet)])
def test_data_set_of_each_protocol_is_read(kind, protocol):
    data = kind()
    assert isinstance(data, protocol)
    found = [batch[1].tolist() for batch in DataLoader(data, 3, shuffle=False).epoch(0)]
    assert found == [[0.0, 1.0, 4.0], [9.0, 16.0, 25.0]]


class Backwards:
    def __len__(self):
        return 6

    def indices(self, epoch):
        return [5, 4, 3, 2, 1, 0]


def test_samplers_of_each_kind_give_the_order():
    def order(sampler):
        loader = DataLoader([torch.arange(6)], 6, sampler=sampler)
        return next(iter(loader.epoch(0)))[0].tolist()

    shuffled = order(RandomSampler(6, seed=1))
    assert shuffled == RandomSampler(6, seed=1).indices(0).tolist() != list(range(6))
    assert sorted(shuffled) == order(SequentialSampler(6)) == list(range(6))
    assert order(Backwards()) == [5, 4, 3, 2, 1, 0]


def test_builder_takes_a_data_set_with_a_batch_size():
    seen = []

    def train_step(model, batch):
        seen.append(len(batch[0]))
        return F.mse_loss(model(batch[0].unsqueeze(1)), batch[1].unsqueeze(1))

    builder = Trainer.builder(Linear(1, 1), lambda p: torch.optim.SGD(p, lr=0.1), train_step)
    builder.dataset(Squares()).batch_size(2).num_epochs(2).step("eager").progress(False).run()
    assert seen == [2] * 6
