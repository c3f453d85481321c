"""Examples of models in the documents of a project: how they are made, and how they are called.

Example: a block in README.md.

    model = Unet(dim = 64, dim_mults = (1, 2))
    diffusion = Diffusion(model, steps = 1000)
    loss = diffusion(torch.rand(8, 3, 32, 32))

    Diffusion    made by  Diffusion(Unet(dim=64, dim_mults=(1, 2)), steps=1000)
                 called   torch.rand(8, 3, 32, 32)
"""

from __future__ import annotations

import ast
import copy
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, final

from flodl_verify.sources.literals import Example, free_names, names_known
from flodl_verify.sources.project_files import project_files, texts_with

_ENDINGS: Final = (".md", ".rst")
_BLOCK: Final = re.compile(
    r"^([ \t]*)```(?:python|py|python3)[^\n]*\n(.*?)^\1```", re.MULTILINE | re.DOTALL
)
_MOST: Final = 3  # examples of one class


def shown_examples(
    file: Path, folders: tuple[Path, ...], class_names: Sequence[str]
) -> dict[str, list[Example]]:
    """Return the examples of each class that the names of its file are enough for.

    Args:
        file: the file of the classes.
        folders: those of the project.
        class_names: names of the classes.
    """
    found: dict[str, list[Example]] = {}
    known = names_known(file)
    for _, text in texts_with(b"```", project_files(file, folders, _ENDINGS)):
        for match in _BLOCK.finditer(text.decode(errors="replace")):
            for name, example in _examples_in(textwrap.dedent(match[2]), class_names, known):
                several = found.setdefault(name, [])
                if example not in several and len(several) < _MOST:
                    several.append(example)
    return found


def _examples_in(
    block: str, class_names: Sequence[str], known: set[str]
) -> Iterator[tuple[str, Example]]:
    try:
        tree = ast.parse(block)
    except (SyntaxError, ValueError):
        return
    made: dict[str, ast.expr] = {}  # by name, what the statements so far assign
    models: dict[str, tuple[str, str]] = {}  # by name, class and expression of a model
    shown: set[str] = set()  # models that a call was seen of
    for statement in tree.body:
        for call in _calls(statement):
            if isinstance(call.func, ast.Name) and call.func.id in models:
                name, model = models[call.func.id]
                arguments = _arguments(call, made, known)
                if arguments is not None:
                    shown.add(call.func.id)
                    yield name, Example(model=model, inputs=arguments)
        match statement:
            case ast.Assign(targets=[ast.Name(id=target)], value=value):
                made[target] = inlined = _Inlined(made).visit(copy.deepcopy(value))
                models.pop(target, None)
                kind = _class_of(inlined, class_names)
                if kind and free_names(inlined) <= known:
                    models[target] = kind, ast.unparse(inlined)
            case _:
                pass
    for target, (name, model) in models.items():
        if target not in shown:
            yield name, Example(model=model, inputs=None)


def _calls(statement: ast.stmt) -> Iterator[ast.Call]:
    """Yield the calls in a statement that is no definition."""
    if not isinstance(statement, ast.FunctionDef | ast.ClassDef):
        yield from (node for node in ast.walk(statement) if isinstance(node, ast.Call))


def _arguments(call: ast.Call, made: Mapping[str, ast.expr], known: set[str]) -> str | None:
    """Return the arguments of a call as text, if the names of the file are enough for them."""
    whole = _Inlined(made).visit(copy.deepcopy(call))
    whole.func = ast.Name(id="call", ctx=ast.Load())
    if not free_names(whole) <= known | {"call"}:
        return None
    return ast.unparse(whole).removeprefix("call(").removesuffix(")")


def _class_of(value: ast.expr, class_names: Sequence[str]) -> str | None:
    """Return the class that an expression makes an object of, also behind `.cuda()` and the like."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        value = value.func.value
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
        return value.func.id if value.func.id in class_names else None
    return None


@final
class _Inlined(ast.NodeTransformer):
    """Puts what names stand for in their places."""

    def __init__(self, made: Mapping[str, ast.expr]) -> None:
        self._made = made

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Return the value of a name that was assigned, which is inlined already."""
        value = self._made.get(node.id)
        return node if value is None else copy.deepcopy(value)
