"""The branches of a split, and how they become one value again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from flodl.errors import FlowError
from flodl.ir.graph import Arg, Literally, TagGroup
from flodl.nodes.merge import MERGE_NAMES, Cat, Stack, as_merge
from flodl.tracing.callsite import call_site

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flodl.tracing.proxy import Flow
    from flodl.tracing.tracer import Tracer


@final
class Branches:
    """The values of the branches of `x.split(a, b, ...)`, in order; iterate to unpack them."""

    def __init__(self, values: tuple[Any, ...], tracer: Tracer) -> None:
        self._values = values
        self._tracer = tracer

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, position: int) -> Any:
        return self._values[position]

    def merge(self, op: Any) -> Flow:
        """Merge the branches: `Add()`, `Mean()`, `Mul()`, `Max()`, `Cat(dim)`, `Stack(dim)`.

        Args:
            op: one of these, its class, or any function of a list of tensors.
        """
        tracer = self._tracer
        merge = as_merge(op)
        name = MERGE_NAMES.get(type(merge))
        if name is None:
            target = tracer.encoder.callable_name(merge)
            flow: Flow = tracer.step("function", target, (list(self._values),), compute=merge)
            return flow
        dim: dict[str, Arg] = {}
        if isinstance(merge, (Cat, Stack)):
            dim["dim"] = Literally(merge.dim)
        merged: Flow = tracer.step(
            "merge", name, self._values, compute=lambda *values: merge(values), extra_named=dim
        )
        return merged

    def tag_group(self, name: str) -> Branches:
        """Tag the branches `<name>_0`, `<name>_1`, ... and the whole as group `name`.

        Raises:
            FlowError: the name is already a tag or a group.
        """
        tracer = self._tracer
        if name in tracer.tags or any(group.name == name for group in tracer.groups):
            message = f"{call_site()}: `{name}` is already a tag or a group; choose another name"
            raise FlowError(message)
        tags = tuple(f"{name}_{position}" for position in range(len(self._values)))
        for tag, value in zip(tags, self._values, strict=True):
            tracer.tag(tag, value)
        tracer.groups.append(TagGroup(name=name, tags=tags))
        return self
