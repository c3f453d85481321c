"""The words of a builder chain -> a description, its modules and constants, and all problems."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

from torch import nn

from flodl.builder.word_checks import without_misfits
from flodl.errors import FlowError
from flodl.ir.graph import GraphSpec, InputSpec, Problem, Site
from flodl.module.module_names import instantiated, named_modules, strip_site
from flodl.tracing.flow_value import UNKNOWN, NeedsValueError
from flodl.tracing.proxy import Flow
from flodl.tracing.tracer import Tracer
from flodl.vocabulary.branches import Branches
from flodl.vocabulary.control_flow import MapBody, halting_loop, previous, route
from flodl.vocabulary.loops import Loop
from flodl.vocabulary.stages import Using, run_also_with, run_branches, run_stage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flodl.builder.flow_builder import BuilderStep


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Assembled:
    """A chain made into a description; it is complete only if there are no problems."""

    spec: GraphSpec
    modules: dict[str, nn.Module]
    constants: dict[str, object]
    problems: tuple[Problem, ...]


@final
@dataclass(slots=True)
class _Assembly:
    tracer: Tracer
    stream: Flow | Branches
    problems: list[Problem] = field(default_factory=list)
    internal: set[str] = field(default_factory=set)
    opened: Site | None = None
    all_tags: frozenset[str] = frozenset()
    initial: dict[str, Any] = field(default_factory=dict)


def assemble(steps: Sequence[BuilderStep], label: str, build_site: Site) -> Assembled:
    """Wire a chain of words.

    Args:
        steps: the words in order.
        label: name of the graph.
        build_site: where `build` was called.
    """
    fitting, misfits = without_misfits(steps)
    steps, problems = instantiated(fitting)
    owner = nn.Module()
    for name, module in named_modules(steps):
        owner.add_module(name, module)
    tracer = Tracer(owner, valued=False, label=label)
    with tracer:
        assembly = _Assembly(
            tracer=tracer,
            stream=_input(tracer, "x"),
            problems=[*misfits, *problems],
            all_tags=_all_tags(steps),
            initial={step.args[0]: step.args[1] for step in steps if step.word == "initial"},
        )
        # An input is there before every stage: `from_(bert).input("mask").using("mask")`.
        for step in steps:
            if step.word == "input":
                _run(assembly, step, [])
        for position, step in enumerate(steps):
            if step.word not in ("using", "initial", "input"):
                _run(assembly, step, _references(steps, position))
    tracer.forced_site = None
    if "." in label:
        message = f"label `{label}` contains a dot, which separates the parts of a path"
        assembly.problems.append(Problem(message=message, site=build_site, hint="use _ instead"))
    try:
        return _finish(assembly, owner, build_site)
    finally:
        tracer.release()


def _finish(assembly: _Assembly, owner: nn.Module, build_site: Site) -> Assembled:
    if type(assembly.stream) is Branches:
        assembly.problems.append(
            Problem(
                message=f"{len(assembly.stream)} branches of the split are still open at the end",
                site=assembly.opened or build_site,
                hint="merge them, e.g. .merge(Add())",
            )
        )
    for problem in _unknown_internal(assembly, build_site):
        assembly.problems.append(problem)
    output = assembly.stream if type(assembly.stream) is Flow else None
    spec = assembly.tracer.finish(output)
    tags = tuple(
        type(tag)(
            name=tag.name, node=tag.node, internal=tag.internal or tag.name in assembly.internal
        )
        for tag in spec.tags
    )
    modules = {name: each for name, each in owner._modules.items() if each is not None}
    return Assembled(
        spec=GraphSpec(
            label=spec.label,
            inputs=spec.inputs,
            nodes=spec.nodes,
            output=spec.output,
            tags=tags,
            groups=spec.groups,
        ),
        modules=modules,
        constants=assembly.tracer.encoder.constants,
        problems=tuple(
            sorted(assembly.problems, key=lambda each: (each.site.file, each.site.line))
        ),
    )


def _unknown_internal(assembly: _Assembly, build_site: Site) -> list[Problem]:
    known = assembly.tracer.tags
    return [
        Problem(message=f"internal(`{name}`): no value has that tag", site=build_site)
        for name in sorted(assembly.internal)
        if name not in known
    ]


def _references(steps: Sequence[BuilderStep], position: int) -> list[BuilderStep]:
    """Return the `using` words that follow a step, behind the inputs that they may name."""
    found: list[BuilderStep] = []
    for step in steps[position + 1 :]:
        if step.word == "using":
            found.append(step)
        elif step.word != "input":
            break
    return found


def _run(assembly: _Assembly, step: BuilderStep, using: list[BuilderStep]) -> None:
    assembly.tracer.forced_site = step.site
    using = _without_unknown(assembly, _without_misplaced(assembly, step, using))
    try:
        _WORDS[step.word](assembly, step, using)
    except FlowError as error:
        assembly.problems.append(_problem(error, step.site))
    except NeedsValueError:
        message = f"{step.word} asks for a value, which only a run can know"
        assembly.problems.append(Problem(message=message, site=step.site))


def _problem(error: FlowError, site: Site) -> Problem:
    text = strip_site(str(error))
    message, _, hint = text.partition("; ")
    return Problem(message=message, site=site, hint=hint)


def _without_misplaced(
    assembly: _Assembly, step: BuilderStep, using: list[BuilderStep]
) -> list[BuilderStep]:
    """Return the `using` words that have a stage to hand values to; the others are problems."""
    if step.word in _WITH_STAGE:
        return using
    message = f"using after {step.word} has no stage to hand the values to"
    hint = "write it right after the stage"
    assembly.problems += [Problem(message=message, site=each.site, hint=hint) for each in using]
    return []


def _without_unknown(assembly: _Assembly, using: list[BuilderStep]) -> list[BuilderStep]:
    """Return the `using` words whose names are all tagged by now; the others are problems."""
    known = assembly.tracer.tags
    later = assembly.all_tags
    found: list[BuilderStep] = []
    for each in using:
        names = (*each.args, *dict(each.named).values())
        unknown = [name for name in names if name not in known and name not in later]
        if not unknown:
            found.append(each)
            continue
        message = f"no value is tagged `{'`, `'.join(unknown)}` before this line"
        tags = ", ".join(f"`{name}`" for name in known) or "none"
        assembly.problems.append(
            Problem(message=message, site=each.site, hint=f"tags so far: {tags}")
        )
    return found


def _single(assembly: _Assembly, step: BuilderStep) -> Flow:
    if type(assembly.stream) is Branches:
        message = (
            f"{step.word} needs one stream, but {len(assembly.stream)} branches are open; "
            "merge them first, e.g. .merge(Add())"
        )
        raise FlowError(message)
    return assembly.stream


def _all_tags(steps: Sequence[BuilderStep]) -> frozenset[str]:
    """Return every tag that a chain gives, those of groups included."""
    found: set[str] = set()
    for position, step in enumerate(steps):
        if step.word == "tag":
            found.add(step.args[0])
        elif step.word == "tag_group":
            split = next(
                (each for each in reversed(steps[:position]) if each.word == "split"), None
            )
            count = 0 if split is None else len(_stages_of(split.args))
            found.update(f"{step.args[0]}_{index}" for index in range(count))
    return frozenset(found)


def _stages_of(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the stages of a word that takes several of them or one list."""
    return tuple(args[0]) if len(args) == 1 and type(args[0]) in (list, tuple) else args


def _value(assembly: _Assembly, x: Flow, name: str) -> Flow:
    """Return the value of a tag: of this call if it is given already, else of the last call."""
    if name in assembly.tracer.tags:
        found: Flow = assembly.tracer.tags[name][1]
        return found
    return previous(x, name, assembly.initial.get(name))


def _refs(assembly: _Assembly, x: Flow, using: list[BuilderStep]) -> dict[str, Flow]:
    """Return the values of all `using` words of a step, by tag name."""
    names = [name for step in using for name in (*step.args, *dict(step.named).values())]
    return {name: _value(assembly, x, name) for name in names}


def _stage(
    assembly: _Assembly,
    x: Flow,
    stage: Any,
    using: list[BuilderStep],
    extra: tuple[Any, ...] = (),
    named: dict[str, Any] | None = None,
) -> Any:
    if not using:
        return run_stage(assembly.tracer, stage, x, extra, named or {})
    return _using(assembly, x, using).through(stage, *extra, **(named or {}))


def _using(assembly: _Assembly, x: Flow, using: list[BuilderStep]) -> Using:
    values = {name: _value(assembly, x, name) for step in using for name in step.args}
    keyed = {key: _value(assembly, x, name) for step in using for key, name in step.named}
    return Using(x, values, keyed)


def _from(assembly: _Assembly, step: BuilderStep, using: list[BuilderStep]) -> None:
    assembly.stream = _stage(assembly, _single(assembly, step), step.args[0], using)


def _input(tracer: Tracer, name: str) -> Flow:
    tracer.inputs.append(InputSpec(name=name))
    return tracer.input(name, UNKNOWN, None)


def _through(assembly: _Assembly, step: BuilderStep, using: list[BuilderStep]) -> None:
    x = _single(assembly, step)
    assembly.stream = _stage(assembly, x, step.args[0], using, step.args[1:], dict(step.named))


def _also(assembly: _Assembly, step: BuilderStep, using: list[BuilderStep]) -> None:
    x = _single(assembly, step)
    assembly.stream = x + _stage(assembly, x, step.args[0], using, step.args[1:], dict(step.named))


def _also_with(assembly: _Assembly, step: BuilderStep, using: list[BuilderStep]) -> None:
    x = _single(assembly, step)
    if not using:
        assembly.stream = run_also_with(x, step.args, dict(step.named))
        return
    paths = dict(zip(("skip", "main"), step.args, strict=False)) | dict(step.named)
    results = {
        name: _stage(assembly, x, stage, using if name == "main" else [])
        for name, stage in paths.items()
    }
    assembly.stream = results["skip"] + results["main"]


def _fork(assembly: _Assembly, step: BuilderStep, using: list[BuilderStep]) -> None:
    x = _single(assembly, step)
    side = _stage(assembly, x, step.args[0], using, step.args[1:], dict(step.named))
    assembly.tracer.pending_fork = (side, x)


def _split(assembly: _Assembly, step: BuilderStep, using: list[BuilderStep]) -> None:
    x = _single(assembly, step)
    stages = _stages_of(step.args)
    if using:
        stages = tuple(_Bound(assembly, stage, using) for stage in stages)
    assembly.stream = run_branches(x, tuple(stages))
    assembly.opened = step.site


@final
@dataclass(slots=True)
class _Bound:
    """A branch whose stage gets tagged values."""

    assembly: _Assembly
    stage: Any
    using: list[BuilderStep]

    def __call__(self, x: Flow) -> Any:
        return _stage(self.assembly, x, self.stage, self.using)


def _merge(assembly: _Assembly, step: BuilderStep, using: list[BuilderStep]) -> None:
    stream: Any = _using(assembly, _single(assembly, step), using) if using else assembly.stream
    if type(stream) not in (Branches, Using):
        message = "merge without an open split; write .split(a, b) before it"
        raise FlowError(message)
    assembly.stream = stream.merge(*step.args, **dict(step.named))


def _tag(assembly: _Assembly, step: BuilderStep, using: list[BuilderStep]) -> None:
    del using
    _single(assembly, step).tag(step.args[0])


def _tag_group(assembly: _Assembly, step: BuilderStep, using: list[BuilderStep]) -> None:
    del using
    if type(assembly.stream) is not Branches:
        message = "tag_group needs open branches; write it between split and merge"
        raise FlowError(message)
    assembly.stream.tag_group(step.args[0])


def _inputs(assembly: _Assembly, step: BuilderStep, using: list[BuilderStep]) -> None:
    del using
    for name in step.args:
        if not name.isidentifier() or name in assembly.tracer.tags or name in ("x", "self"):
            message = (
                f"`{name}` cannot be the name of an input; use a Python name that is not taken"
            )
            raise FlowError(message)
        assembly.tracer.tag(name, _input(assembly.tracer, name))


def _loop(assembly: _Assembly, step: BuilderStep, using: list[BuilderStep]) -> None:
    x = _single(assembly, step)
    stage, n = step.args
    assembly.stream = Loop(x, stage, _refs(assembly, x, using)).for_n(n)


def _halting(assembly: _Assembly, step: BuilderStep, using: list[BuilderStep]) -> None:
    x = _single(assembly, step)
    body, halt, limit, kind, per_sample = step.args
    refs = _refs(assembly, x, using)
    assembly.stream = halting_loop(x, body, halt, limit, kind, per_sample=per_sample, refs=refs)


def _route(assembly: _Assembly, step: BuilderStep, using: list[BuilderStep]) -> None:
    x = _single(assembly, step)
    refs = _refs(assembly, x, using)
    assembly.stream = route(x, step.word, step.args[0], _stages_of(step.args[1:]), refs)


def _map(assembly: _Assembly, step: BuilderStep, using: list[BuilderStep]) -> None:
    del using
    stage, how, arguments, batched = step.args
    body = MapBody(_single(assembly, step), stage, batched=batched)
    words: dict[str, Any] = {
        "each": body.each, "over": body.over, "slices": body.slices, "along": body.along,
    }  # fmt: skip
    assembly.stream = words[how](*arguments)


def _internal(assembly: _Assembly, step: BuilderStep, using: list[BuilderStep]) -> None:
    del using
    assembly.internal.add(step.args[0])


_WITH_STAGE = (
    "from", "through", "also", "also_with", "fork", "split", "merge", "loop", "halting", "gate",
    "switch",
)  # fmt: skip
_WORDS = {
    "from": _from,
    "through": _through,
    "also": _also,
    "also_with": _also_with,
    "fork": _fork,
    "split": _split,
    "merge": _merge,
    "tag": _tag,
    "tag_group": _tag_group,
    "input": _inputs,
    "loop": _loop,
    "halting": _halting,
    "gate": _route,
    "switch": _route,
    "map": _map,
    "internal": _internal,
}
