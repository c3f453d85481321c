"""Profiles of plain torch models: a row per submodule that was called, and no trace when it is off."""

import copy
import gc
import itertools
import pickle
import weakref

import pytest
import torch
from torch import nn

from flodl import GraphError
from flodl.errors import UnknownNameError
from flodl.inspect import observation as obs
from flodl.inspect import plain_profiling, timing
from tests.flodl.tree.plain_models import MODELS

pytestmark = pytest.mark.torch


class Half(nn.Module):
    """Calls one part twice, another one never, and a third within itself."""

    def __init__(self):
        super().__init__()
        self.lin, self.never, self.nest = nn.Linear(3, 3), nn.Linear(3, 3), Nest()

    def forward(self, x):
        return self.nest(self.lin(self.lin(x)), 2)


class Nest(nn.Module):
    def forward(self, x, depth):
        return self(x, depth - 1) if depth else x


class Failing(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin, self.fails = nn.Linear(3, 3), True

    def forward(self, x):
        x = self.lin(x)
        if self.fails:
            raise RuntimeError("no result")
        return x


@pytest.fixture
def ticks(monkeypatch):
    """A clock that is one second later at each reading."""
    count = itertools.count()
    monkeypatch.setattr(plain_profiling.time, "perf_counter", lambda: float(next(count)))


def made(name):
    torch.manual_seed(0)
    make, shape = MODELS[name]
    return make(), torch.randn(shape)


def hook_count(model):
    return sum(len(each._forward_hooks) + len(each._forward_pre_hooks) for each in model.modules())


def rows(model):
    return {row.id: (row.kind, row.calls, row.duration) for row in timing.profile(model).nodes}


def test_profile_of_a_plain_model_has_a_row_per_called_submodule(ticks):
    model = Half()
    timing.enable_profiling(model)
    model(torch.ones(1, 3))
    assert rows(model) == {"lin": ("Linear", 2, 2.0), "nest": ("Nest", 3, 5.0)}
    assert timing.profile(model).total == 11.0, "not the sum of the rows: the call of the model"
    assert timing.timing_of(model, "nest") == 5.0
    assert timing.timing_of(model, "never") is None


@pytest.mark.parametrize("name", MODELS)
def test_profile_of_a_plain_model_equals_hand_written_hooks(name, ticks):
    model, x = made(name)
    calls = {path: 0 for path, _ in model.named_modules()}
    twin = copy.deepcopy(model)
    for path, each in twin.named_modules():
        each.register_forward_hook(
            lambda *_, path=path: calls.__setitem__(path, calls[path] + 1), always_call=True
        )
    twin(x)
    timing.enable_profiling(model)
    model(x)
    found = timing.profile(model)
    assert {row.id: row.calls for row in found.nodes} == {
        path: count for path, count in calls.items() if path and count
    }
    for row in found.nodes:
        assert row.kind == type(model.get_submodule(row.id)).__name__
        assert row.level == row.id.count(".")
    # Every call reads the clock twice, so a call that calls n others takes 2n + 1 seconds.
    for row in found.nodes:
        below = sum(count for path, count in calls.items() if path.startswith(f"{row.id}."))
        assert row.duration == row.calls + 2 * below
    assert found.total == 2 * (sum(calls.values()) - 1) + 1


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_profiling_leaves_results_and_gradients_as_they_are(name, training):
    model, x = made(name)
    twin = copy.deepcopy(model.train(training))
    timing.enable_profiling(model)
    results = []
    for each in (model, twin):
        torch.manual_seed(1)
        out = each(x)
        out.square().mean().backward()
        results.append([out.detach(), *(one.grad for one in each.parameters())])
    torch.testing.assert_close(*results, rtol=0, atol=0)


def test_disable_profiling_of_a_plain_model_removes_every_hook():
    model, x = made("vit")
    timing.enable_profiling(model)
    timing.enable_profiling(model)
    assert hook_count(model) == 2 * len(list(model.modules())), "twice is as once"
    assert timing.is_profiling(model)
    model(x)
    keeper = weakref.ref(model._flodl_profiler)
    timing.disable_profiling(model)
    gc.collect()
    assert (hook_count(model), keeper()) == (0, None)
    assert not timing.is_profiling(model)
    assert timing.profile(model) is None
    assert timing.profile_stats(model) is None


def test_disable_profiling_of_a_plain_model_leaves_other_hooks():
    model, x = made("vgg")
    obs.observe_tags(model, "features")
    model.features.register_forward_hook(lambda *_: None)
    timing.enable_profiling(model)
    timing.disable_profiling(model)
    assert hook_count(model) == 3
    model(x)
    assert obs.tagged(model, "features") is not None


def test_profile_stats_of_a_plain_model_leave_warm_up_out(ticks):
    model = Half()
    timing.enable_profiling(model)
    for count in range(5):
        assert timing.profile_stats(model) is None or count == 4
        model(torch.ones(1, 3))
    stats = timing.profile_stats(model)
    assert (stats.passes, stats.warm_up, stats.mean) == (2, 3, 11.0)
    lin = stats.node("lin")
    assert (lin.kind, lin.passes, lin.min, lin.mean) == ("Linear", 2, 2.0, 2.0)
    assert str(stats).startswith("mean of 2 forwards: 11000.00ms")


def test_profile_of_a_plain_model_is_written_as_a_tree(ticks):
    model = nn.Sequential(Half())
    timing.enable_profiling(model)
    model(torch.ones(1, 3))
    found = timing.profile(model)
    assert found.levels == ()
    assert str(found).splitlines()[1:] == [
        "  0 (Half): 11000.00ms",
        "    0.lin (Linear): 2000.00ms in 2 calls",
        "    0.nest (Nest): 5000.00ms in 3 calls",
    ]


def test_profile_after_a_forward_that_failed_is_that_of_the_one_before(ticks):
    model, x = Failing(), torch.ones(1, 3)
    timing.enable_profiling(model)
    with pytest.raises(RuntimeError, match="no result"):
        model(x)
    assert timing.profile(model) is None
    model.fails = False
    model(x)
    assert rows(model) == {"lin": ("Linear", 1, 1.0)}
    model.lin(x)
    assert timing.profile(model).total == 3.0, "a part that is called alone is no forward"


def test_copy_of_a_profiled_model_measures_on_its_own(ticks):
    model, x = made("vgg")
    timing.enable_profiling(model)
    model(x)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert timing.is_profiling(twin)
        assert timing.profile(twin) is None
        twin(x)
        assert rows(twin) == rows(model)
        timing.disable_profiling(twin)
        assert hook_count(twin) == 0
    assert hook_count(model) == 2 * len(list(model.modules()))


def test_timing_of_a_shared_submodule_is_found_by_each_path(ticks):
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    model.append(model[1])
    timing.enable_profiling(model)
    model(torch.ones(1, 3))
    assert timing.timing_of(model, "1") == timing.timing_of(model, "2") == 2.0
    assert rows(model)["1"] == ("ReLU", 2, 2.0)
    with pytest.raises(UnknownNameError, match="there is no submodule `3`"):
        timing.timing_of(model, "3")


def test_collect_timings_of_a_plain_model_makes_trends(ticks):
    model = Half()
    with pytest.raises(GraphError, match="enable_profiling"):
        timing.collect_timings(model)
    timing.enable_profiling(model)
    model(torch.ones(1, 3))
    timing.collect_timings(model)
    timing.collect_timings(model, ["lin"])
    with pytest.raises(UnknownNameError, match="did you mean `lin`"):
        timing.collect_timings(model, ["linn"])
    timing.flush_timings(model)
    assert timing.timing_trend(model, "lin").values == (2.0,)
    assert timing.timing_trend(model, "nest").values == (5.0,)


def test_many_profiled_forwards_keep_a_bounded_number_of_marks():
    model = nn.Sequential(nn.Linear(3, 3))
    timing.enable_profiling(model)
    for _ in range(200):
        model(torch.ones(1, 3))
    assert timing.profile_stats(model).passes == 197
    assert len(model._flodl_profiler._waiting) == 0


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*deprecated")
def test_script_modules_are_part_of_the_time_around_them(ticks):
    scripted = torch.jit.script(nn.Sequential(nn.Linear(3, 3)))
    model = nn.Sequential(nn.Linear(3, 3), scripted)
    timing.enable_profiling(model)
    model(torch.ones(1, 3))
    assert rows(model) == {"0": ("Linear", 1, 1.0)}
    timing.disable_profiling(model)
    with pytest.raises(GraphError, match="`1` is a ScriptModule"):
        obs.observe_tags(model, "0", "1")
    assert not model[0]._forward_hooks


@pytest.mark.slow
def test_compiled_plain_model_gives_its_results_while_it_is_profiled():
    torch.compiler.reset()
    model, x = made("resnet")
    wanted = model.eval()(x)
    timing.enable_profiling(model)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), wanted)
    assert timing.profile(model) is None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_profile_of_a_plain_model_on_a_gpu_waits_for_the_device():
    model = nn.Sequential(nn.Linear(2048, 2048), nn.Sequential(nn.Linear(2048, 2048))).cuda()
    timing.enable_profiling(model)
    for _ in range(5):
        model(torch.ones(4096, 2048, device="cuda"))
    found = timing.profile(model)
    assert found.clock == "cuda events"
    assert 0 < found.timing("1.0") <= found.timing("1") <= found.total
    assert timing.profile_stats(model).passes == 2
