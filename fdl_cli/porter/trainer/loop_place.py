"""Place of a training loop: its file, the function around it, and the loops around it."""

import ast
from dataclasses import dataclass
from typing import final

from fdl_cli.porter.lower.names import FunctionNode, Names
from fdl_cli.porter.parse.reader import SourceFile
from fdl_cli.porter.trainer.training_step import Loop


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LoopPlace:
    """A loop with its surroundings; `chain` are the loops right around it and itself, outermost first."""

    source: SourceFile
    names: Names
    scope: ast.Module | FunctionNode
    chain: tuple[Loop, ...]

    @property
    def loop(self) -> Loop:
        """The loop itself."""
        return self.chain[-1]

    def text(self, node: ast.expr) -> str:
        """Return an expression as it is written, on one line."""
        written = self.source.slice(self.source.span(node))
        return ast.unparse(node) if "\n" in written or "\r" in written else written

    def knows(self, name: str) -> bool:
        """Return True if an expression means the same in the scope: a name of it, of the module, of self."""
        root = name.partition(".")[0]
        found: set[str] = set()
        if isinstance(self.scope, FunctionNode):
            found |= {arg.arg for arg in ast.walk(self.scope.args) if isinstance(arg, ast.arg)}
        found |= _stored_names(self.scope)
        for node in self.source.tree.body:
            if not isinstance(node, FunctionNode | ast.ClassDef):
                found |= _stored_names(node)
        return root in found


def _stored_names(node: ast.AST) -> set[str]:
    return {
        inner.id
        for inner in ast.walk(node)
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)
    }
