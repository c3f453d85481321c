"""`FlowBuilder`: a graph written as one fluent chain; everything wrong with it is reported at once."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, final

import torch
from torch import nn

from flodl import log
from flodl.builder.graph import Graph
from flodl.builder.lowering import assemble
from flodl.builder.word_checks import name_misfit
from flodl.errors import BuildError, FlowError
from flodl.ir.graph import Problem
from flodl.tracing.callsite import call_site

if TYPE_CHECKING:
    from flodl.ir.graph import Site
    from flodl.vocabulary.stages import Stage

Word = Literal[
    "from", "through", "also", "also_with", "fork", "split", "merge", "tag", "tag_group", "using",
    "input", "loop", "halting", "gate", "switch", "map",
    "initial", "internal",
]  # fmt: skip


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class BuilderStep:
    """One word of the chain, with its arguments and its place in the source."""

    word: Word
    args: tuple[Any, ...] = ()
    named: tuple[tuple[str, Any], ...] = ()
    site: Site


@final
@dataclass(frozen=True, slots=True, init=False)
class FlowBuilder:
    """Describes a graph as a chain of words.  Each word returns a new builder; nothing runs until `build`.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from flodl import Cat, FlowBuilder
        >>> graph = (
        ...     FlowBuilder.from_(nn.Linear(8, 16)).tag("stem")
        ...     .split(nn.Linear(16, 4), nn.Linear(16, 4))
        ...     .merge(Cat(dim=1))
        ...     .also(nn.Linear(8, 8))
        ...     .through(torch.relu)
        ...     .label("classifier")
        ...     .build()
        ... )
        >>> graph(torch.ones(2, 8)).shape
        torch.Size([2, 8])
    """

    steps: tuple[BuilderStep, ...]
    name: str
    name_site: Site | None
    is_verbose: bool

    def __init__(self, stage: Stage = ()) -> None:
        """Start with a stage that reads the graph's first input `x`; without one, with `x` itself."""
        first = BuilderStep(word="from", args=(stage,), site=call_site())
        self._set(steps=(first,), name="", name_site=None, is_verbose=False)

    @classmethod
    def from_(cls, stage: Stage) -> FlowBuilder:
        """Start with a stage that reads the graph's first input `x`."""
        return cls(stage)

    @classmethod
    def new(cls) -> FlowBuilder:
        """Start with the graph's first input itself."""
        return cls()

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)  # the way of frozen dataclasses

    def _with(self, **changes: Any) -> FlowBuilder:
        made = object.__new__(FlowBuilder)
        held = {name: getattr(self, name) for name in FlowBuilder.__slots__}
        made._set(**{**held, **changes})
        return made

    def _say(self, word: Word, *args: Any, **named: Any) -> FlowBuilder:
        step = BuilderStep(word=word, args=args, named=tuple(named.items()), site=call_site())
        return self._with(steps=(*self.steps, step))

    def through(self, stage: Stage, /, *extra: Any, **named: Any) -> FlowBuilder:
        """Pass the stream through a stage: `stage(x, *extra, **named)`."""
        return self._say("through", stage, *extra, **named)

    def also(self, stage: Stage, /, *extra: Any, **named: Any) -> FlowBuilder:
        """Add a stage's result to the stream: `x + stage(x)`."""
        return self._say("also", stage, *extra, **named)

    def also_with(self, *paths: Stage, **named: Stage) -> FlowBuilder:
        """Add two paths, run in the order written: `skip(x) + main(x)`."""
        return self._say("also_with", *paths, **named)

    def fork(self, stage: Stage, /, *extra: Any, **named: Any) -> FlowBuilder:
        """Run a side branch; the stream continues unchanged.  A `tag` right after names the side branch."""
        return self._say("fork", stage, *extra, **named)

    def split(self, *stages: Stage) -> FlowBuilder:
        """Run at least two stages on the stream, side by side; `merge` makes one stream of them."""
        return self._say("split", *stages)

    def merge(self, op: Any, *, last: bool = False) -> FlowBuilder:
        """Merge the branches: `Add()`, `Mean()`, `Mul()`, `Max()`, `Cat(dim)`, `Stack(dim)`.

        Followed by `using`, it merges the stream and earlier tagged values:
        `.merge(Cat(dim=1)).using("skip")`; `last` puts the stream behind them, not before them.
        """
        return self._say("merge", op, **({"last": True} if last else {}))

    def tag(self, name: str) -> FlowBuilder:
        """Name the stream's value at this point, or the side branch right after `fork`."""
        return self._say("tag", name)

    def tag_group(self, name: str) -> FlowBuilder:
        """Name the open branches `<name>_0`, `<name>_1`, ... and all of them `name`."""
        return self._say("tag_group", name)

    def using(self, *names: str | Sequence[str], **named: str) -> FlowBuilder:
        """Hand earlier tagged values to the stage before: `.through(decoder).using("memory", mask="m")`.

        Positional names become extra positional arguments, keywords become keyword arguments.  A module
        with `forward_named(x, refs)` gets a dict by tag name instead.

        A tag that is given only further down is a forward reference: the value it had in the last call,
        at first what `initial` says, else zeros.  See `Graph.end_step` and `Graph.end_sequence`.
        """
        return self._say("using", *_flat(names), **named)

    def initial(self, tag: str, value: Any) -> FlowBuilder:
        """Set the value of a forward reference to `tag` in the first call.

        Args:
            tag: the tag.
            value: a tensor, or a function of the stream that makes one.
        """
        return self._say("initial", tag, value)

    def gate(self, router: Stage, *experts: Stage) -> FlowBuilder:
        """Run all experts and add their results, weighted by the router; `using` goes to the router."""
        return self._say("gate", router, *experts)

    def switch(self, router: Stage, *branches: Stage) -> FlowBuilder:
        """Run only the branch that the router chooses; `using` goes to the router."""
        return self._say("switch", router, *branches)

    def map(self, stage: Stage) -> MapWord:
        """Run a stage on parts of the stream: `.along(dim)`, `.each()`, `.over(tag)` or `.slices(n)`."""
        return MapWord(self, stage, call_site())

    def input(self, *names: str | Sequence[str]) -> FlowBuilder:
        """Declare further inputs of the graph, one by one or in a list; each is tagged by its name.

        An input has its value from the start, wherever in the chain it is declared.
        """
        return self._say("input", *_flat(names))

    def loop_body(self, stage: Stage) -> LoopWord:
        """Start a loop; say when it ends: `.for_n(n)`, `.while_cond(...)`, `.until_cond(...)`."""
        return LoopWord(self, stage, call_site())

    def label(self, name: str) -> FlowBuilder:
        """Name the whole graph, so that it can be addressed where it is nested."""
        return self._with(name=name, name_site=call_site())

    def internal(self, tag: str) -> FlowBuilder:
        """Hide a tag from graphs around this one."""
        return self._say("internal", tag)

    def verbose(self, on: bool = True) -> FlowBuilder:  # the word of the API
        """Write the flow as text to standard error when the graph is built."""
        return self._with(is_verbose=on)

    def build(self, *example: torch.Tensor) -> Graph:
        """Check the whole chain and make the graph.

        Args:
            *example: example inputs.  With them the shapes are checked as well, on the meta device,
                which computes nothing and changes nothing.

        Raises:
            BuildError: with every wiring problem of the chain, each at its file and line.
        """
        site = call_site()
        misfits = [
            *(Problem(message=each, site=self.name_site or site) for each in _label_misfit(self)),
            *(Problem(message=each, site=site) for each in _example_misfits(example)),
        ]
        label = "" if misfits else self.name
        assembled = assemble(self.steps, label, site)
        if assembled.problems or misfits:
            raise BuildError((*assembled.problems, *misfits))
        graph = Graph(assembled.spec, assembled.modules, assembled.constants)
        if example:
            check_shapes(graph, example)
        if self.is_verbose and log.enabled(log.Verbosity.NORMAL):
            sys.stderr.write(f"{graph}\n")
        return graph


@final
@dataclass(frozen=True, slots=True)
class LoopWord:
    """A loop that still needs to know when it ends."""

    builder: FlowBuilder
    stage: Any
    site: Site

    def for_n(self, n: int) -> FlowBuilder:
        """Apply the stage `n` times, each time to the result of the time before."""
        return self._finish("loop", n)

    def while_cond(self, halt: Stage, limit: int, *, per_sample: bool = False) -> FlowBuilder:
        """Apply the stage until `halt` is positive, checked before each turn, at most `limit` times."""
        return self._finish("halting", halt, limit, "while", per_sample)

    def until_cond(self, halt: Stage, limit: int, *, per_sample: bool = False) -> FlowBuilder:
        """Apply the stage until `halt` is positive, checked after each turn, at most `limit` times."""
        return self._finish("halting", halt, limit, "until", per_sample)

    def _finish(self, word: Word, *args: Any) -> FlowBuilder:
        step = BuilderStep(word=word, args=(self.stage, *args), site=self.site)
        return self.builder._with(steps=(*self.builder.steps, step))


@final
@dataclass(frozen=True, slots=True)
class MapWord:
    """A stage that still needs to know which parts of the stream it runs on."""

    builder: FlowBuilder
    stage: Any
    site: Site
    is_batched: bool = False

    def batched(self) -> MapWord:
        """Run the stage once on all parts together."""
        return MapWord(self.builder, self.stage, self.site, is_batched=True)

    def each(self) -> FlowBuilder:
        """Run the stage on every element of dimension 0."""
        return self._finish("each")

    def over(self, tag: str) -> FlowBuilder:
        """Run the stage on every element of an earlier tagged value; the stream itself is dropped."""
        return self._finish("over", tag)

    def slices(self, n: int) -> FlowBuilder:
        """Cut the last dimension into `n` slices and run the stage on each."""
        return self._finish("slices", n)

    def along(self, dim: int, out_dim: int | None = None) -> FlowBuilder:
        """Run the stage on every slice along a dimension and stack the results along `out_dim`."""
        return self._finish("along", dim, out_dim)

    def _finish(self, how: str, *arguments: Any) -> FlowBuilder:
        args = (self.stage, how, arguments, self.is_batched)
        step = BuilderStep(word="map", args=args, site=self.site)
        return self.builder._with(steps=(*self.builder.steps, step))


def _flat(names: tuple[Any, ...]) -> list[Any]:
    """Return names that are given one by one, in lists, or both; `build` refuses other things."""
    return [
        each
        for name in names
        for each in (
            name if isinstance(name, (Sequence, AbstractSet)) and not _is_text(name) else (name,)
        )
    ]


def _is_text(value: Any) -> bool:
    return isinstance(value, (str, bytes))


def _label_misfit(builder: FlowBuilder) -> list[str]:
    return [] if builder.name_site is None else list(name_misfit("label", builder.name))


def _example_misfits(example: tuple[Any, ...]) -> list[str]:
    return [
        f"build: example input {position} is a {type(each).__name__}; give tensors"
        for position, each in enumerate(example, start=1)
        if not isinstance(each, torch.Tensor)
    ]


def check_shapes(graph: Graph, example: tuple[torch.Tensor, ...]) -> None:
    """Run a copy of a graph on the meta device, where only shapes and dtypes exist.

    Raises:
    Exception: the error of the failing operation, with a note that says which node it is.
    """
    import copy

    twin = copy.deepcopy(graph).to("meta")
    with torch.no_grad():
        twin(*(each.to("meta") for each in example))


def call(function: Any, /, *args: Any, **named: Any) -> Any:
    """Call a module or function as one step of the flow that is being described.

    For calls whose first argument is no flow: parameters, constants, keyword arguments only.  Outside a
    flow it is just the call.

    Args:
        function: a module or any callable.
        *args: positional arguments, flows or plain values.
        **named: keyword arguments, likewise.

    Example:
        >>> import torch
        >>> from flodl import Flow, FlowModule, call
        >>> class Prior(FlowModule):
        ...     def __init__(self) -> None:
        ...         super().__init__()
        ...         self.start = torch.nn.Parameter(torch.zeros(1, 4))
        ...         self.net = torch.nn.Linear(4, 4)
        ...     def flow(self, x: Flow) -> Flow:
        ...         return x + call(self.net, self.start)
        >>> Prior()(torch.ones(2, 4)).shape
        torch.Size([2, 4])
    """
    from flodl.tracing.active import current_tracer
    from flodl.vocabulary.stages import call_stage

    tracer = current_tracer()
    if tracer is None:
        if isinstance(function, type) and issubclass(function, nn.Module):
            message = f"{call_site()}: `{function.__name__}` is a class; give an instance"
            raise FlowError(message)
        return function(*args, **named)
    return call_stage(tracer, function, args, named)
