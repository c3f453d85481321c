"""Facts of the code that documents are compared with: signatures, defaults, and texts of messages."""

import ast
import functools
import inspect
from dataclasses import dataclass, field
from typing import final

from torch.utils.data import dataloader

from tests.docs.reading import ROOT, read

PACKAGES = ("flodl", "fdl_cli", "flodl_verify")
# A shorter text fits any message.
LEAST_OF_A_TEMPLATE = 8


@final
@dataclass
class CodeFacts:
    """Names with their signatures, and texts with places for values."""

    signatures: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    texts: set[str] = field(default_factory=set)
    templates: set[tuple[str, ...]] = field(default_factory=set)

    def add(self, node):
        """Take what one node of a syntax tree tells."""
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.signatures.setdefault(node.name, []).append(of_signature(node.args))
            case ast.ClassDef():
                self.signatures.setdefault(node.name, []).append(of_class(node))
            case ast.JoinedStr():
                self.add_template(node)
            case ast.Constant(value=str()):
                self.texts.add(node.value)

    def add_template(self, node):
        parts = [part.value if isinstance(part, ast.Constant) else "" for part in node.values]
        if sum(map(len, parts)) > LEAST_OF_A_TEMPLATE:
            # Two texts around a value; an empty one at an end lets the value be there.
            constant = [isinstance(part, ast.Constant) for part in node.values]
            texts = [part for part, known in zip(parts, constant, strict=True) if known]
            first = [] if constant[0] else [""]
            self.templates.add((*first, *texts, *([] if constant[-1] else [""])))


def of_signature(arguments):
    """Return the default of each parameter as text, empty without one; `**` if any keyword is taken."""
    plain = [*arguments.posonlyargs, *arguments.args]
    missing = [None] * (len(plain) - len(arguments.defaults))
    pairs = [*zip(plain, [*missing, *arguments.defaults], strict=True)]
    pairs += zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    found = {each.arg: ast.unparse(value) if value else "" for each, value in pairs}
    return found | ({"**": ""} if arguments.kwarg else {})


def of_class(node):
    """Return the parameters of a class: of its `__init__`, else its fields; `**` if a base may have them."""
    for each in node.body:
        if isinstance(each, ast.FunctionDef) and each.name == "__init__":
            return of_signature(each.args)
    fields = [each for each in node.body if isinstance(each, ast.AnnAssign)]
    found = {ast.unparse(e.target): ast.unparse(e.value) if e.value else "" for e in fields}
    return found | ({"**": ""} if node.bases and not fields else {})


@functools.cache
def read_code():
    """Return the facts of the three packages, and of the loader of torch that pages compare with."""
    facts = CodeFacts()
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    for text in (*map(read, paths), inspect.getsource(dataloader)):
        for node in ast.walk(ast.parse(text)):
            facts.add(node)
    return facts
