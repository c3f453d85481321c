"""Steps around other stages: the text of a `gate`, `switch`, `loop`, `map` or `scan`, and its stages."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, final

from flodl.ir.graph import Items, Literally, Named, Pairs, Ref, Submodule
from flodl.ir.pretty import argument_text

if TYPE_CHECKING:
    from flodl.ir.graph import Arg, NodeSpec
    from flodl.visual.part import Part

Word = Literal["gate", "switch", "loop", "map", "scan"]

# The functions that graphs call for these words.
_WORDS: dict[str, Word] = {
    "gate_": "gate",
    "switch_": "switch",
    "loop_for_": "loop",
    "loop_halting_": "loop",
    "map_each_": "map",
    "map_slices_": "map",
    "map_along_": "map",
    "scan_along_": "scan",
    "scan_last_": "scan",
}
_COUNTED = re.compile(r"_\d*$")
MOST_NAMES = 3


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Construct:
    """One such step in the words of the user.

    Attributes:
        word: the word that stands on the box.
        lines: the stages that it runs, and when or over which values.
        call: the call as the user writes it.
        facts: the same as pairs of a word and a text, for the details of a page.
    """

    word: Word
    lines: tuple[str, ...]
    call: str
    facts: tuple[tuple[str, str], ...]


def word_of(node: NodeSpec) -> Word | None:
    """Return the word for a step around other stages, `None` for any other step.

    Args:
        node: the step.

    Example:
        >>> from flodl.ir.graph import NodeSpec
        >>> from flodl.visual.constructs import word_of
        >>> word_of(NodeSpec(index=1, kind="function", target="map_each_", name="map_each_1"))
        'map'
    """
    if node.kind == "loop":
        return "loop"
    return _WORDS.get(node.target) if node.kind == "function" else None


def construct_of(part: Part, node: NodeSpec) -> Construct | None:
    """Return what a step around other stages says, `None` for any other step.

    Args:
        part: the graph.
        node: the step.
    """
    word = word_of(node)
    if word is None:
        return None
    if word in ("gate", "switch"):
        return _choice(part, node, word)
    x = argument_text(part.spec, node.args[0])
    if word == "loop":
        return _loop(part, node, x)
    return _map(part, node, x) if word == "map" else _scan(part, node, x)


def submodules(arg: Arg) -> tuple[str, ...]:
    """Return the paths of the submodules in an argument, lists and dicts included.

    Args:
        arg: the argument.

    Example:
        >>> from flodl.ir.graph import Items, Submodule
        >>> from flodl.visual.constructs import submodules
        >>> submodules(Items("list", (Submodule("low"), Submodule("high"))))
        ('low', 'high')
    """
    match arg:
        case Submodule(path):
            return (path,)
        case Items(_, items):
            return tuple(path for item in items for path in submodules(item))
        case Pairs(_, values):
            return tuple(path for item in values for path in submodules(item))
        case _:
            return ()


def paths_of(node: NodeSpec) -> tuple[str, ...]:
    """Return the paths of the modules that a step runs, each once.

    Args:
        node: the step.

    Example:
        >>> from flodl.ir.graph import NodeSpec, Ref
        >>> from flodl.visual.constructs import paths_of
        >>> paths_of(NodeSpec(index=1, kind="module", target="head", args=(Ref(0),), name="head"))
        ('head',)
    """
    if node.kind in ("module", "loop"):
        return (node.target,) if node.target else ()
    found = (path for arg in node.args for path in submodules(arg) if path)
    return tuple(dict.fromkeys(found)) if word_of(node) else ()


def subject_of(node: NodeSpec) -> str:
    """Return the path of the one module that a step is about, empty if there is none.

    Args:
        node: the step.

    Example:
        >>> from flodl.ir.graph import NodeSpec, Ref, Submodule
        >>> from flodl.visual.constructs import subject_of
        >>> args = (Ref(0), Submodule("row"))
        >>> subject_of(NodeSpec(index=1, kind="function", target="map_each_", args=args, name="map_each_1"))
        'row'
    """
    if node.kind in ("module", "loop"):
        return node.target
    body = node.args[1] if word_of(node) in ("loop", "map", "scan") else None
    return body.path if isinstance(body, Submodule) else ""


def body_of(node: NodeSpec) -> Arg:
    """Return the stage that a loop, a map or a scan repeats.

    Args:
        node: the step.
    """
    return Submodule(node.target) if node.kind == "loop" else node.args[1]


def chain_of(part: Part, stage: Arg) -> tuple[Arg, ...]:
    """Return the stages of a chain in order; a single stage is a chain of one.

    Args:
        part: the graph.
        stage: a module, a function, or a list of those.
    """
    if isinstance(stage, Items):
        return tuple(one for each in stage.items for one in chain_of(part, each))
    if isinstance(stage, Submodule) and part.kinds.get(stage.path) == "ModuleList":
        start = f"{stage.path}."
        inside = (path for path in part.kinds if path.startswith(start))
        children = (path for path in inside if "." not in path.removeprefix(start))
        return tuple(one for path in children for one in chain_of(part, Submodule(path)))
    return (stage,)


def name_of(part: Part, stage: Arg) -> str:
    """Return a stage as the user knows it: the label of a graph, a class, a function or a tag.

    Args:
        part: the graph.
        stage: a module, a function, a value, or a list of those.
    """
    chain = chain_of(part, stage)
    if len(chain) != 1:
        return " \u2192 ".join(name_of(part, each) for each in chain) or "nothing"
    match chain[0]:
        case Submodule(path):
            return label_of(part, path) or part.kinds.get(path, path)
        case Named(key):
            return function_name(part, key)
        case Ref(node):
            return value_name(part, node) or part.spec.nodes[node].name
        case other:
            return argument_text(part.spec, other)


def label_of(part: Part, path: str) -> str:
    """Return the label that the user gave to a nested graph, empty if it has none.

    Args:
        part: the graph.
        path: the path of the nested one.
    """
    inner = part.inner.get(path)
    return inner.spec.label if inner is not None else ""


def is_batched(node: NodeSpec) -> bool:
    """Return True for a map that gives its stage all parts at once.

    Args:
        node: the step.
    """
    batched = node.args[-1] if node.target in ("map_each_", "map_slices_") else None
    return isinstance(batched, Literally) and batched.value is True


def value_name(part: Part, index: int) -> str:
    """Return the name that the user gave to a value, empty if it has none.

    Args:
        part: the graph.
        index: the node.
    """
    node = part.spec.nodes[index]
    named = node.name if node.kind == "input" else ""
    return next(iter(part.spec.tags_of(index)), "") or node.variable or named


def function_name(part: Part, key: str) -> str:
    """Return the source of a lambda, or a name without what only tells it from others in generated code.

    Args:
        part: the graph.
        key: the name of the function in the description.

    Example:
        >>> from flodl.ir.graph import GraphSpec
        >>> from flodl.visual.constructs import function_name
        >>> from flodl.visual.part import Part
        >>> part = Part(spec=GraphSpec(), title="Net", lambdas={"function_2": "lambda x: x + 1"})
        >>> [function_name(part, key) for key in ("torch.tanh", "stop_2", "function_2")]
        ['tanh', 'stop', 'lambda x: x + 1']
    """
    if key in part.lambdas:
        return part.lambdas[key]
    name = key.rpartition(".")[2]
    return name if "." in key else _COUNTED.sub("", name) or name


# ---- the words ------------------------------------------------------------------------------------


def _choice(part: Part, node: NodeSpec, word: Word) -> Construct:
    x, router, stages = (_call_text(part, arg) for arg in node.args[:3])
    found = node.args[2].items if isinstance(node.args[2], Items) else ()
    kind = "experts" if word == "gate" else "branches"
    names = ", ".join(name_of(part, each) for each in found)
    by = name_of(part, node.args[1])
    using = _using(node, 3)
    return Construct(
        word=word,
        lines=(names if len(found) <= MOST_NAMES else f"{len(found)} {kind}", f"by {by}"),
        call=f"{x}.{word}({router}, {stages[1:-1]}){using}",
        facts=((kind, names), ("router", by)),
    )


def _loop(part: Part, node: NodeSpec, x: str) -> Construct:
    body, name = body_of(node), name_of(part, body_of(node))
    call = f"{x}.loop_body({_call_text(part, body)})"
    if node.target != "loop_halting_":
        turns = argument_text(part.spec, node.args[1 if node.kind == "loop" else 2])
        times = "once" if turns == "1" else f"{turns} times"
        return Construct(
            word="loop",
            lines=(f"{times} \u00b7 {name}",),
            call=f"{call}.for_n({turns}){_using(node, 3)}",
            facts=(("body", name), ("turns", turns)),
        )
    halt, limit, kind, alone = node.args[2:6]
    until = kind == Literally("until")
    most = argument_text(part.spec, limit)
    each = ", per_sample=True" if alone == Literally(value=True) else ""
    condition = f"{'until' if until else 'while not'} {name_of(part, halt)}"
    turns = f"at most {most} times" if most != "1" else "at most once"
    word = "until_cond" if until else "while_cond"
    return Construct(
        word="loop",
        lines=(f"{condition}, {turns}", *(["each sample alone"] if each else []), name),
        call=f"{call}.{word}({_call_text(part, halt)}, {most}{each}){_using(node, 6)}",
        facts=(("body", name), ("condition", condition), ("turns", f"at most {most}")),
    )


def _map(part: Part, node: NodeSpec, x: str) -> Construct:
    spec = part.spec
    source = node.args[0]
    value = (value_name(part, source.node) if isinstance(source, Ref) else "") or "the batch"
    number = argument_text(spec, node.args[2])
    batched = is_batched(node)
    if node.target == "map_along_":
        to = argument_text(spec, node.args[3])
        over = f"slices along dimension {number}"
        word = f"along({number})" if to == number else f"along({number}, {to})"
    elif node.target == "map_slices_":
        over, word = f"{number} slices of the last dimension", f"slices({number})"
    else:
        over, word = f"each element of {value}", "each()"
    name = name_of(part, node.args[1])
    body = _call_text(part, node.args[1])
    return Construct(
        word="map",
        lines=(f"{over}{', all at once' if batched else ''} \u00b7 {name}",),
        call=f"{x}.map({body}){'.batched()' if batched else ''}.{word}",
        facts=(("body", name), ("over", over)),
    )


def _scan(part: Part, node: NodeSpec, x: str) -> Construct:
    cell, state, dim = node.args[1:4]
    name = name_of(part, cell)
    over = f"steps along dimension {argument_text(part.spec, dim)}"
    word = "last" if node.target == "scan_last_" else "along"
    readout = node.args[5] if word == "along" else Literally(None)
    read = "" if readout == Literally(None) else name_of(part, readout)
    args = [_call_text(part, cell), argument_text(part.spec, state)]
    args += [f"readout={_call_text(part, readout)}"] if read else []
    call = f"{x}.scan({', '.join(args)}).{word}({argument_text(part.spec, dim)})"
    facts = (("cell", name), ("over", over), ("readout", read))
    return Construct(word="scan", lines=(f"{over} \u00b7 {name}",), call=call, facts=facts)


def _call_text(part: Part, arg: Arg) -> str:
    match arg:
        case Named(key):
            return function_name(part, key)
        case Items(_, items):
            return f"[{', '.join(_call_text(part, each) for each in items)}]"
        case _:
            return argument_text(part.spec, arg)


def _using(node: NodeSpec, position: int) -> str:
    """Return the word for tagged values that a stage gets, from the argument that holds them."""
    refs = node.args[position] if len(node.args) > position else None
    if not isinstance(refs, Pairs) or not refs.keys:
        return ""
    names = (repr(key.value) for key in refs.keys if isinstance(key, Literally))
    return f".using({', '.join(names)})"
