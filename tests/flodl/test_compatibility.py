"""A graph is a torch module: everything torch offers for modules works on every construct alike."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch
from torch import nn
from torch.func import functional_call, vmap
from torch.nn.utils import parametrizations, parametrize, prune
from torch.utils import _pytree as pytree
from torch.utils.checkpoint import checkpoint

from flodl import FlowModule, GraphError, NotRecordedError
from tests.flodl.twins import PAIRS, ChainFlow, Pair

pytestmark = pytest.mark.torch


@pytest.fixture(params=PAIRS, ids=lambda pair: pair.name)
def pair(request) -> Pair:
    return request.param


def make(pair: Pair) -> tuple[nn.Module, nn.Module, tuple[torch.Tensor, ...]]:
    torch.manual_seed(0)
    flow = pair.flow()
    torch.manual_seed(0)
    twin = pair.twin()
    torch.manual_seed(1)
    return flow, twin, pair.inputs()


def tensors(value) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def run(module: nn.Module, inputs, seed: int = 7):
    torch.manual_seed(seed)
    return module(*(each.clone() for each in inputs))


def assert_same(left, right) -> None:
    left, right = tensors(left), tensors(right)
    assert left
    assert len(left) == len(right)
    for a, b in zip(left, right, strict=True):
        assert a.dtype == b.dtype
        assert torch.equal(a, b)


def step(module: nn.Module, inputs) -> dict[str, torch.Tensor]:
    module.zero_grad()
    loss = sum(each.double().pow(2).mean() for each in tensors(run(module, inputs)))
    loss.backward()
    return {n: p.grad.clone() for n, p in module.named_parameters() if p.grad is not None}


def test_same_seed_same_weights_same_keys(pair):
    flow, twin, _ = make(pair)
    assert list(flow.state_dict()) == list(twin.state_dict())
    assert [n for n, _ in flow.named_parameters()] == [n for n, _ in twin.named_parameters()]
    assert_same(flow.state_dict(), twin.state_dict())
    assert flow.load_state_dict(twin.state_dict(), strict=True).missing_keys == []
    assert twin.load_state_dict(flow.state_dict(), strict=True).missing_keys == []


@pytest.mark.parametrize("training", [True, False])
def test_outputs_random_state_and_buffers_equal_the_twin(pair, training):
    flow, twin, inputs = make(pair)
    flow.train(training)
    twin.train(training)
    for _ in range(3):  # the first call may record, the others run generated code
        expected = run(twin, inputs)
        state = torch.get_rng_state()
        assert_same(run(flow, inputs), expected)
        assert torch.equal(torch.get_rng_state(), state)
    assert_same([*flow.buffers(), inputs], [*twin.buffers(), inputs])
    doubled = tuple(torch.cat([each, each]) for each in inputs)
    assert_same(run(flow, doubled), run(twin, doubled))


def test_gradients_equal_the_twin(pair):
    flow, twin, inputs = make(pair)
    for _ in range(2):
        expected, found = step(twin, inputs), step(flow, inputs)
        assert expected.keys() == found.keys()
        assert_same(found, expected)


def test_output_keeps_its_structure(pair):
    flow, twin, inputs = make(pair)
    for _ in range(2):
        spec = pytree.tree_structure(run(flow, inputs))
        assert spec == pytree.tree_structure(run(twin, inputs))


@pytest.mark.parametrize("called", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("how", ["deepcopy", "pickle", "torch.save"])
def test_copies_compute_the_same(pair, how, called):
    flow, twin, inputs = make(pair)
    if called:
        run(flow, inputs)
        run(twin, inputs)
    weights = {name: value.clone() for name, value in flow.state_dict().items()}
    if how == "deepcopy":
        made = copy.deepcopy(flow)
    elif how == "pickle":
        made = pickle.loads(pickle.dumps(flow))
    else:
        file = io.BytesIO()
        torch.save(flow, file)
        file.seek(0)
        made = torch.load(file, weights_only=False)
    assert_same(run(made, inputs), run(twin, inputs))
    with torch.no_grad():
        for each in made.parameters():
            each.zero_()
    assert_same(flow.state_dict(), weights)


@pytest.mark.parametrize("called", [False, True], ids=["before", "after"])
def test_hooks_run_whenever_they_were_added(pair, called):
    flow, twin, inputs = make(pair)
    if called:
        run(flow, inputs)
        run(twin, inputs)

    def watch(module: nn.Module) -> list[str]:
        seen: list[str] = []
        for name, child in module.named_modules():
            child.register_forward_hook(lambda *_, name=name: seen.append(f"forward {name}"))
            child.register_forward_pre_hook(lambda *_, name=name: seen.append(f"before {name}"))
            if name:
                child.register_forward_hook(
                    lambda _m, _a, out: out * 1.5 if isinstance(out, torch.Tensor) else out
                )
        return seen

    seen, expected = watch(flow), watch(twin)
    assert_same(run(flow, inputs), run(twin, inputs))
    # Containers that a twin's loop walks by hand are not called by either.
    assert seen == expected


def test_global_hooks_see_every_module(pair):
    flow, twin, inputs = make(pair)
    seen: list[str] = []
    handle = nn.modules.module.register_module_forward_hook(
        lambda module, *_: seen.append(type(module).__name__.replace("Flow", "Twin"))
    )
    try:
        run(twin, inputs)
        expected, seen[:] = list(seen), []
        run(flow, inputs)
        run(flow, inputs)
    finally:
        handle.remove()
    names = [name if name != "Graph" else "BuilderTwin" for name in seen]
    assert names == expected + expected


def test_functional_call_uses_the_given_parameters(pair):
    flow, twin, inputs = make(pair)
    for _ in range(2):
        weights = {name: value * 1.5 for name, value in twin.named_parameters()}
        torch.manual_seed(7)
        expected = functional_call(twin, weights, inputs)
        torch.manual_seed(7)
        assert_same(functional_call(flow, weights, inputs), expected)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_vmap_and_grad_over_parameters(pair):
    flow, twin, inputs = make(pair)
    if pair.name in ("block", "in-place"):
        flow.eval()
        twin.eval()
    if pair.name == "in-place":
        pytest.skip(
            "writing into a captured buffer is refused by vmap for the hand-written twin too"
        )
    if pair.name == "recurrent":
        pytest.skip("torch has no batching rule for LSTM; the hand-written twin fails as well")
    run(flow, inputs)
    weights = {name: torch.stack([v, v * 0.5]) for name, v in twin.named_parameters()}
    results = []
    for module in (flow, twin):
        torch.manual_seed(7)
        call = vmap(
            lambda w, module=module: functional_call(module, w, inputs), randomness="different"
        )
        results.append(call({name: value.detach() for name, value in weights.items()}))
    assert_same(*results)

    def loss(weights, module):
        torch.manual_seed(7)
        found = tensors(functional_call(module, weights, inputs))
        return sum(each.float().pow(2).mean() for each in found)

    # torch leaves tied weights of the hand-written twin swapped; take fresh modules.
    flow, twin, inputs = make(pair)
    if pair.name == "block":
        flow.eval()
        twin.eval()
    single = {name: value.detach().clone() for name, value in twin.named_parameters()}
    assert_same(torch.func.grad(loss)(single, flow), torch.func.grad(loss)(single, twin))


def test_dtype_moves(pair):
    flow, twin, inputs = make(pair)
    run(flow, inputs)
    run(twin, inputs)
    inputs = tuple(each.double() if each.is_floating_point() else each for each in inputs)
    assert_same(run(flow.double(), inputs), run(twin.double(), inputs))


def test_freezing_stops_gradients(pair):
    flow, twin, inputs = make(pair)
    run(flow, inputs)
    for module in (flow, twin):
        module.requires_grad_(requires_grad=False)
        next(module.parameters()).requires_grad_()
    assert_same(step(flow, inputs), step(twin, inputs))


def leaf(module: nn.Module) -> tuple[nn.Module, str]:
    """Return the parent and name of the last Linear or Conv below a module."""
    found = [
        name for name, each in module.named_modules() if isinstance(each, (nn.Linear, nn.Conv2d))
    ]
    parent, _, name = found[-1].rpartition(".")
    return module.get_submodule(parent), name


@pytest.mark.parametrize("called", [False, True], ids=["before", "after"])
def test_swapped_submodules_are_used(pair, called):
    flow, twin, inputs = make(pair)
    if called:
        run(flow, inputs)
        run(twin, inputs)
    for module in (flow, twin):
        parent, name = leaf(module)
        torch.manual_seed(3)
        old = parent.get_submodule(name)
        new = copy.deepcopy(old)
        with torch.no_grad():
            new.weight.normal_()
        setattr(parent, name, new if pair.name == "parameters" else nn.Sequential(new, nn.Tanh()))
    assert_same(run(flow, inputs), run(twin, inputs))


@pytest.mark.parametrize(
    "kind", ["weight_norm", "old_weight_norm", "spectral_norm", "prune", "own"]
)
@pytest.mark.parametrize("called", [False, True], ids=["before", "after"])
@pytest.mark.filterwarnings("ignore:.*weight_norm.* is deprecated")
def test_parametrized_weights_are_live(pair, kind, called):
    class Double(nn.Module):
        def forward(self, weight):
            return weight * 2

    flow, twin, inputs = make(pair)
    if called:
        run(flow, inputs)
        run(twin, inputs)
    for module in (flow, twin):
        torch.manual_seed(5)
        parent, name = leaf(module)
        target = parent.get_submodule(name)
        if kind == "weight_norm":
            parametrizations.weight_norm(target)
        elif kind == "old_weight_norm":
            nn.utils.weight_norm(target)
        elif kind == "spectral_norm":
            parametrizations.spectral_norm(target)
        elif kind == "prune":
            prune.l1_unstructured(target, "weight", amount=0.5)
        else:
            parametrize.register_parametrization(target, "weight", Double())
    for _ in range(2):
        assert_same(run(flow, inputs), run(twin, inputs))
    assert_same(step(flow, inputs), step(twin, inputs))


@pytest.mark.parametrize("called", [False, True], ids=["before", "after"])
@pytest.mark.slow
def test_compiles_without_graph_breaks(pair, called):
    flow, twin, inputs = make(pair)
    if called:
        run(flow, inputs)
        run(twin, inputs)
    torch.compiler.reset()
    with torch._dynamo.config.patch(allow_rnn=True):
        compiled = torch.compile(flow, fullgraph=True, backend="eager")
        for _ in range(2):
            assert_same(run(compiled, inputs), run(twin, inputs))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The tensor attributes self.lstm")
@pytest.mark.parametrize("strict", [False, True])
def test_exports(pair, strict):
    flow, twin, inputs = make(pair)
    flow.eval()
    twin.eval()
    if pair.name in ("nested", "in-place"):
        strict = False  # strict export refuses named tuples and fresh random draws
    exported = torch.export.export(flow, inputs, strict=strict).module()
    assert_same(run(exported, inputs), run(twin, inputs))


@pytest.mark.parametrize("called", [False, True], ids=["before", "after"])
def test_is_traced_by_fx_where_the_twin_is(pair, called):
    flow, twin, inputs = make(pair)
    flow.eval()
    twin.eval()
    if called:
        run(flow, inputs)
    try:
        expected = torch.fx.symbolic_trace(twin)
    except Exception as error:
        pytest.skip(f"torch.fx cannot trace the plain module: {error}")
    if pair.name == "builder":  # its forward takes any number of inputs
        with pytest.raises(torch.fx.proxy.TraceError):
            torch.fx.symbolic_trace(flow)
        return
    traced = torch.fx.symbolic_trace(flow)
    if pair.name == "recurrent":  # with a mask, for a proxy is not `None`
        inputs = (*inputs, torch.ones(2, 6))
    assert_same(run(traced, inputs), run(expected, inputs))


def test_a_trace_is_no_plan():
    flow = ChainFlow().eval()
    before = flow._flodl_programs()
    torch.fx.symbolic_trace(flow)
    assert flow._flodl_programs() == before


def test_parts_of_a_traced_module_may_be_flows():
    whole = nn.Sequential(ChainFlow(), nn.ReLU()).eval()
    traced = torch.fx.symbolic_trace(whole)
    (_, *inputs) = next(make(pair) for pair in PAIRS if pair.name == "chain")[1:]
    assert_same(run(traced, *inputs), run(whole, *inputs))


def test_runs_under_activation_checkpointing(pair):
    flow, twin, inputs = make(pair)
    inputs = tuple(each.requires_grad_() if each.is_floating_point() else each for each in inputs)
    results = []
    for module in (flow, twin):
        module.zero_grad()
        torch.manual_seed(7)
        found = checkpoint(module, *inputs, use_reentrant=False)
        sum(each.float().pow(2).mean() for each in tensors(found)).backward()
        results.append({n: p.grad for n, p in module.named_parameters() if p.grad is not None})
    if pair.name == "in-place":
        return  # its buffer counts the recomputation, in both
    assert_same(*results)


def test_error_says_which_argument_is_missing():
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        ChainFlow()()


class Unrecorded(FlowModule):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def flow(self, x):
        if x.shape[0] > 8:
            x = x * 2
        return x.through(self.lin).through(torch.relu)


@pytest.mark.parametrize("name", ["spec", "code"])
def test_text_of_an_unrecorded_flow_is_a_missing_attribute_that_says_why(name):
    module = Unrecorded()
    assert not hasattr(module, name)
    with pytest.raises(NotRecordedError, match="recorded at its first call"):
        getattr(module, name)
    assert issubclass(NotRecordedError, GraphError)
    module(torch.ones(2, 4))
    assert getattr(module, name)


# torch calls torch.jit.trace deprecated, in another way in each version.
@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::torch.jit.TracerWarning"
)
def test_jit_trace_of_an_unrecorded_flow_gives_its_values():
    x = torch.ones(2, 4)
    module = Unrecorded()
    traced = torch.jit.trace(module, x, check_trace=False)
    assert torch.equal(traced(x), module(x))
    assert torch.equal(torch.jit.trace(module, x)(x), module(x))
