"""The methods of graphs and views: a life of a model through them, and what a user's class is left with."""

import copy
import csv
import inspect
import typing

import pytest
import torch
from torch import nn

from flodl import Flow, FlowBuilder, FlowModule, Graph, GraphError, View, view
from flodl.errors import UnknownNameError
from flodl.inspect.picture_methods import PictureMixin
from flodl.inspect.tree_methods import TreeMixin

pytestmark = pytest.mark.torch


def model():
    encoder = FlowBuilder.from_(nn.Linear(4, 8)).tag("first").label("encoder").build()
    return (
        FlowBuilder.from_(encoder).through(nn.Tanh()).tag("code").through(nn.Linear(8, 1))
        .tag("head").build()
    )  # fmt: skip


def test_a_training_run_with_metrics_trends_and_files(tmp_path):
    torch.manual_seed(0)
    net = model()
    assert net.validate_path("encoder.first") == "tag"
    assert net.freeze("encoder") == 2
    optimizer = torch.optim.SGD(net.trainable_parameters(), lr=0.1)
    x, y = torch.randn(16, 4), torch.randn(16, 1)
    net.metric_log().set_mode("accuracy", "max")
    for epoch in range(4):
        loss = (net(x) - y).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        net.record("loss", loss.item())
        net.record_scalar("accuracy", 0.1 * epoch)
        net.record_at("encoder.norm", float(net.tagged_at("encoder.first").norm()))
        net.collect_with(["code"], "norm")
        net.flush()
    assert net.flush_count() == 4
    assert net.trend("loss").improving(4)
    assert net.trend("accuracy").improving(4)
    assert net.trends(["loss", "accuracy"]).all_improving(4)
    assert net.trend_at("encoder.norm").stalled(4, 1e-6), "the encoder is frozen"
    assert set(net.latest_metrics()) == {"loss", "accuracy", "code", "encoder.norm"}
    assert net.eta(8) > 0
    net.export_trends(tmp_path / "trends.csv", ["loss"])
    rows = list(csv.reader((tmp_path / "trends.csv").read_text().splitlines()))
    assert [row[0] for row in rows] == ["epoch", "1", "2", "3", "4"]
    assert float(rows[1][1]) == pytest.approx(net.trend("loss").values[0], abs=1e-7)
    net.plot_html(tmp_path / "plot.html")
    assert '"accuracy"' in (tmp_path / "plot.html").read_text()
    net.write_log(tmp_path / "run.log", 8)
    assert (tmp_path / "run.log").read_text().startswith("epoch 1/8  ")
    net.reset_trend()
    assert net.trend("loss").is_empty
    with pytest.raises(UnknownNameError):
        net.trend("los")


def test_times_and_pictures(tmp_path):
    net, x = model(), torch.randn(2, 4)
    assert not net.profiling()
    net.enable_profiling()
    for _ in range(2):
        net(x)
        net.collect_timings(["head"])
        net.flush_timings()
    assert net.timing("head") == net.profile().timing("head") > 0
    assert len(net.timing_trend("head")) == 2
    net.export_timing_trends(tmp_path / "times.csv")
    assert (tmp_path / "times.csv").read_text().startswith("epoch,head\n")
    net.plot_timings_html(tmp_path / "times.html")
    assert "forward time" in net.svg_with_profile(tmp_path / "heat.svg")
    assert (tmp_path / "heat.svg").read_text() == net.svg_with_profile()
    assert "forward time" in net.dot_with_profile()
    net.disable_profiling()
    assert net.timing("head") is None
    assert net.svg(tmp_path / "net.svg") == net.svg() == net._repr_svg_()
    assert "Tanh" in net.mermaid()
    assert "fd-data" in net.html()
    assert "memory of the values" in net.heat_map("memory", x)


def test_steps_and_epochs_collect_times_while_profiling():
    net, x = model(), torch.randn(2, 4)
    net(x)
    net.end_step()
    net.end_epoch()
    assert net.timing_trend("head").is_empty
    net.enable_profiling()
    for _ in range(2):
        net(x)
        net.end_step()
    net.end_epoch()
    assert len(net.timing_trend("head")) == 1
    assert (net.step_count, net.epoch_count) == (0, 2)


def test_the_end_of_an_epoch_flushes_the_metrics():
    net = model()
    for epoch in range(2):
        for value in (1.0, 3.0):
            net.record_scalar("loss", value + epoch)
        net.end_epoch()
    net.end_epoch()
    assert net.trend("loss").values == (2.0, 3.0)
    assert net.flush_count() == 2


def test_a_notebook_shows_nothing_before_the_flow_is_known():
    class Asking(FlowModule):
        def flow(self, x: Flow) -> Flow:
            return x * 2 if x.size(0) > 1 else x

    net = Asking()
    assert net._repr_svg_() is None
    net(torch.ones(2))
    assert net._repr_svg_().startswith("<svg")


class Taken(FlowModule):
    """Uses names of methods for members, as a ported class may."""

    def __init__(self):
        super().__init__()
        self.freeze = nn.Linear(2, 2)
        self.eta = nn.Parameter(torch.full((2,), 3.0))
        self.register_buffer("trend", torch.ones(2))
        self.register_parameter("svg", None)
        self.add_module("record", nn.Tanh())
        self.html = "a plain value"
        self.code = nn.Linear(2, 2)
        self.build = nn.Parameter(torch.ones(2))
        self.register_buffer("spec", torch.zeros(2))
        self.rebuild = "another"

    def flow(self, x: Flow) -> Flow:
        x = x.through(self.freeze).through(self.record) * self.eta + self.trend
        return x.through(self.code) * self.build + self.spec


def test_members_take_the_names_of_methods():
    net, x = Taken(), torch.randn(3, 2)
    expected = net.code(torch.tanh(net.freeze(x)) * net.eta + net.trend)
    assert torch.equal(net(x), expected)
    assert isinstance(net.freeze, nn.Linear)
    assert net.svg is None
    assert (net.html, net.rebuild) == ("a plain value", "another")
    assert [name for name, _ in net.named_parameters()] == [
        "eta", "build", "freeze.weight", "freeze.bias", "code.weight", "code.bias",
    ]  # fmt: skip
    assert list(net._buffers) == ["trend", "spec"]
    assert 'run(m["code"]' in view(net).code
    assert view(net).spec.nodes
    twin = copy.deepcopy(net).to(torch.float64)
    assert twin.eta.dtype == twin.trend.dtype == torch.float64
    assert twin(x.double()).dtype == torch.float64
    assert torch.compile(net, backend="eager", fullgraph=True)(x).allclose(expected)


def test_other_classes_and_other_names_keep_their_methods():
    Taken()
    assert model().freeze("head") == 2
    assert view(Taken()).thaw("freeze") == 2
    assert inspect.isfunction(Graph.freeze)


def test_flow_module_adds_few_public_names_to_a_class():
    added = {name for name in dir(FlowModule) if not name.startswith("_")} - set(dir(nn.Module))
    assert added == {"build", "code", "describe", "rebuild", "spec"}
    private = set(dir(FlowModule)) - set(dir(nn.Module)) - added
    theirs = ("_flodl_", "__", "_abc_", "_repr_svg_")
    assert [name for name in private if not name.startswith(theirs)] == []
    assert not isinstance(Taken(), Graph)


@pytest.mark.parametrize("kind", [Taken, Graph, FlowModule, View])
def test_annotations_of_our_classes_can_be_evaluated(kind):
    # transformers does so with each class that extends its `PreTrainedModel`.
    assert isinstance(typing.get_type_hints(kind), dict)


def test_flow_module_read_by_a_name_of_the_view_names_the_view():
    class Plain(FlowModule):
        def flow(self, x: Flow) -> Flow:
            return x + 1

    with pytest.raises(AttributeError, match=r"flodl\.view\(module\)\.freeze"):
        Plain().freeze("head")
    with pytest.raises(AttributeError, match=r"no attribute 'frieze'$"):
        Plain().frieze("head")
    assert not hasattr(Plain(), "svg")


def test_view_of_any_module_shows_the_same_as_another_view():
    net = nn.Sequential(nn.Linear(4, 2), nn.ReLU())
    view(net).record("loss", 2.0)
    view(net).end_epoch()
    assert view(net).trend("loss").values == (2.0,)
    assert view(net).epoch_count == 1
    assert view(copy.deepcopy(net)).latest_metrics() == {"loss": 2.0}
    assert repr(view(net)) == "view of Sequential"
    with pytest.raises(GraphError, match="no graph"):
        _ = view(net).code
    with pytest.raises(TypeError, match=r"takes a torch\.nn\.Module, not a dict"):
        view({})


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda view: view.traces("norm"), "no graph"),
        (lambda view: view.last_trace("norm"), "no graph"),
        (lambda view: view.heat_map("memory", torch.ones(1, 4)), "no graph"),
        (lambda view: view.spec, "no graph"),
        (lambda view: view.step(), "keep the session"),
        (lambda view: view.set_lr(0.1), "keep the session"),
        (lambda view: view.epoch(0), "set_data_loader"),
    ],
    ids=["traces", "last_trace", "heat_map", "spec", "step", "set_lr", "epoch"],
)
def test_view_of_a_plain_module_says_what_it_has_not(ask, said):
    with pytest.raises(GraphError, match=said):
        ask(view(nn.Sequential(nn.Linear(4, 2))))


def test_graph_attribute_that_becomes_a_module_is_registered():
    net = model()
    net.extra = 3
    net.extra = nn.Linear(2, 2)
    net.extra = nn.Linear(3, 3)
    assert net.extra.in_features == 3
    assert "extra.weight" in net.state_dict()


def test_view_of_a_graph_is_the_graph():
    net = FlowBuilder.from_(nn.Linear(4, 2)).tag("head").build()
    assert view(net) is net
    assert view(model()).code.startswith("def forward"), "a part of it is called `code`"
    assert {name for name in dir(View) if not name.startswith("_")} <= set(dir(Graph))


def test_a_class_may_define_such_methods_itself():
    class Own(FlowModule):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(2, 2)

        def freeze(self):
            return "mine"

        def flow(self, x: Flow) -> Flow:
            return x.through(self.lin)

    assert Own().freeze() == "mine"


def test_builder_graphs_may_have_tags_named_like_methods():
    net = FlowBuilder.from_(nn.Linear(2, 2)).tag("profile").through(nn.Tanh()).tag("svg").build()
    x = torch.ones(1, 2)
    assert torch.equal(net(x), net.tagged("svg"))
    assert isinstance(net.svg, nn.Tanh)
    assert view(net).svg().startswith("<svg")
    assert net.freeze("profile") == 2
    assert list(net.state_dict()) == ["profile.weight", "profile.bias"]
    net.replace("svg", nn.ReLU())
    assert torch.equal(copy.deepcopy(net)(x), torch.relu(net.profile(x)))
    assert model().svg().startswith("<svg"), "other graphs are not touched"


def test_every_method_says_what_it_does():
    for owner in (TreeMixin, PictureMixin):
        methods = [each for name, each in vars(owner).items() if callable(each)]
        assert len(methods) > 15
        assert all(each.__doc__ for each in methods)
