"""Laws on random programs: a graph computes what the same Python computes on tensors directly."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from flodl import Add, Cat, FlowBuilder, FlowModule, Max, Mean, Mul, Stack

pytestmark = pytest.mark.torch
WIDTH = 4
VARIABLES = "abc"

# Each line reads and writes the variables a, b, c (all [n, 4]); some write in place or through views,
# some unpack, some ask sizes, some draw random numbers.
LINES = (
    "{x} = run(layers[0], {y})",
    "{x} = run(layers[1], {y})",
    "{x} = {y} + {z}",
    "{x} = {y} * 0.5 - {z}",
    "{x} = torch.relu({y})",
    "{x} = {y}.clone()",
    "{x} += {y}.mean()",
    "{x} *= 0.5",
    "{x}[:, 0] = {y}[:, 1]",
    "{x} = {y}[:, [1, 0, 3, 2]]",
    "left, right = {y}.chunk(2, dim=1); {x} = torch.cat([right, left], dim=1)",
    "{x} = {y}.view({y}.size(0), 2, -1).transpose(1, 2).reshape({y}.size(0), -1)",
    "n, w = {y}.size(); {x} = {y} * (n + w) / w",
    "{x} = {y} + torch.rand({z}.size(0), 1)",
    "{x} = torch.stack([{y}, {z}]).sum(0)",
    "{x} = {y} if {z}.size(0) > 2 else -{y}",
    "{x} = {y}.clamp(min=-1).add_({z})",
    "{x} = {y}.max(dim=1, keepdim=True).values + {z}",
    "view = {y}.narrow(1, 0, 2); view.mul_(2); {x} = {y} + {z}",
    "parts = [part * 2 for part in {y}.split(1, dim=1)]; {x} = torch.cat(parts, 1)",
)


@st.composite
def programs(draw) -> str:
    lines = draw(st.lists(st.sampled_from(LINES), min_size=1, max_size=12))
    names = st.sampled_from(VARIABLES)
    return "\n".join(
        line.format(x=draw(names), y=draw(names), z=draw(names)) for line in lines
    ).replace("; ", "\n")


def function_of(program: str, run):
    body = "\n".join("    " + line for line in program.splitlines())
    source = f"def program(layers, a, b):\n    c = a - b\n{body}\n    return a, b, c\n"
    namespace = {"torch": torch, "run": run}
    exec(source, namespace)
    return namespace["program"]


def module_of(program: str) -> FlowModule:
    body = function_of(program, lambda layer, x: x.through(layer))

    class Program(FlowModule):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(WIDTH, WIDTH), nn.Dropout(0.5)])

        def flow(self, a, b):
            return body(self.layers, a, b)

    return Program()


@given(programs(), st.integers(0, 5))
@pytest.mark.slow
def test_a_recorded_program_computes_what_python_computes(program, seed):
    module = module_of(program)
    plain = function_of(program, lambda layer, x: layer(x))
    for rows in (3, 2, 3):
        for _ in range(2):
            inputs = torch.randn(2, rows, WIDTH, generator=torch.Generator().manual_seed(seed))
            mine, theirs = [t.clone() for t in inputs], [t.clone() for t in inputs]
            with torch.no_grad():
                torch.manual_seed(seed)
                expected = plain(module.layers, *theirs)
                state = torch.get_rng_state()
                torch.manual_seed(seed)
                found = module(*mine)
            for left, right in zip([*found, *mine], [*expected, *theirs], strict=True):
                assert torch.equal(left.nan_to_num(), right.nan_to_num()), module.code
            assert torch.equal(state, torch.get_rng_state())
            aliases = [[x.data_ptr() == y.data_ptr() for y in mine] for x in found]
            assert aliases == [[x.data_ptr() == y.data_ptr() for y in theirs] for x in expected]


MERGES = (Add(), Mean(), Mul(), Max())
STAGES = (torch.relu, torch.tanh, nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.Identity())


@st.composite
def chains(draw) -> list[tuple[object, ...]]:
    stage = st.sampled_from(STAGES)
    word = st.one_of(
        st.tuples(st.just("through"), stage),
        st.tuples(st.just("also"), stage),
        st.tuples(st.just("also_with"), stage, stage),
        st.tuples(
            st.just("split"), st.lists(stage, min_size=2, max_size=4), st.sampled_from(MERGES)
        ),
        st.tuples(st.just("cat"), stage, stage),
        st.tuples(st.just("stack"), stage, stage),
        st.tuples(st.just("loop"), stage, st.integers(1, 3)),
        st.tuples(st.just("tag")),
        st.tuples(st.just("fork"), stage),
    )
    return draw(st.lists(word, min_size=1, max_size=8))


def build(chain) -> nn.Module:
    builder = FlowBuilder.new()
    for position, (word, *args) in enumerate(chain):
        if word in ("through", "also", "fork"):
            builder = {"through": builder.through, "also": builder.also, "fork": builder.fork}[
                word
            ](*args)
        elif word == "also_with":
            builder = builder.also_with(main=args[0], skip=args[1])
        elif word == "split":
            builder = builder.split(*args[0]).merge(args[1])
        elif word == "cat":
            builder = builder.split(*args).merge(Cat(dim=1)).through(nn.AdaptiveAvgPool1d(WIDTH))
        elif word == "stack":
            builder = builder.split(*args).merge(Stack(dim=0)).through(torch.sum, 0)
        elif word == "loop":
            builder = builder.loop_body(args[0]).for_n(args[1])
        else:
            builder = builder.tag(f"t{position}")
    return builder.build()


def interpret(chain, x: torch.Tensor) -> torch.Tensor:
    for word, *args in chain:
        if word == "through":
            x = args[0](x)
        elif word == "also":
            x = x + args[0](x)
        elif word == "also_with":
            main = args[0](x)
            x = args[1](x) + main
        elif word == "split":
            x = args[1]([stage(x) for stage in args[0]])
        elif word == "cat":
            x = nn.functional.adaptive_avg_pool1d(torch.cat([s(x) for s in args], 1), WIDTH)
        elif word == "stack":
            x = torch.sum(torch.stack([s(x) for s in args]), 0)
        elif word == "loop":
            for _ in range(args[1]):
                x = args[0](x)
    return x


@given(chains())
def test_a_built_chain_equals_a_naive_interpreter(chain):
    graph = build(chain)
    x = torch.randn(3, WIDTH, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = interpret(chain, x)
        assert torch.equal(graph(x), expected)
        assert torch.equal(copy.deepcopy(graph)(x), expected)
