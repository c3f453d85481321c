"""Guesses of constructor arguments from the names, annotations and defaults of a signature."""

from __future__ import annotations

import ast
import functools
import inspect
import keyword
import linecache
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import torch

from flodl_verify.inputs.rules.annotated_guesses import UNKNOWN, guess_value, module_wanted
from flodl_verify.inputs.rules.asked_arguments import MAX_QUESTIONS, asked_for, own_parameters
from flodl_verify.inputs.rules.handed_arguments import handed_on, of_other_length
from flodl_verify.inputs.rules.lighter_sizes import lighter_defaults, smaller_settings
from flodl_verify.inputs.rules.misfit_arguments import fitting
from flodl_verify.inputs.rules.refused_conditions import accepted
from flodl_verify.inputs.rules.settings_classes import SettingsMemory
from flodl_verify.inputs.rules.settings_guesses import (
    Declared,
    guess_settings,
    settings_declared,
    settings_read,
)
from flodl_verify.sandbox.attempt import Failure, attempt
from flodl_verify.sources.class_sources import class_node, module_node
from flodl_verify.sources.project_values import ProjectValues
from flodl_verify.sources.text_options import Option, options_compared
from flodl_verify.sources.written_settings import Settings

_BY_NAME: tuple[tuple[tuple[str, ...], object], ...] = (
    (("num_classes", "n_classes", "nclass", "num_outputs", "out_dim", "output_size"), 5),
    (("max_len", "block_size", "seq_len", "max_length", "context_length", "max_position"), 16),
    (("kernel_size", "kernel", "ksize", "k_size"), 3),
    (
        (
            "stride",
            "dilation",
            "groups",
            "expansion",
            "num_layers",
            "n_layer",
            "depth",
            "layer_num",
            "num_hidden_layers",
            "e_layers",
            "d_layers",
        ),
        1,
    ),
    (("padding", "pad"), 1),
    (("dropout", "drop", "p", "dp", "dp_ratio", "drop_rate", "dropout_rate", "drop_prob"), 0.1),
    (("num_heads", "n_head", "nhead", "n_heads", "heads", "num_attention_heads"), 4),
    (("activation", "hidden_act", "act"), "relu"),
    (("vocab", "num_embeddings", "num_tokens", "ntoken"), 30),
    (("reduction", "ratio", "scale", "scale_factor", "factor"), 2),
    (("eps", "alpha", "beta", "gamma", "temperature", "momentum", "slope"), 0.1),
    (("img_size", "image_size", "input_size", "in_size"), 32),
    (("patch_size",), 8),
    (("blocks", "num_blocks", "layers", "block_config"), (1, 1, 1, 1)),
)
_BY_WHOLE_NAME: dict[str, object] = {
    "device": torch.device("cpu"), "dtype": torch.float32, "cuda": False, "gpu": False, "gpus": [],
    "gpu_ids": [], "gpu_id": None, "logger": None, "verbose": False,
}  # fmt: skip
_BY_ANNOTATION: dict[object, object] = {
    "int": 16, "float": 0.5, "bool": False, "str": "same",
    int: 16, float: 0.5, bool: False, str: "same",
}  # fmt: skip
# However it is abbreviated, it is a number: `nlayers`, `num_encoder_layers`, `nBlockCount`. But
# `num_blocks` is mostly a list.
_NUMBER_OF_LAYERS = re.compile(
    r"(n|num|number)_?\w*layers?|(n|num)_?(stack|stage|level)s?"
    r"|\w*(layer|block|stack|stage|level)s?_?(count|num|number)"
)
_WEIGHTS = re.compile(r"(^|_)(pretrained|weights|checkpoint)(_|$)")
# Without a projection, a block returns as many channels as it takes.
_NARROW = frozenset({"planes", "out_planes", "mid_planes", "width"})
_NO_PROJECT = ProjectValues()
# A layer that takes a layer that takes a layer.
_MAX_DEPTH = 3
_FLAG_PREFIXES = ("use_", "with_", "is_", "has_", "return_")


def guess_constructor_arguments(
    made: type, project: ProjectValues = _NO_PROJECT, memory: SettingsMemory | None = None
) -> Iterator[dict[str, object]]:
    """Yield keyword arguments with which a class might be constructed, likeliest first.

    `project` has the values of its command lines, files and calls, `memory` knows the settings of other
    classes of the file.
    """
    try:
        required = _required(made)
        offline = _offline(made)
    except (TypeError, ValueError):
        return
    yield from _of_project(made, required, offline, project)
    for given in (offline, {}) if offline else ({},):
        lighter: dict[str, object] | None = None
        for each in _guesses(made, required, project.settings, memory):
            if lighter is None:  # a model that is large is so for every guess
                lighter = lighter_defaults(made, {**given, **each})
            if lighter:
                yield {**given, **lighter, **each}
            yield {**given, **each}


def _of_project(
    made: type,
    required: list[inspect.Parameter],
    offline: dict[str, object],
    project: ProjectValues,
) -> Iterator[dict[str, object]]:
    """Yield arguments from calls and files of the project, a small version of them first."""
    names = [
        item.name
        for item in own_parameters(made)
        if item.kind in {item.POSITIONAL_ONLY, item.POSITIONAL_OR_KEYWORD, item.KEYWORD_ONLY}
    ]
    guess = _guesser(made)
    needed = frozenset(item.name for item in required)
    lighter: dict[str, object] | None = None
    for found in (
        *project.called(made.__name__, names),
        *project.arguments(needed, frozenset(names)),
    ):
        others = {item.name: guess(item, 16) for item in required if item.name not in found}
        values = {**found, **offline, **others}
        small = smaller_settings(values)
        if lighter is None:  # what a call leaves out may be large too
            lighter = lighter_defaults(made, small)
        if lighter:
            yield {**lighter, **small}
        yield from (small, values) if small != values else (values,)


def _guesses(
    made: type,
    required: list[inspect.Parameter],
    declared: Declared,
    memory: SettingsMemory | None,
) -> Iterator[dict[str, object]]:
    if not required:
        yield {}
        return
    # Channel counts that must agree (a residual without projection) get one number; those that may
    # differ show more when they do. A network may be made for one kind of blocks only.
    for size, choice in ((16, 0), (16, 1), (8, 0), (3, 0), (64, 0), (1, 0)):
        guess = _guesser(made, choice=choice)
        yield from _with_settings(made, required, size, declared, guess, memory)
        yield {item.name: guess(item, size) for item in required}


def _required(made: type) -> list[inspect.Parameter]:
    return [
        item
        for item in own_parameters(made)
        if item.default is item.empty and item.kind not in {item.VAR_POSITIONAL, item.VAR_KEYWORD}
    ]


def other_options(made: type, given: Mapping[str, object]) -> Iterator[dict[str, object]]:
    """Yield arguments with another one of the options that the class compares an argument with."""
    for name, options in _all_options(made).items():
        if name in given:
            yield from ({**given, name: value} for value in options if value != given[name])


def guess_asked_for(made: type, given: Mapping[str, object], refusal: str) -> dict[str, object]:
    """Return guesses for the arguments that a refusal names as missing."""
    guess = _guesser(made)
    size = next((value for value in given.values() if type(value) is int), 16)
    return asked_for(made, given, refusal, lambda item: guess(item, size))


def guess_fitting(
    made: type,
    given: Mapping[str, object],
    refusal: str,
    line: str,
    number: int | None = None,
    depth: int = 0,
) -> dict[str, object]:
    """Return other guesses for arguments that a line, of this number, uses as what they are not."""
    size = next((value for value in given.values() if type(value) is int), 16)
    guess = _guesser(made, depth)

    def by_name(name: str) -> object:
        if not name.isidentifier() or keyword.iskeyword(
            name
        ):  # the key of a table may be any text
            return size
        return guess(inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD), size)

    def needs(kind: type) -> dict[str, object]:
        others = _guesser(kind, depth)
        needed = {item.name: others(item, size) for item in _required(kind)}
        return _fitted(kind, needed, size, depth)[0]

    return (
        accepted(made, given, number)
        or handed_on(made, given, refusal, needs)
        or of_other_length(given, refusal)
        or fitting(made, given, refusal, line, lambda kind: _made(kind, size, depth), by_name)
    )


def _fitted(
    kind: type, given: dict[str, object], size: int, depth: int
) -> tuple[dict[str, object], object]:
    """Return arguments for a class, exchanged as long as it refuses them and says why, and what it made."""
    guess = _guesser(kind, depth)
    file = Path(getattr(sys.modules.get(kind.__module__), "__file__", None) or "")
    made = attempt(partial(kind, **given), file)
    for _ in range(MAX_QUESTIONS):
        if not isinstance(made, Failure):
            break
        line = linecache.getline(str(file), made.line or 0)
        more = asked_for(kind, given, made.text, lambda item: guess(item, size))
        more = more or guess_fitting(kind, given, made.text, line, made.line, depth)
        if not more:
            break
        given = {**given, **more}
        made = attempt(partial(kind, **given), file)
    return given, made


def _offline(made: type) -> dict[str, object]:
    """Return arguments that keep a constructor on the CPU, without loading weights."""
    found: dict[str, object] = {}
    for item in own_parameters(made):
        if isinstance(item.default, str | torch.device) and str(item.default).startswith("cuda"):
            found[item.name] = "cpu"
        if _WEIGHTS.search(item.name.lower()) and item.default is not item.empty and item.default:
            found[item.name] = False if item.default is True else None
    return found


def _made(kind: type, size: int, depth: int) -> object:
    """Return a module of a kind that is wanted as an argument, made of guesses of one size."""
    if depth >= _MAX_DEPTH or inspect.isabstract(kind):
        return UNKNOWN
    guess = _guesser(kind, depth + 1)
    given = {item.name: guess(item, size) for item in _required(kind)}
    _, made = _fitted(kind, given | lighter_defaults(kind, given), size, depth + 1)
    return UNKNOWN if isinstance(made, Failure) else made


def _guesser(
    made: type, depth: int = 0, choice: int = 0
) -> Callable[[inspect.Parameter, int], object]:
    """Return a guesser of one argument: one of the options that the class names, or a usual value.

    `choice` selects one of the kinds of blocks in the module of the class.
    """
    options = _all_options(made)

    def guess(parameter: inspect.Parameter, size: int) -> object:
        known = options.get(parameter.name)
        if known:
            return "cpu" if str(known[0]).startswith("cuda") else known[0]
        if parameter.name in _NARROW:
            size = max(size // _expansion(made), 1)
        # Attributes of a module are read like settings; a wanted module is made.
        read = settings_read(made, parameter) if module_wanted(made, parameter) is None else None
        if read:
            kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
            inner = {name: inspect.Parameter(name, kind) for name in sorted(read)}
            return Settings({name: guess(item, size) for name, item in inner.items()})
        other = guess_value(made, parameter, size, lambda inner: _made(inner, size, depth), choice)
        return _guess(parameter, size) if other is UNKNOWN else other

    return guess


def _expansion(made: type) -> int:
    """Return by how much a block widens what it computes inside, where the class says so."""
    known = vars(made).get("expansion")
    return known if type(known) is int and known > 0 else 1


def _all_options(made: type) -> dict[str, list[Option]]:
    options: dict[str, list[Option]] = {}
    for kind in reversed(made.__mro__):  # a constructor passes on what a base compares
        if not kind.__module__.startswith(("torch.nn.", "builtins")):
            options |= _options(kind)
    return options


@functools.lru_cache(maxsize=512)  # every class of a file has the same few classes above it
def _options(kind: type) -> Mapping[str, list[Option]]:
    """Return the values that the class, and functions of its file that it calls, compare names with."""
    module, node = sys.modules.get(kind.__module__), class_node(kind)
    if node is None:
        return {}
    known = vars(module) if module is not None else {}
    found: dict[str, list[Option]] = {}
    for called in _functions_called(kind, node):
        found |= options_compared(called, known)
    return found | options_compared(node, known)


def _functions_called(kind: type, node: ast.ClassDef) -> Iterator[ast.FunctionDef]:
    names = {
        inner.func.id
        for inner in ast.walk(node)
        if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name)
    }
    for item in module_node(kind).body:
        if isinstance(item, ast.FunctionDef) and item.name in names:
            yield item


def _with_settings(
    made: type,
    required: list[inspect.Parameter],
    size: int,
    declared: Declared,
    guess_one: Callable[[inspect.Parameter, int], object],
    memory: SettingsMemory | None,
) -> Iterator[dict[str, object]]:
    """Yield arguments of which one is an object full of settings."""

    def guess(name: str) -> object:
        if name in {"bias", "qkv_bias"}:
            return True
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        return guess_one(inspect.Parameter(name, kind), size)

    for item in required:
        if module_wanted(made, item) is not None:
            continue
        others: dict[str, object] = {}
        for other in (each for each in required if each != item):
            # Several may be settings: `Model(preprocess_config, model_config)`.
            known = settings_declared(made, other, guess, declared)
            others[other.name] = next(known, None) or guess_one(other, size)
        for settings in guess_settings(made, item, guess, declared, memory):
            yield {**others, item.name: settings}


def _guess(parameter: inspect.Parameter, size: int) -> object:
    name = parameter.name.lower()
    if name in _BY_WHOLE_NAME:
        return _BY_WHOLE_NAME[name]
    if _NUMBER_OF_LAYERS.fullmatch(name):
        return 1
    for words, value in _BY_NAME:
        if any(name == word or (len(word) > 3 and word in name) for word in words):
            is_count = parameter.annotation in {int, "int"} or name.startswith("n_")
            return 1 if isinstance(value, tuple) and is_count else value
    if name.startswith(_FLAG_PREFIXES):
        return False
    annotated = _BY_ANNOTATION.get(parameter.annotation)
    if annotated is not None and annotated != 16:
        return annotated
    return size
