"""The modules of a builder chain: classes made instances, and a name for each."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from torch import nn

from flodl.errors import FlowError
from flodl.graph.planned_module import PlannedModule
from flodl.graph.texts import spec_of
from flodl.ir.graph import Problem, Site
from flodl.tracing.naming import Names
from flodl.vocabulary.stages import instantiate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from flodl.builder.flow_builder import BuilderStep

_SITE = re.compile(r"^.*?:\d+: ")


def strip_site(text: str) -> str:
    """Return an error text without the file and line it starts with."""
    return _SITE.sub("", text)


def _made(stage: Any, site: Site, problems: list[Problem]) -> Any:
    if isinstance(stage, type) and issubclass(stage, nn.Module):
        try:
            return instantiate(stage)
        except FlowError as error:
            problems.append(Problem(message=strip_site(str(error)), site=site))
            return ()
    if type(stage) in (tuple, list):
        return tuple(_made(each, site, problems) for each in stage)
    return stage


def instantiated(steps: Sequence[BuilderStep]) -> tuple[list[BuilderStep], list[Problem]]:
    """Replace module classes by instances, once, before modules get their names."""
    problems: list[Problem] = []

    made = [
        type(step)(
            word=step.word,
            args=tuple(_made(arg, step.site, problems) for arg in step.args)
            if step.word != "merge"
            else step.args,
            named=tuple((key, _made(value, step.site, problems)) for key, value in step.named),
            site=step.site,
        )
        for step in steps
    ]
    return made, problems


def named_modules(steps: Sequence[BuilderStep]) -> list[tuple[str, nn.Module]]:
    """Name every module of a chain: by its tag, by its label, else `<kind>_<n>` counted per kind."""
    names = Names()
    found: list[tuple[str, nn.Module]] = []
    seen: set[int] = set()
    for position, step in enumerate(steps):
        modules = _modules_of(step)
        for module, wanted in zip(modules, _wanted(steps, position, modules), strict=True):
            if id(module) in seen:
                continue
            seen.add(id(module))
            kind = type(module).__name__.lower()
            found.append((names.preferred(wanted) if wanted else names.counted(kind), module))
    return found


def _modules_of(step: BuilderStep) -> list[nn.Module]:
    values = (*step.args, *(value for _, value in step.named))
    return [each for value in values for each in _modules_in(value)]


def _modules_in(stage: Any) -> Iterator[nn.Module]:
    # Not a closure that calls itself: that is a reference cycle, and would keep the weights alive.
    if isinstance(stage, nn.ModuleList) or type(stage) in (tuple, list):
        for each in stage:
            yield from _modules_in(each)
    elif isinstance(stage, nn.Module):
        yield stage


def _wanted(
    steps: Sequence[BuilderStep], position: int, modules: Sequence[nn.Module]
) -> list[str]:
    """Return the name that each module of a step should get: its tag or its label, else nothing."""
    labels = [_label(module) for module in modules]
    rest = (step for step in steps[position + 1 :] if step.word != "using")
    follower = next(rest, None)
    if follower is None or not follower.args or not str(follower.args[0]).isidentifier():
        return labels
    word, name = steps[position].word, str(follower.args[0])
    if (
        word in ("from", "through", "fork", "loop")
        and follower.word == "tag"
        and len(modules) == 1
    ):
        return [name]
    if (
        word == "split"
        and follower.word == "tag_group"
        and len(modules) == len(steps[position].args)
    ):
        return [f"{name}_{index}" for index in range(len(modules))]
    return labels


def _label(module: nn.Module) -> str:
    if not isinstance(module, PlannedModule) or not module._flodl_programs():  # may be unrecorded
        return ""
    label = spec_of(module).label
    return label if label.isidentifier() else ""
