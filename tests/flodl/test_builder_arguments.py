"""Arguments of the builder's words: `build` gives the graph or a `BuildError`, nothing else."""

import pytest
import torch
from torch import nn

from flodl import Add, BuildError, FlowBuilder, Graph, Reshape, ThresholdHalt

pytestmark = pytest.mark.torch


class Weighs(nn.Module):
    def forward(self, x, mem):
        return x * mem


def layer():
    return nn.Linear(4, 4)


def start():
    return FlowBuilder.from_(layer()).tag("tag")


def problems_of(builder, *example):
    with pytest.raises(BuildError) as caught:
        builder.build(*example)
    for each in caught.value.problems:
        assert each.site.file == __file__
    return [each.message for each in caught.value.problems]


def test_constructor_is_from():
    torch.manual_seed(0)
    stage = nn.Linear(4, 2)
    x = torch.randn(3, 4)
    assert torch.equal(FlowBuilder(stage).build()(x), stage(x))
    assert torch.equal(FlowBuilder().build()(x), x)


@pytest.mark.parametrize("names", [("mem",), (["mem"],), (("mem",),)], ids=str)
def test_input_takes_a_list(names):
    graph = FlowBuilder.from_(layer()).input(*names).through(Weighs()).using("mem").build()
    x, mem = torch.randn(3, 4), torch.randn(3, 4)
    assert torch.equal(graph(x, mem), graph.linear_1(x) * mem)


def test_using_after_input_hands_it_to_the_stage_before():
    graph = FlowBuilder.from_(Weighs()).input("mem").using("mem").tag("y").build()
    x, mem = torch.randn(3, 4), torch.randn(3, 4)
    assert torch.equal(graph(x, mem), x * mem)
    both = FlowBuilder(Weighs()).using("a").input("a", "b").through(Weighs()).using("b").build()
    assert torch.equal(both(x, mem, mem), x * mem * mem)


def test_wrong_kinds_are_reported_together():
    builder = start().tag(3).label(3).loop_body(layer()).for_n(2.5).through(layer()).using(None)
    assert problems_of(builder, "x") == [
        "tag(3): a tag is a text, not an int",
        "for_n(2.5): a number of turns is a whole number, not a float",
        "using(None): a tag is a text, not None",
        "label(3): a label is a text, not an int",
        "build: example input 1 is a str; give tensors",
    ]


def test_for_n_in_a_flow_takes_whole_numbers_only():
    from flodl import Flow, FlowError, FlowModule

    class Turns(FlowModule):
        def flow(self, x: Flow) -> Flow:
            return x.loop_body(torch.relu).for_n(2.5)

    with pytest.raises(FlowError, match=r"for_n\(2\.5\) needs a whole number, not a float"):
        Turns()(torch.ones(2))


def test_reshape_takes_a_list():
    x = torch.randn(3, 4)
    for shape in ((-1, 2), ([-1, 2],), (torch.Size([6, 2]),)):
        graph = FlowBuilder(Reshape(*shape)).build()
        assert torch.equal(graph(x), x.reshape(-1, 2))
    with pytest.raises(TypeError, match=r"Reshape takes whole numbers, not 2\.5"):
        Reshape([-1, 2.5])


ODD = {
    "int": 3, "negative": -1, "float": 2.5, "none": None, "empty": "", "two words": "a b", "dot": "a.b",
    "tag": "tag", "bool": True, "list": [], "tuple": (), "ints": [3], "names": ["m"], "pair": ("m", "n"),
    "dict": {"a": 1}, "object": object(), "tensor": torch.ones(2), "class": nn.Linear, "relu class": nn.ReLU,
    "module": nn.Tanh(), "function": torch.relu, "mixed": [nn.ReLU(), "x"], "set": {1, 2},
    "modules": nn.ModuleList([nn.Tanh(), nn.Tanh()]), "bytes": b"x", "complex": 1j, "print": print,
    "merge": Add(), "merge class": Add, "by name": nn.ModuleDict({"a": nn.Tanh()}),
}  # fmt: skip
WORDS = {
    "from": FlowBuilder,
    "through": lambda odd: start().through(odd),
    "through two": lambda odd: start().through(layer(), odd),
    "through named": lambda odd: start().through(layer(), k=odd),
    "also": lambda odd: start().also(odd),
    "also_with": lambda odd: start().also_with(layer(), odd),
    "fork": lambda odd: start().fork(odd),
    "split": lambda odd: start().split(odd),
    "split two": lambda odd: start().split(layer(), odd).merge(Add()),
    "merge": lambda odd: start().split(layer(), layer()).merge(odd),
    "merge using": lambda odd: start().merge(odd).using("tag"),
    "tag": lambda odd: start().tag(odd),
    "tag_group": lambda odd: start().split(layer(), layer()).tag_group(odd).merge(Add()),
    "using": lambda odd: start().through(layer()).using(odd),
    "using named": lambda odd: start().through(layer()).using(m=odd),
    "input": lambda odd: start().input(odd),
    "internal": lambda odd: start().internal(odd),
    "label": lambda odd: start().label(odd),
    "initial": lambda odd: start().initial(odd, None),
    "gate": lambda odd: start().gate(layer(), odd),
    "gate router": lambda odd: start().gate(odd, layer(), layer()),
    "switch": lambda odd: start().switch(layer(), odd),
    "for_n": lambda odd: start().loop_body(layer()).for_n(odd),
    "body": lambda odd: start().loop_body(odd).for_n(2),
    "while limit": lambda odd: start().loop_body(layer()).while_cond(ThresholdHalt(1.0), odd),
    "until": lambda odd: start().loop_body(layer()).until_cond(odd, 3),
    "over": lambda odd: start().map(layer()).over(odd),
    "slices": lambda odd: start().map(layer()).slices(odd),
    "along": lambda odd: start().map(layer()).along(odd),
    "map": lambda odd: start().map(odd).each(),
}


@pytest.mark.parametrize("word", WORDS)
def test_word_with_odd_arguments_builds_or_raises_build_error(word):
    refused = 0
    for name, odd in ODD.items():
        try:
            graph = WORDS[word](odd).build()
        except BuildError:
            refused += 1
        except Exception as error:
            pytest.fail(f"{word} with {name}: {error!r}")
        else:
            assert isinstance(graph, Graph), name
    assert refused > 0
