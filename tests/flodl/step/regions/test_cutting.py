"""Steps cut into regions: the chain changes the same tensors to the same bits as the whole."""

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F

from flodl.step.binding import Binding
from flodl.step.program import record_all
from flodl.step.refusal import RefusedStepError
from flodl.step.regions import cutting
from flodl.step.regions.cutting import cut
from flodl.step.step import make_step


@pytest.fixture
def short(monkeypatch):
    """Let short steps be cut too."""
    monkeypatch.setattr(cutting, "_LEAST_OPERATIONS", 0)
    monkeypatch.setattr(cutting, "_LEAST_SAVED", 12)
    monkeypatch.setattr(cutting, "_LEAST_SHARE", 0.2)


class Block(nn.Module):
    def __init__(self, width, norm, dropout):
        super().__init__()
        self.norm = norm(width)
        self.one = nn.Linear(width, 2 * width)
        self.two = nn.Linear(2 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        left, right = self.one(self.norm(x)).chunk(2, dim=-1)
        return x + self.dropout(self.two(F.gelu(torch.cat([left, right.sigmoid()], dim=-1))))


def stack(depth=4, norm=nn.LayerNorm, dropout=0.0, width=8):
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(5, width), *(Block(width, norm, dropout) for _ in range(depth)), nn.Linear(width, 1)
    )  # fmt: skip


def tied():
    model = stack()
    for block in model[2:5]:
        block.one.weight = model[1].one.weight
    return model


def loss_of(model, batch):
    return F.mse_loss(model(batch[0]), batch[1])


def recorded(model, optimizer, **options):
    batch = (torch.randn(4, 5), torch.randn(4, 1))
    step = make_step(model, optimizer, loss_of, mode="eager", **options)
    for _ in range(options.get("accumulate", 1)):
        step(batch)
    binding = Binding(step.recipe)
    return record_all(step.recipe, binding.layout, batch)


def run_both(program):
    """Return inputs and results of the whole and of the chain, run on copies of the same tensors."""
    torch.manual_seed(3)
    filled = [
        torch.rand_like(each) if each.is_floating_point() else each.clone()
        for each in program.examples
    ]
    sides = []
    chain = program.chain
    for function in (
        lambda inputs: program.graph(*inputs),
        chain.linked(chain.compiled),
    ):
        inputs = [each.clone() for each in filled]
        torch.manual_seed(4)
        sides.append((inputs, function(inputs)))
    return sides


ADAMW = (torch.optim.AdamW, {"lr": 0.01})
SGD = (torch.optim.SGD, {"lr": 0.01, "momentum": 0.9})


@pytest.mark.parametrize(
    ("make", "optimizer", "options"),
    [
        (stack, ADAMW, {}),
        (stack, SGD, {"clip_norm": 0.1}),
        (lambda: stack(dropout=0.5), ADAMW, {}),
        (lambda: stack(norm=nn.BatchNorm1d), SGD, {}),
        (lambda: stack(norm=nn.BatchNorm1d), ADAMW, {"accumulate": 2}),
        (tied, ADAMW, {}),
    ],
)
def test_chain_has_the_bits_of_the_whole_step(short, make, optimizer, options):
    model = make()
    kind, settings = optimizer
    programs = recorded(model, kind(model.parameters(), **settings), **options)
    assert any(program.chain is not None for program in programs)
    for program in programs:
        if program.chain is None:
            continue
        assert program.operations < 0.8 * len(program.graph.graph.nodes)
        (whole, results), (parts, linked) = run_both(program)
        for one, other in zip([*whole, *results], [*parts, *linked], strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)


def test_chain_of_a_deeper_model_has_the_same_regions(short):
    texts = []
    for depth in (4, 6):
        model = stack(depth)
        (program,) = recorded(model, torch.optim.AdamW(model.parameters()))
        repeated = [each for each in program.regions if "gelu" in each.graph.code]
        texts.append({each.graph.code for each in repeated})
        assert len(program.chain.calls) > 2 * depth
    assert texts[0] == texts[1]
    assert texts[0]


def test_short_step_stays_whole():
    model = stack()
    (program,) = recorded(model, torch.optim.AdamW(model.parameters()))
    assert program.chain is None
    assert program.operations == len(program.graph.graph.nodes)


def test_step_of_different_layers_stays_whole(short):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3), nn.ReLU(), nn.Linear(3, 1))
    (program,) = recorded(model, torch.optim.SGD(model.parameters(), lr=0.1))
    assert program.chain is None


def chain_of(function, *inputs):
    graph = make_fx(function, tracing_mode="fake")(*inputs)
    graph.graph.set_codegen(torch.fx.graph.CodeGen())
    graph.recompile()
    return graph, cut(graph.graph, inputs)


def repeated(x, times=6):
    for _ in range(times):
        x = (x.sin() + 1).cos() * 2
    return x


def test_cut_step_keeps_small_stretches_that_are_called_once_uncompiled(short):
    def function(x, y):
        return [repeated(x.tanh() - y) @ y]

    _, chain = chain_of(function, torch.rand(3, 3), torch.rand(3, 3))
    assert [each.small for each in chain.regions] == [True, False, True]
    assert len(chain.compiled) == 1


def test_cut_step_compiles_what_changes_tensors_in_place_even_once(short):
    def function(x, y):
        return [repeated(x), y.mul_(2)]

    graph, chain = chain_of(function, torch.rand(3, 3), torch.rand(3, 3))
    assert [each.small for each in chain.regions] == [False, False]
    x, y = torch.rand(3, 3), torch.rand(3, 3)
    other = y.clone()
    made = chain.linked(chain.compiled)([x, y])
    assert torch.equal(made[0], graph(x, other)[0])
    assert torch.equal(y, other)
    assert torch.equal(made[1], other)


def split_late(x, y):
    first, second = torch.ops.aten.split.Tensor(y, 2)
    return [repeated(x + first) + second]


def changed_below_a_view(x, y):
    view = y.t()
    x = repeated(x)
    y.add_(1)
    return [x + view]


@pytest.mark.parametrize(("function", "rows"), [(split_late, 4), (changed_below_a_view, 2)])
def test_region_makes_the_views_of_other_regions_again(short, function, rows):
    x, y = torch.rand(2, 2), torch.rand(rows, 2)
    graph, chain = chain_of(function, x, y)
    assert chain is not None
    assert max(len(call.inputs) for call in chain.calls) <= 2
    other = y.clone()
    (made,) = chain.linked(chain.compiled)([x, y])
    assert torch.equal(made, graph(x, other)[0])
    assert torch.equal(y, other)


def test_step_that_changes_what_another_region_returned_stays_whole(short):
    def function(x, y):
        first = y.exp()
        second = first.t()
        x = repeated(x + first)
        second.add_(1)
        return [x + first]

    assert chain_of(function, torch.rand(3, 3), torch.rand(3, 3))[1] is None


def test_step_that_changes_the_result_of_another_region_stays_whole(short):
    def function(x, y):
        first = y.exp()
        x = repeated(x + first)
        return [x + first.add_(1)]

    assert chain_of(function, torch.rand(3, 3), torch.rand(3, 3))[1] is None


def test_step_with_a_list_from_region_to_region_stays_whole(short):
    def function(x, y):
        norm, mean, _ = torch.ops.aten.native_layer_norm(y, [3], None, None, 1e-5)
        return [repeated(x + norm) + mean]

    x, y = torch.rand(2, 3), torch.rand(2, 3)
    assert chain_of(function, x, y)[1] is not None
    graph = make_fx(function, tracing_mode="fake")(x, y).graph
    _, mean, _ = (node for node in graph.nodes if "getitem" in str(node.target))
    *_, last = (node for node in graph.nodes if node.op == "call_function")
    last.prepend(mean)  # far from the operation that returned the list
    assert cut(graph, (x, y)) is None


def linked_with(chain, change):
    """Return a chain whose compiled regions return changed results."""
    return chain.linked(
        [
            lambda inputs, each=each: [change(made) for made in each(inputs)]
            for each in chain.compiled
        ]
    )


def test_linked_chain_lays_out_results_in_the_strides_that_were_recorded(short):
    x, y = torch.rand(3, 3), torch.rand(3, 3)
    graph, chain = chain_of(lambda x, y: [repeated(x), repeated(y)], x, y)
    linked = linked_with(chain, lambda made: made.t().contiguous().t())
    for _ in range(2):
        made, expected = linked([x, y]), graph(x, y)
        assert [each.stride() for each in made] == [(3, 1), (3, 1)]
        assert [torch.equal(*pair) for pair in zip(made, expected, strict=True)] == [True, True]
        x, y = x + 1, y * 2


def test_linked_chain_refuses_another_shape_than_the_next_region_expects(short):
    x, y = torch.rand(3, 3), torch.rand(3, 3)
    _, chain = chain_of(lambda x, y: [repeated(x), repeated(y)], x, y)
    with pytest.raises(RefusedStepError, match=r"made shape \(1, 3\) where \(3, 3\)"):
        linked_with(chain, lambda made: made[:1])([x, y])


def test_region_makes_the_chunks_of_an_lstm_again(short):
    def function(x, y):
        *_, first, second = torch.ops.aten.unsafe_chunk.default(y, 4, 1)
        return [repeated(x + first) + second]

    x, y = torch.rand(2, 2), torch.rand(2, 8)
    graph, chain = chain_of(function, x, y)
    assert all(stride == (2, 1) for call in chain.calls for _, stride in call.forms)
    split = {node.target for each in chain.regions for node in each.graph.graph.nodes}
    assert torch.ops.aten.split.Tensor in split
    assert torch.ops.aten.unsafe_split.Tensor not in split
    (made,) = chain.linked(chain.compiled)([x, y])
    assert torch.equal(made, graph(x, y)[0])


def test_regions_that_differ_only_in_the_rows_they_take_are_one(short):
    def function(x, y):
        for row in y.unbind():
            x = repeated(x + row, times=1)
        return [x]

    x, y = torch.rand(3), torch.rand(6, 3)
    graph, chain = chain_of(function, x, y)
    assert len(chain.calls) - len(chain.regions) >= 4
    (made,) = chain.linked(chain.compiled)([x, y])
    assert torch.equal(made, graph(x, y)[0])


def test_step_whose_regions_are_as_long_as_itself_stays_whole(short):
    def function(x, y):
        rows = y.unbind()
        for row in rows[:6]:
            x = repeated(x + row, times=1)
        y.add_(1)  # the other rows have to be taken after it, each by its number
        for row in rows[6:]:
            x = repeated(x + row, times=1)
        return [x]

    assert chain_of(function, torch.rand(3), torch.rand(12, 3))[1] is None
