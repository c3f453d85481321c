"""Models that a script takes from a library: there is nothing of its own to port.

model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased")
-> LibraryModel(library="transformers", line=3)
"""

import ast
from typing import Final, NamedTuple, final

from fdl_cli.porter.lower.names import collect
from fdl_cli.porter.parse.reader import UnreadableError, read

# Ends of calls that make a model of any class of a library, and calls that do it by name.
_MAKERS: Final = (".from_pretrained", ".from_config")
_CALLS: Final = ("timm.create_model", "torch.hub.load", "torchvision.models.")
# Classes of these names make other things than models.
_OTHERS: Final = ("Tokenizer", "Config", "Processor", "Extractor", "Scheduler")


@final
class LibraryModel(NamedTuple):
    """A call that makes a model of a library, and its line."""

    library: str
    line: int


def library_models(data: bytes) -> tuple[LibraryModel, ...]:
    r"""Return the calls of a file that make models of libraries, in the order of their lines.

    A file that cannot be read has none.

    Example:
        >>> library_models(b"import timm\nnet = timm.create_model('resnet18')\n")
        (LibraryModel(library='timm', line=2),)
    """
    try:
        tree = read(data).tree
    except UnreadableError:
        return ()
    names = collect(tree)
    found = [
        LibraryModel(dotted.partition(".")[0], node.lineno)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and _makes_model(dotted := names.dotted(node.func))
    ]
    return tuple(sorted(found, key=lambda each: each.line))


def _makes_model(dotted: str) -> bool:
    if dotted.startswith(_CALLS):
        return True
    owner, _, method = dotted.rpartition(".")
    return f".{method}" in _MAKERS and "." in owner and not owner.endswith(_OTHERS)
