"""Flow words on plain values: each word does at once what it records in a recording.

A tool that traces the module (Dynamo, `torch.export`, `torch.fx`, `torch.jit.trace`) runs the body of a
flow with the words replaced by these functions, see `flodl.module.plain_body`:

    x.through(self.conv).also(self.mix)      # in the flow
    also(through(x, self.conv), self.mix)    # what the tool traces

A word may be an ordinary method too: `text.split(",")`, `self.map(x)`. Each function therefore looks first
whether the object has the method itself, unless it is a value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, final

from torch import nn
from torch.fx import Proxy

from flodl.errors import FlowError
from flodl.graph.instrumentation import detached
from flodl.nodes.merge import as_merge
from flodl.tracing.callsite import call_site
from flodl.vocabulary.at_once import is_value, run_at_once
from flodl.vocabulary.control_flow import MapBody, Scan, route
from flodl.vocabulary.loops import Loop
from flodl.vocabulary.stages import is_module_list

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from flodl.graph.instrumentation import Watch


@final
class PlainTags:
    """The tagged values of one call.

    Attributes:
        values: the values by tag.
        fork: the side branch and the stream of the last `fork` that no tag has followed.
    """

    def __init__(self, watch: Watch | None) -> None:
        """Take the watch that keeps tagged values for the user, where there is one."""
        self.values: dict[str, Any] = {}
        self.fork: tuple[Any, Any] | None = None
        self._watch = watch
        self._kept: dict[str, Any] = {}

    def put(self, name: str, value: Any) -> None:
        """Name a value.

        Raises:
            FlowError: another value already has the name.
        """
        if name in self.values and self.values[name] is not value:
            message = f"tag `{name}` is already the name of another value; choose another name"
            raise FlowError(message)
        self.values[name] = value
        watch = self._watch
        if watch is not None and watch.wants(name) and not isinstance(value, Proxy):
            self._kept[name] = detached(value)
            watch.kept.values = dict(self._kept)

    def get(self, name: str) -> Any:
        """Return the value of a tag.

        Raises:
            FlowError: no value of that name has been tagged yet.
        """
        if name not in self.values:
            message = f"no value is tagged `{name}` before this line"
            raise FlowError(message)
        return self.values[name]


def _own(x: Any, name: str) -> Any:
    """Return the method of that name that an object has, where it is no value of the flow."""
    return None if is_value(x) else getattr(x, name, None)


def through(x: Any, /, *args: Any, **named: Any) -> Any:
    """Do `x.through(stage, ...)`."""
    own = _own(x, "through")
    if own is not None:
        return own(*args, **named)
    stage, *extra = args
    return run_at_once(stage, x, tuple(extra), named)


def also(x: Any, /, *args: Any, **named: Any) -> Any:
    """Do `x.also(stage, ...)`, or `x.also(y)` for a value."""
    own = _own(x, "also")
    if own is not None:
        return own(*args, **named)
    stage, *extra = args
    if len(args) == 1 and not named and (is_value(stage) or not _is_stage(stage)):
        return x + stage
    return x + run_at_once(stage, x, tuple(extra), named)


def also_with(x: Any, /, *args: Any, **named: Any) -> Any:
    """Do `x.also_with(skip=..., main=...)`."""
    own = _own(x, "also_with")
    if own is not None:
        return own(*args, **named)
    paths = dict(zip(("skip", "main"), args, strict=False)) | named
    if set(paths) != {"skip", "main"} or len(args) + len(named) != 2:
        message = f"{call_site()}: also_with takes two paths: also_with(skip=..., main=...)"
        raise FlowError(message)
    first, second = [run_at_once(each, x, (), {}) for each in paths.values()]
    return first + second


def fork(tags: PlainTags, x: Any, /, *args: Any, **named: Any) -> Any:
    """Do `x.fork(stage, ..., tag=...)`."""
    own = _own(x, "fork")
    if own is not None:
        return own(*args, **named)
    name = named.pop("tag", None)
    stage, *extra = args
    side = run_at_once(stage, x, tuple(extra), named)
    if name is not None:
        tags.put(name, side)
    else:
        tags.fork = (side, x)
    return x


def tag(tags: PlainTags, x: Any, /, *args: Any, **named: Any) -> Any:
    """Do `x.tag(name)`."""
    own = _own(x, "tag")
    if own is not None:
        return own(*args, **named)
    (name,) = (*args, *named.values())
    pending, tags.fork = tags.fork, None
    tags.put(name, pending[0] if pending is not None and pending[1] is x else x)
    return x


def using(tags: PlainTags, x: Any, /, *args: Any, **named: Any) -> Any:
    """Do `x.using("memory", key="tag")`."""
    own = _own(x, "using")
    if own is not None:
        return own(*args, **named)
    return PlainUsing(
        x,
        {name: tags.get(name) for name in args},
        {key: tags.get(name) for key, name in named.items()},
    )


def split(tags: PlainTags, x: Any, /, *args: Any, **named: Any) -> Any:
    """Do `x.split(a, b)` with stages, or the method of tensors with numbers."""
    if not named and _are_stages(args) and _own(x, "split") is None:
        listed = len(args) == 1 and (is_module_list(args[0]) or type(args[0]) in (list, tuple))
        parts = tuple(args[0]) if listed else args
        return PlainBranches(tuple(run_at_once(each, x, (), {}) for each in parts), tags)
    return x.split(*args, **named)


def loop_body(x: Any, /, *args: Any, **named: Any) -> Any:
    """Do `x.loop_body(stage, ...)`."""
    own = _own(x, "loop_body")
    if own is not None:
        return own(*args, **named)
    stage, *extra = args
    return Loop(x, stage, None, tuple(extra), named)


def gate(x: Any, /, *args: Any, **named: Any) -> Any:
    """Do `x.gate(router, *experts, **refs)`."""
    own = _own(x, "gate")
    return own(*args, **named) if own is not None else route(x, "gate", args[0], args[1:], named)


def switch(x: Any, /, *args: Any, **named: Any) -> Any:
    """Do `x.switch(router, *branches, **refs)`."""
    own = _own(x, "switch")
    return own(*args, **named) if own is not None else route(x, "switch", args[0], args[1:], named)


def map_(tags: PlainTags, x: Any, /, *args: Any, **named: Any) -> Any:
    """Do `x.map(stage)`."""
    own = _own(x, "map")
    if own is not None:
        return own(*args, **named)
    (stage,) = (*args, *named.values())
    return MapBody(x, stage, tags=tags.values)


def scan(x: Any, /, *args: Any, **named: Any) -> Any:
    """Do `x.scan(cell, state, readout=...)`."""
    own = _own(x, "scan")
    if own is not None:
        return own(*args, **named)
    cell, state = (*args, *(named[key] for key in ("cell", "state") if key in named))
    return Scan(x, cell, state, named.get("readout"))


def call_flow(module: Any, /, *args: Any, **named: Any) -> Any:
    """Do `self.flow(x)`: the generated forward, unless the module has a member called `flow`."""
    own = vars(module)
    if "flow" in own or "flow" in own["_modules"] or not isinstance(module, nn.Module):
        return module.flow(*args, **named)
    return module.forward(*args, **named)


# The words that need the tags of the call, and those that do not.
TAG_WORDS: Final[dict[str, Callable[..., Any]]] = {
    "fork": fork, "map": map_, "split": split, "tag": tag, "using": using,
}  # fmt: skip
FREE_WORDS: Final[dict[str, Callable[..., Any]]] = {
    "also": also, "also_with": also_with, "gate": gate, "loop_body": loop_body, "scan": scan,
    "switch": switch, "through": through,
}  # fmt: skip


@final
class PlainBranches:
    """The values of the branches of `x.split(a, b, ...)`, in order; iterate to unpack them."""

    def __init__(self, values: tuple[Any, ...], tags: PlainTags) -> None:
        self._values = values
        self._tags = tags

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, position: int) -> Any:
        return self._values[position]

    def merge(self, op: Any) -> Any:
        """Merge the branches, as `Branches.merge` does."""
        return as_merge(op)(list(self._values))

    def tag_group(self, name: str) -> PlainBranches:
        """Tag the branches `<name>_0`, `<name>_1`, ..."""
        for position, value in enumerate(self._values):
            self._tags.put(f"{name}_{position}", value)
        return self


@final
class PlainUsing:
    """A value with earlier tagged values in hand, for exactly one stage."""

    def __init__(self, x: Any, values: dict[str, Any], named: dict[str, Any]) -> None:
        """Take the stream, the positional values by tag name, and the keyword values by parameter."""
        self._x = x
        self._values = values
        self._named = named

    def through(self, stage: Any, /, *extra: Any, **named: Any) -> Any:
        """Run a stage with the tagged values as extra arguments."""
        if isinstance(stage, nn.Module) and "forward_named" in dir(type(stage)):
            return stage.forward_named(self._x, self._values | self._named)  # type: ignore[operator]
        return run_at_once(stage, self._x, (*self._values.values(), *extra), self._named | named)

    def merge(self, op: Any, *, last: bool = False) -> Any:
        """Merge the value and the tagged values, as `Using.merge` does."""
        tagged = list(self._values.values())
        return as_merge(op)([*tagged, self._x] if last else [self._x, *tagged])

    def also(self, stage: Any, /, *extra: Any, **named: Any) -> Any:
        """Add the result of a stage that gets the tagged values: `x + stage(x, ...)`."""
        return self._x + self.through(stage, *extra, **named)


def _is_stage(stage: Any) -> bool:
    return callable(stage) or type(stage) in (list, tuple) or is_module_list(stage)


def _are_stages(parts: tuple[Any, ...]) -> bool:
    """Return True if the arguments of `split` are stages rather than sizes."""
    if len(parts) == 1 and type(parts[0]) in (list, tuple):
        parts = tuple(parts[0])
    return len(parts) > 0 and all(_is_stage_of_split(each) for each in parts)


def _is_stage_of_split(part: Any) -> bool:
    if is_value(part):  # a proxy of torch.fx may be a size
        return False
    if type(part) in (list, tuple):
        return all(_is_stage_of_split(each) for each in part)
    return callable(part) or is_module_list(part)
