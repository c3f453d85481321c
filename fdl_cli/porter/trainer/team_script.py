"""Plain text of a script for `DistributedDataParallel`, or the refusal of it.

Example: `model = DDP(net)` becomes `model = net`, and `dist.get_rank()` reads `RANK`. The lines of
`init_process_group` and `sampler.set_epoch` go away. `DistributedSampler(data)` becomes the order of
one process, `DistributedSampler(data, num_replicas=1, rank=0)`: the builder divides its batches.
"""

import ast
from collections.abc import Iterator
from typing import Final, final

from fdl_cli.porter.lower.names import FunctionNode, Names, collect
from fdl_cli.porter.parse.reader import SourceFile, read
from fdl_cli.porter.trainer.team_names import (
    DDP,
    SAMPLERS,
    refuse_foreign,
    wrapped_names,
)
from fdl_cli.porter.trainer.training_step import NotMovedError, is_method, receiver

_GONE: Final = frozenset({"torch.distributed.init_process_group", "torch.distributed.barrier",
                          "torch.distributed.destroy_process_group", "torch.cuda.set_device"})  # fmt: skip
_READS: Final = {"torch.distributed.get_rank": ("RANK", "0"),
                 "torch.distributed.get_world_size": ("WORLD_SIZE", "1")}  # fmt: skip
_ENVIRONMENT: Final = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}
_INIT: Final = "torch.distributed.init_process_group"
_Edit = tuple[int, int, str]


def is_team_script(source: SourceFile) -> bool:
    """Return True if a script joins the other processes of a training by itself."""
    if "init_process_group" not in source.text:
        return False
    return any(_begins(call) for call in _calls(source.tree))


def refuse_hidden(source: SourceFile) -> None:
    """Refuse a start of processes whose import is not seen.

    Raises:
        NotMovedError: it is not torch's, or imported inside a function.
    """
    names = collect(source.tree)
    for call in _calls(source.tree):
        if _begins(call) and names.dotted(call.func) != _INIT:
            message = "`init_process_group` is no import of the module; import it at the top"
            raise NotMovedError("FDL428", message, call)


def _begins(call: ast.Call) -> bool:
    return ast.unparse(call.func).rpartition(".")[2] == "init_process_group"


def plain_script(source: SourceFile) -> SourceFile:
    """Return a script of `is_team_script` without its processes.

    Raises:
        NotMovedError: a part of it has no place in the plain script.
    """
    refuse_foreign(source.tree, collect(source.tree))
    made = _apply(source, _Plain(source).edits())
    return _apply(made, _unused(made))


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _apply(source: SourceFile, edits: Iterator[_Edit]) -> SourceFile:
    text = source.text
    end_before = 0
    kept: list[_Edit] = []
    # The widest of those that start together comes first; what lies inside of it is gone with it.
    for start, end, new in sorted(set(edits), key=lambda edit: (edit[0], -edit[1])):
        if start >= end_before:
            kept.append((start, end, new))
            end_before = end
        elif end > end_before:
            raise NotMovedError("FDL428", "two parts of its start of processes overlap")
    for start, end, new in reversed(kept):
        text = text[:start] + new + text[end:]
    return read(text.encode())


@final
class _Plain:
    """Finds the edits of one script."""

    def __init__(self, source: SourceFile) -> None:
        self._source = source
        self._names: Names = collect(source.tree)
        self._wrapped = wrapped_names(source.tree, self._names)
        self._needs_os = False

    def edits(self) -> Iterator[_Edit]:
        """Yield the pieces of text to exchange."""
        for node in ast.walk(self._source.tree):
            if isinstance(node, ast.stmt | ast.Module):
                yield from self._statement(node)
            elif isinstance(node, ast.Call):
                yield from self._call(node)
            elif isinstance(node, ast.Subscript):
                yield from self._read(node)
            elif isinstance(node, ast.Attribute) and node.attr == "module":
                yield from self._module(node)
        if self._needs_os and self._names.dotted_name("os") != "os":
            first = next(
                node
                for node in self._source.tree.body
                if isinstance(node, ast.Import | ast.ImportFrom)
                and vars(node).get("module") != "__future__"
            )
            at = self._source.span(first).start
            yield at, at, f"import os{self._source.newline}"

    def _statement(self, node: ast.AST) -> Iterator[_Edit]:
        for block in _blocks(node):
            for each in block:
                if isinstance(each, ast.Expr) and self._is_gone(each.value):
                    yield self._without(each, alone=len(block) == 1)
        match node:
            case ast.Assign(targets=[target], value=ast.Call(args=[model]) as call) if (
                self._names.dotted(call.func) in DDP
            ):
                if ast.unparse(target) == ast.unparse(model):
                    yield self._without(node, alone=self._is_only(node))
                else:
                    # The expression of the model may have a piece to exchange too.
                    span, inner = self._source.span(call), self._source.span(model)
                    yield span.start, inner.start, ""
                    yield inner.end, span.end, ""
            case _:
                pass

    def _is_gone(self, value: ast.expr) -> bool:
        if not isinstance(value, ast.Call):
            return False
        return self._names.dotted(value.func) in _GONE or is_method(value, "set_epoch")

    def _is_only(self, node: ast.stmt) -> bool:
        return any(
            block == [node]
            for each in ast.walk(self._source.tree)
            if isinstance(each, ast.stmt | ast.Module)
            for block in _blocks(each)
        )

    def _without(self, node: ast.stmt, *, alone: bool) -> _Edit:
        source, span = self._source, self._source.span(node)
        if not source.is_alone(span):
            raise NotMovedError(
                "FDL409", "a part of its start of processes does not have a line of its own", node
            )
        if alone:
            return span.start, span.end, "pass"
        return source.line_start(span.start), source.next_line(span.end), ""

    def _call(self, call: ast.Call) -> Iterator[_Edit]:
        dotted, span = self._names.dotted(call.func), self._source.span(call)
        if dotted in _READS:
            self._needs_os = True
            name, single = _READS[dotted]
            yield span.start, span.end, f'int(os.environ.get("{name}", "{single}"))'
        elif dotted in SAMPLERS:
            kept = [
                ast.unparse(item)
                for item in call.keywords
                if item.arg not in {"num_replicas", "rank"}
            ]
            text = ", ".join(["", "num_replicas=1", "rank=0", *kept])
            yield self._source.span(call.args[0]).end, span.end, f"{text})"

    def _read(self, node: ast.Subscript) -> Iterator[_Edit]:
        """Let a read of the environment have the value of one process where there is no launcher."""
        match node:
            case ast.Subscript(
                value=value, slice=ast.Constant(value=str(key)), ctx=ast.Load()
            ) if key in _ENVIRONMENT and self._names.dotted(value) == "os.environ":
                span = self._source.span(node)
                text = f'{ast.unparse(value)}.get("{key}", "{_ENVIRONMENT[key]}")'
                yield span.start, span.end, text
            case _:
                pass

    def _module(self, node: ast.Attribute) -> Iterator[_Edit]:
        if self._names.dotted(node):
            return
        if ast.unparse(node.value) not in self._wrapped:
            raise NotMovedError(
                "FDL428", f"`{ast.unparse(node)}` may be the wrapped model or not", node
            )
        start, end = self._source.span(node.value).end, self._source.span(node).end
        yield start, end, ""


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for field in ("body", "orelse", "finalbody"):
        block = vars(node).get(field)
        if isinstance(block, list) and block:
            yield block
    for handler in vars(node).get("handlers") or ():
        yield handler.body


# ---- what nothing reads any more -------------------------------------------------------------------


def _unused(source: SourceFile) -> Iterator[_Edit]:
    """Yield the imports for processes, and the numbers of processes, that nothing reads now."""
    read_names = {
        node.id
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
    for node in source.tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom) and _is_dead(node, read_names):
            yield (
                source.line_start(source.span(node).start),
                source.next_line(source.span(node).end),
                "",
            )
    for scope in ast.walk(source.tree):
        if isinstance(scope, FunctionNode):
            yield from _dead_reads(source, scope, read_names)


def _is_dead(node: ast.Import | ast.ImportFrom, read_names: set[str]) -> bool:
    module = vars(node).get("module") or ""
    for item in node.names:
        full = f"{module}.{item.name}" if module else item.name
        if not full.startswith("torch.distributed") and full not in DDP | SAMPLERS:
            return False
        if (item.asname or item.name.partition(".")[0]) in read_names:
            return False
    return True


def _dead_reads(source: SourceFile, scope: FunctionNode, read_names: set[str]) -> Iterator[_Edit]:
    if len(scope.body) < 2:
        return
    for node in scope.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if (
                name not in read_names and _is_read(value) and source.is_alone(source.span(node))
            ):
                span = source.span(node)
                yield source.line_start(span.start), source.next_line(span.end), ""
            case _:
                pass


def _is_read(value: ast.expr) -> bool:
    return any(
        ast.unparse(value) == f"int(os.environ.get('{name}', '{single}'))"
        for name, single in _ENVIRONMENT.items()
    )


def epoch_loops(source: SourceFile) -> tuple[ast.For, ...]:
    """Return the loops in which a sampler of the script gets the number of the epoch.

    Raises:
        NotMovedError: another number than that of the epoch, counted from 0.
    """
    found = []
    calls = [call for call in _calls(source.tree) if is_method(call, "set_epoch")]
    for call in calls:
        loop = _loop_of(source.tree, call)
        match loop, call.args:
            case ast.For(
                target=ast.Name(id=name),
                iter=ast.Call(func=ast.Name(id="range"), args=[_], keywords=[]),
            ), [ast.Name(id=given)] if name == given and not call.keywords:
                found.append(loop)
            case _:
                shown = ast.unparse(receiver(call))
                raise NotMovedError(
                    "FDL428",
                    f"`{shown}.set_epoch` gets no epoch of the `for epoch in range(n)` around it",
                    call,
                )
    return tuple(found)


def _loop_of(tree: ast.Module, call: ast.Call) -> ast.For | None:
    for node in ast.walk(tree):
        if isinstance(node, ast.For) and any(
            isinstance(each, ast.Expr) and each.value is call for each in node.body
        ):
            return node
    return None
