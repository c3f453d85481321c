"""Tagged values, metrics over the tree and profiles, eager and compiled."""

import copy
import gc
import pickle
import time
import weakref

import pytest
import torch
from torch import nn

from flodl import Flow, FlowBuilder, FlowModule, GraphError, view
from flodl.errors import UnknownNameError
from flodl.graph import profiling
from flodl.inspect import observation as obs
from flodl.inspect import timing

pytestmark = pytest.mark.torch


class Net(FlowModule):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 8)
        self.b = nn.Linear(8, 2)

    def flow(self, x: Flow) -> Flow:
        hidden = x.through(self.a).tag("hidden").through(torch.relu)
        parts = hidden.split(self.b, self.b).tag_group("heads")
        y = parts.merge(torch.stack)
        return y.tag("_inner").mean().tag("loss")


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


class Token:
    pass


class Watched(FlowModule):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 8)
        self.alive = []

    def flow(self, x: Flow) -> Flow:
        return x.through(self.a).through(self.double).tag("hidden").through(torch.relu)

    def double(self, x):
        return Double.apply(x, self.alive)


class Outer(FlowModule):
    def __init__(self):
        super().__init__()
        self.net = Net()
        self.deep = FlowBuilder.from_(nn.Linear(4, 1)).tag("score").label("critic").build()

    def flow(self, x: Flow) -> Flow:
        score = x.through(self.deep).mean().tag("total")
        return x.through(self.net) + score


class Asking(FlowModule):
    """Must see values, so its first call is the one that is recorded."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)

    def flow(self, x: Flow) -> Flow:
        if x.size(0) > 2:
            x = x.through(self.a).tag("big")
        return x.through(torch.relu).tag("out")


def test_tagged_values_are_those_of_the_last_forward():
    net, x = Net(), torch.randn(3, 4)
    assert obs.tagged(net, "hidden") is None
    net(x)
    assert torch.equal(obs.tagged(net, "hidden"), net.a(x))
    net(2 * x)
    assert torch.equal(obs.tagged(net, "hidden"), net.a(2 * x))
    assert torch.equal(obs.tagged(net, "heads_1"), net.b(torch.relu(net.a(2 * x))))


def test_tagged_values_keep_no_autograd_graph_alive():
    net, alive = Watched(), []
    net.alive = alive
    out = net(torch.randn(3, 4))
    assert not obs.tagged(net, "hidden").requires_grad
    assert alive[-1]() is not None
    del out
    gc.collect()
    assert alive[-1]() is None


def test_the_recorded_call_is_kept_too():
    net, x = Asking(), torch.randn(3, 4)
    out = net(x)
    assert torch.equal(obs.tagged(net, "out"), out)
    assert not obs.tagged(net, "out").requires_grad
    assert torch.equal(obs.tagged(net, "big"), net.a(x))
    net(torch.randn(1, 4))
    assert obs.tagged(net, "big") is None, "the last forward did not compute it"


@pytest.mark.slow
def test_tagged_values_of_a_compiled_graph():
    torch.compiler.reset()
    net, x = Net(), torch.randn(3, 4)
    compiled = torch.compile(net, fullgraph=True, backend="aot_eager")
    for scale in (1, 2, 3):
        loss = compiled(scale * x)
        torch.testing.assert_close(obs.tagged(net, "hidden"), net.a(scale * x).detach())
        torch.testing.assert_close(obs.tagged(net, "loss"), loss.detach())
        loss.backward()
    assert net.a.weight.grad is not None


def test_exporting_leaves_no_fake_values_behind():
    net, x = Net(), torch.randn(3, 4)
    net(x)
    before = obs.tagged(net, "hidden")
    torch.export.export(net, (x,))
    assert obs.tagged(net, "hidden") is before


def test_only_wanted_tags_are_kept():
    net, x = Net(), torch.randn(3, 4)
    obs.observe_tags(net, "loss", "_inner")
    net(x)
    assert obs.tagged(net, "hidden") is None
    assert obs.tagged(net, "_inner").shape == (2, 3, 2)
    obs.observe_tags(net)
    net(x)
    assert obs.tagged(net, "loss") is None
    with pytest.raises(UnknownNameError, match="did you mean `hidden`"):
        obs.observe_tags(net, "hiden")


def test_copies_do_not_share_values_and_models_stay_picklable():
    net, x = Net(), torch.randn(3, 4)
    net(x)
    obs.collect(net, ["loss"])
    twin = copy.deepcopy(net)
    assert obs.tagged(twin, "hidden") is None
    twin(2 * x)
    assert torch.equal(obs.tagged(net, "hidden"), net.a(x))
    obs.log_of(twin).record("loss", 1.0)
    assert len(obs.log_of(net).collected("loss")) == 1
    assert len(obs.log_of(pickle.loads(pickle.dumps(net))).collected("loss")) == 1


def test_unknown_tags_raise():
    net = Net()
    for ask in (lambda: obs.tagged(net, "hiden"), lambda: obs.collect(net, ["hiden"])):
        with pytest.raises(UnknownNameError, match="did you mean `hidden`"):
            ask()
    with pytest.raises(UnknownNameError, match="did you mean `hidden`"):
        obs.trend_at(net, "hiden")


def test_collecting_before_a_forward_is_an_error():
    with pytest.raises(GraphError, match="no value yet"):
        obs.collect(Net(), ["loss"])


def test_collect_flush_and_trend():
    net, x = Net(), torch.randn(3, 4)
    for _ in range(3):
        losses = [float(net(x * scale).detach()) for scale in (1, 2)]
        net(x)
        obs.collect(net, ["loss"])
        net(x * 2)
        obs.collect(net, ["loss"])
        added = obs.flush(net)
        assert added == {"loss": pytest.approx(sum(losses) / 2)}
    assert len(obs.trend_at(net, "loss")) == 3
    assert obs.trend_at(net, "loss").stalled(3, 1e-6)
    assert not obs.trend_at(net, "hidden").stalled(3, 1e-6)


def test_tensors_must_be_reduced_on_purpose():
    net, x = Net(), torch.randn(3, 4)
    net(x)
    with pytest.raises(GraphError, match=r"shape \[3, 8\].*reduce"):
        obs.collect(net, ["hidden"])
    value = obs.tagged(net, "hidden")
    expected = {
        "mean": value.mean(), "sum": value.sum(), "max": value.max(), "min": value.min(),
        "norm": value.norm(),
    }  # fmt: skip
    for reduce, number in expected.items():
        obs.collect(net, ["hidden"], reduce)
        assert obs.log_of(net).collected("hidden")[-1] == pytest.approx(float(number), rel=1e-5)
    net(torch.randn(0, 4))
    with pytest.raises(GraphError, match="nothing to reduce"):
        obs.collect(net, ["hidden"], "mean")


def test_tag_groups_stand_for_their_tags():
    net = Net()
    net(torch.randn(3, 4))
    obs.collect(net, ["heads"], obs.Reduce.NORM)
    obs.flush(net)
    assert set(obs.trends(net, ["heads"]).trends) == {"heads_0", "heads_1"}


def test_metrics_flow_up_the_tree_with_paths():
    net, x = Outer(), torch.randn(3, 4)
    net(x)
    torch.testing.assert_close(obs.tagged_at(net, "critic.score"), net.deep(x).detach())
    obs.collect(net, ["total"])
    obs.collect_at(net, ["net.loss", "critic.score"], "mean")
    obs.record_at(net, "critic.quality", 0.5)
    obs.record_at(net, "lr", [0.1, 0.3])
    added = obs.flush(net)
    assert set(added) == {"total", "lr", "net.loss", "critic.score", "critic.quality"}
    assert added["lr"] == pytest.approx(0.2)
    assert obs.latest_metrics(net) == added
    assert obs.trend_at(net, "critic.quality").values == (0.5,)


def test_a_partial_flush_takes_the_named_metrics_everywhere():
    net = Outer()
    obs.record_at(net, "critic.quality", 0.5)
    obs.record_at(net, "lr", 0.1)
    assert obs.flush(net, ["quality"]) == {"critic.quality": 0.5}
    assert obs.log_of(net).collected("lr") == (0.1,)
    with pytest.raises(UnknownNameError):
        obs.flush(net, ["qualty"])


def test_a_part_is_no_tag_and_a_tag_wins_over_a_part_when_a_value_is_asked():
    net = Outer()
    with pytest.raises(GraphError, match="its tags are `score`"):
        obs.tagged_at(net, "critic")
    both = FlowBuilder.from_(nn.Linear(2, 2)).tag("linear_1").build()
    assert "linear_1" in both._modules
    both(torch.ones(1, 2))
    assert obs.tagged_at(both, "linear_1").shape == (1, 2)


def test_plain_modules_have_metrics_too():
    net = nn.Sequential(nn.Linear(2, 2))
    obs.record_at(net, "0.norm", 1.0)
    assert obs.flush(net) == {"0.norm": 1.0}


# ---- profiles ------------------------------------------------------------------------------------


class Slow(nn.Module):
    def forward(self, x):
        time.sleep(0.2)
        return torch.tanh(x)


class Timed(FlowModule):
    def __init__(self):
        super().__init__()
        self.fast, self.slow = nn.Identity(), Slow()
        self.net = Net()

    def flow(self, x: Flow) -> Flow:
        y = x.through(self.fast).tag("fast").through(self.slow).tag("slow")
        for _ in range(2):
            y = y + 1
        return y.sum() + x[:, :4].through(self.net)


def test_a_profile_finds_the_slow_node():
    net, x = Timed(), torch.randn(64, 64)
    assert timing.profile(net) is None
    timing.enable_profiling(net)
    plain = Timed.forward
    out = net(x)
    found = timing.profile(net)
    assert found.clock == "host"
    slowest = max(found.nodes, key=lambda node: node.duration)
    assert "slow" in slowest.tags
    assert found.timing("slow") == slowest.duration > found.timing("fast")
    assert sum(node.duration for node in found.nodes) == pytest.approx(found.total)
    assert timing.profile(net.net).timing("hidden") > 0, "nested graphs are timed"
    assert torch.equal(obs.tagged(net, "slow"), net.slow(x)), "tags are still kept"
    timing.disable_profiling(net)
    assert not timing.is_profiling(net)
    assert timing.profile(net) is None
    assert torch.equal(net(x), out)
    assert Timed.forward is plain


def test_profiling_off_runs_the_same_code_as_before():
    net, x = Net(), torch.randn(3, 4)
    net(x)

    def running():
        return [
            plans.watch.runs(program)[0].__code__.co_names
            for plans in net._flodl_plans.values()
            for program in plans.programs
        ]

    before = running()
    assert not any("_mark" in names for names in before)
    timing.enable_profiling(net)
    assert all("_mark" in names for names in running())
    timing.disable_profiling(net)
    assert running() == before


def test_errors_under_profiling_still_name_the_node():
    net = Net()
    timing.enable_profiling(net)
    with pytest.raises(RuntimeError) as caught:
        net(torch.randn(3, 5))
    assert any("in node `a`" in note or "tag `hidden`" in note for note in caught.value.__notes__)


def test_a_loop_is_one_timed_node():
    graph = (
        FlowBuilder.from_(nn.Linear(4, 4))
        .loop_body(nn.Linear(4, 4))
        .for_n(3)
        .tag("looped")
        .build()
    )
    timing.enable_profiling(graph)
    x = torch.randn(2, 4)
    out = graph(x)
    ids = [node.id for node in timing.profile(graph).nodes]
    assert len(ids) == len(set(ids))
    assert timing.profile(graph).timing("looped") > 0
    timing.disable_profiling(graph)
    assert torch.equal(out, graph(x))


def test_timings_become_trends():
    net, x = Timed(), torch.randn(16, 16)
    with pytest.raises(GraphError, match="enable_profiling"):
        timing.collect_timings(net)
    timing.enable_profiling(net)
    for _ in range(2):
        net(x)
        timing.collect_timings(net)
        timing.flush_timings(net)
    assert len(timing.timing_trend(net, "slow")) == 2
    assert timing.timing_trend(net, "slow").mean > timing.timing_trend(net, "fast").mean
    with pytest.raises(UnknownNameError):
        timing.collect_timings(net, ["slwo"])


def test_a_compiled_graph_is_not_timed_and_not_broken():
    torch.compiler.reset()
    net, x = Net(), torch.randn(3, 4)
    timing.enable_profiling(net)
    compiled = torch.compile(net, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(x), net(x))


@pytest.mark.gpu
def test_on_a_gpu_times_come_from_events():
    class Heavy(nn.Module):
        def forward(self, x):
            for _ in range(20):
                x = x @ x
                x = x / x.norm()
            return x

    graph = FlowBuilder.from_(nn.Linear(2048, 2048)).through(Heavy()).tag("heavy").build().cuda()
    x = torch.randn(2048, 2048, device="cuda")
    graph(x)
    timing.enable_profiling(graph)
    for _ in range(3):
        graph(x)
    found = timing.profile(graph)
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    timing.disable_profiling(graph)
    start.record()
    graph(x)
    stop.record()
    stop.synchronize()
    whole = start.elapsed_time(stop) / 1e3
    assert found.clock == "cuda events"
    assert found.timing("heavy") > 0.5 * found.total
    assert found.total == pytest.approx(whole, rel=0.5)


@pytest.fixture
def ticks(monkeypatch):
    """Let the clock of profiles show given seconds: each mark is one reading."""
    readings = []
    monkeypatch.setattr(profiling.time, "perf_counter", lambda: readings.pop(0))

    def passes(*durations):
        for one in durations:
            now = 100.0
            readings.append(now)
            for took in one:
                now += took
                readings.append(now)

    return passes


def two_steps():
    return FlowBuilder.from_(torch.relu).tag("first").through(torch.tanh).tag("second").build()


def test_profile_stats_are_minimum_and_mean_without_warm_up(ticks):
    net, x = two_steps(), torch.ones(2)
    net.enable_profiling()
    assert net.profile_stats() is None
    ticks((90, 80), (70, 60), (50, 40))
    for _ in range(3):
        net(x)
    assert net.profile_stats() is None, "the first three are warm-up"
    ticks((1, 8), (3, 4), (2, 6))
    for _ in range(3):
        net(x)
    stats = net.profile_stats()
    assert (stats.passes, stats.warm_up, stats.clock) == (3, 3, "host")
    first, second = stats.node("first"), stats.node("second")
    assert (first.min, first.mean, first.passes) == (1, 2, 3)
    assert (second.min, second.mean) == (4, 6)
    assert stats.mean == 8
    assert [node.level for node in stats.nodes] == [1, 2]
    assert net.profile_stats() == stats, "reading does not count a pass twice"
    ticks((5, 6))
    net(x)
    assert net.profile_stats().node("first").mean == 2.75
    assert net.profile().timing("first") == 5, "the last forward is still there"
    net.disable_profiling()
    assert net.profile_stats() is None


def test_profile_stats_of_two_plans_are_kept_apart(ticks):
    class Modes(FlowModule):
        def flow(self, x: Flow) -> Flow:
            return x.through(torch.relu) if self.training else x.through(torch.tanh).tag("out")

    net, x = Modes(), torch.ones(2)
    for mode in (True, False):
        net.train(mode)(x)
    view(net).enable_profiling()
    ticks(*[(each,) for each in (9, 9, 9, 1, 3)], *[(each,) for each in (9, 9, 9, 5)])
    for mode, times in ((True, 5), (False, 4)):
        net.train(mode)
        for _ in range(times):
            net(x)
    evaluated = view(net).profile_stats()
    assert [(node.tags, node.min, node.mean) for node in evaluated.nodes] == [(("out",), 5, 5)]
    ticks((5,))
    net.train()(x)
    (trained,) = view(net).profile_stats().nodes
    assert (trained.min, trained.mean, trained.passes) == (1, 3, 3)


def test_profile_stats_wait_for_no_device_until_they_are_read(monkeypatch):
    class Event:
        made, done = 0, False

        def __init__(self, **_):
            self.number = Event.made = Event.made + 1

        def record(self):
            pass

        def query(self):
            return Event.done

        def synchronize(self):
            assert Event.done, "a forward waits for the device"

        def elapsed_time(self, other):
            return 1e3 * (other.number - self.number)

    monkeypatch.setattr(torch.cuda, "Event", Event)
    profiler = profiling.Profiler("cuda events")
    mark = profiler.marker(two_steps().spec)
    for _ in range(10):
        for node in (-1, 1, 2):
            mark(node)
    Event.done = True
    stats = profiler.stats()
    assert (stats.passes, stats.clock) == (7, "cuda events")
    assert [(node.min, node.mean) for node in stats.nodes] == [(1, 1), (1, 1)]


@pytest.mark.gpu
def test_profile_stats_on_a_gpu_use_its_clock():
    net = FlowBuilder.from_(nn.Linear(256, 256)).tag("lin").build().to("cuda")
    net.enable_profiling()
    x = torch.randn(64, 256, device="cuda")
    for _ in range(20):
        net(x)
    stats = net.profile_stats()
    assert (stats.passes, stats.clock) == (17, "cuda events")
    assert 0 < stats.node("lin").min <= stats.node("lin").mean
