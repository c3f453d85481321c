"""Recognised training loops with `Trainer.setup` or `Trainer.builder`; all other lines stay."""

import ast
import re
from collections.abc import Iterator

from fdl_cli.porter.emit.apply import Patch
from fdl_cli.porter.emit.built import FreeNames, built_patch
from fdl_cli.porter.ir.source import Span
from fdl_cli.porter.ir.training import LoopIR, SetupIR, TrainingLevel
from fdl_cli.porter.parse.reader import SourceFile

_NAMES = ("training", "training_session", "flodl_training")
_TRAINER, _OTHER_TRAINER = "Trainer", "FlodlTrainer"
_IMPORT = re.compile(r"^from flodl import (?P<names>[\w, ]+)$", re.MULTILINE)


def with_training(
    source: SourceFile, loops: tuple[LoopIR, ...], import_at: int, level: TrainingLevel
) -> str:
    """Return the text with the loops moved as far as is wanted and possible."""
    moved = [loop for loop in loops if loop.reached(level) != "keep"]
    if not moved:
        return source.text
    used = _used_names(source)
    session = next((item for item in _NAMES if item not in used), f"{_NAMES[-1]}_")
    free = FreeNames(used)
    trainer = _OTHER_TRAINER if _is_taken(source) else _TRAINER
    patches = [_import(source, import_at, trainer)]
    for loop in moved:
        if loop.reached(level) == "builder":
            assert loop.built is not None
            patches.append(built_patch(source, loop.built, loop.model, free.functions(), trainer))
        else:
            assert loop.setup is not None
            patches += _set_up(source, loop.setup, loop.model, session, trainer)
    pieces, at = [], 0
    for patch in sorted(set(patches)):
        pieces += [source.text[at : patch.start], patch.text]
        at = patch.end
    return "".join([*pieces, source.text[at:]])


def with_policy(text: str) -> str:
    """Return a text with builders for several devices together with the imports that they need."""
    found = _IMPORT.search(text)
    assert found is not None
    newline = "\r\n" if "\r\n" in text else "\n"
    needed = f"{newline}from flodl.distributed import ApplyPolicy"
    text = text[: found.end()] + needed + text[found.end() :]
    if re.search(r"^import os$|^import os[ ,]|^import .*, os$", text, re.MULTILINE):
        return text
    first = re.search(r"^(?!from __future__)(import|from) ", text, re.MULTILINE)
    assert first is not None
    return f"{text[: first.start()]}import os{newline}{text[first.start() :]}"


def _used_names(source: SourceFile) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).partition(".")[0])
    return found


def _is_taken(source: SourceFile) -> bool:
    """Return True if the file uses `Trainer` as a name for something else."""
    for node in ast.walk(source.tree):
        match node:
            case ast.ImportFrom(module="flodl"):
                continue
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) if name == _TRAINER:
                return True
            case ast.Name(id=name, ctx=ast.Store()) if name == _TRAINER:
                return True
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                if any((item.asname or item.name) == _TRAINER for item in names):
                    return True
            case _:
                pass
    return False


def _set_up(
    source: SourceFile, setup: SetupIR, model: str, name: str, trainer: str
) -> Iterator[Patch]:
    arguments = ", ".join([model, setup.optimizer, *setup.options])
    indent = source.indent_at(setup.before)
    made = f"{name} = {trainer}.setup({arguments}){source.newline}{indent}"
    yield Patch(setup.before, setup.before, made, "")
    for span in setup.removed:
        yield _without(source, span)
    step = setup.step
    written = source.text[step.start : step.end]
    yield Patch(step.start, step.end, f"{name}.step({setup.closure})", written)


def _without(source: SourceFile, span: Span) -> Patch:
    """Remove a statement with its line; a comment on the line keeps a separate line."""
    start, end = source.line_start(span.start), source.next_line(span.end)
    rest = source.text[span.end : source.line_end(span.end)].strip()
    before = source.text[start:end]
    if rest:
        return Patch(start, end, f"{source.indent_at(span.start)}{rest}{source.newline}", before)
    return Patch(start, end, "", before)


def _import(source: SourceFile, import_at: int, trainer: str) -> Patch:
    wanted = _TRAINER if trainer == _TRAINER else f"{_TRAINER} as {trainer}"
    known = _IMPORT.search(source.text)
    if known is not None:
        names = known["names"].split(", ")
        if wanted in names:
            return Patch(known.end(), known.end(), "", "")
        return Patch(known.end(), known.end(), f", {wanted}", "")
    at = next(end for end in source.statement_ends if end >= import_at)
    line = f"from flodl import {wanted}{source.newline}"
    return Patch(at, at, line if at == 0 or source.text[at - 1] in "\r\n" else f"\n{line}", "")
