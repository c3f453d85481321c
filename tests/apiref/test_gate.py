"""Every public name of flodl is explained, belongs to a purpose, and has an example that runs."""

import doctest
import importlib

import pytest

from fdl_cli.apiref.categories import OTHER
from fdl_cli.apiref.storage import build_here, stored_examples
from fdl_cli.apiref.torch_map import torch_entries

INDEX = build_here()
WITH_EXAMPLES = [entry for entry in INDEX.entries if entry.doc.examples]
MAPPED = [entry for entry in torch_entries() if entry.example]


def run_example(text, name, file="flodl/__init__.py"):
    import flodl

    # As doctest does: an example sees the names of its own module; the public ones besides.
    module = importlib.import_module(
        file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    )
    known = {**vars(flodl), **vars(module), "__name__": "__main__"}
    test = doctest.DocTestParser().get_doctest(text, known, name, name, 0)
    assert test.examples, f"the example of {name} has no `>>>` line"
    printed: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(test, out=printed.append)
    assert runner.failures == 0, "".join(printed)


def test_the_index_holds_every_public_name_of_the_runtime():
    pytest.importorskip("torch")
    import flodl

    public = {name for name in vars(flodl) if not name.startswith("_")}
    modules = {name for name in public if type(vars(flodl)[name]).__name__ == "module"}
    indexed = {entry.short_name for entry in INDEX.public}
    assert public - modules - indexed == set()


def test_every_public_name_says_what_it_is():
    assert [entry.name for entry in INDEX.entries if not entry.doc.summary] == []


def test_every_public_name_has_a_purpose():
    assert [entry.name for entry in INDEX.entries if entry.category == OTHER] == []


def test_examples_beside_the_source_belong_to_public_names():
    assert set(stored_examples()) - {entry.name for entry in INDEX.entries} == set()


def test_every_public_name_has_an_example():
    kinds = ("class", "function")
    lacking = [e.name for e in INDEX.public if e.kind in kinds and not e.doc.examples]
    assert lacking == []


@pytest.mark.torch
@pytest.mark.parametrize("entry", WITH_EXAMPLES, ids=lambda entry: entry.short_name)
def test_the_example_runs(entry):
    for text in entry.doc.examples:
        run_example(text, entry.name, entry.file)


@pytest.mark.torch
@pytest.mark.parametrize("entry", MAPPED, ids=lambda entry: entry.torch)
def test_the_example_of_the_torch_map_runs(entry):
    run_example(entry.example, entry.torch)


@pytest.mark.torch
def test_the_torch_map_names_what_torch_has():
    import torch
    from torch import nn

    wrong = []
    for entry in torch_entries():
        if entry.example:
            continue
        place = torch
        for part in entry.torch.removeprefix("torch.").split("."):
            place = getattr(place, part, None)
        if place is None:
            wrong.append(entry.torch)
    assert wrong == []
    layers = [e for e in torch_entries() if e.flodl == "x.through(self.layer)"]
    assert all(issubclass(getattr(nn, e.torch.split(".")[-1]), nn.Module) for e in layers)


LAYERS = {
    "Linear": ((4, 3), (2, 4)), "Conv1d": ((3, 4, 3), (2, 3, 9)), "Conv2d": ((3, 4, 3), (2, 3, 8, 8)),
    "ConvTranspose2d": ((3, 4, 3), (2, 3, 8, 8)), "BatchNorm1d": ((4,), (5, 4)),
    "BatchNorm2d": ((3,), (2, 3, 4, 4)), "LayerNorm": ((4,), (2, 4)), "GroupNorm": ((2, 4), (2, 4, 3)),
    "ReLU": ((), (2, 3)), "GELU": ((), (2, 3)), "SiLU": ((), (2, 3)), "Tanh": ((), (2, 3)),
    "Softmax": ((1,), (2, 3)), "Dropout": ((0.5,), (2, 3)), "Flatten": ((), (2, 3, 4)),
    "MaxPool2d": ((2,), (1, 2, 4, 4)), "AvgPool2d": ((2,), (1, 2, 4, 4)),
    "AdaptiveAvgPool2d": ((1,), (1, 2, 4, 4)), "Upsample": ((None, 2), (1, 2, 4, 4)),
    "Identity": ((), (2, 3)), "PReLU": ((), (2, 3)), "PixelShuffle": ((2,), (1, 4, 2, 2)),
}  # fmt: skip


@pytest.mark.torch
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_is_used_unchanged_as_the_map_says(name):
    import torch
    from torch import nn

    from flodl import FlowBuilder

    arguments, shape = LAYERS[name]
    layer = getattr(nn, name)(*arguments).eval()
    x = torch.randn(shape)
    assert torch.equal(FlowBuilder.from_(layer).build().eval()(x), layer(x))
