"""Running a description: plan, generated code, `Graph`.  It does not know how flows are written.

The public names are here in one place, those of the rooms above included. They are looked up when they are
read, because the rooms above import this one.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flodl import Add as Add
    from flodl import Cat as Cat
    from flodl import Field as Field
    from flodl import Flow as Flow
    from flodl import FlowBuilder as FlowBuilder
    from flodl import FlowModule as FlowModule
    from flodl import Graph as Graph
    from flodl import LoopBody as LoopBody
    from flodl import Max as Max
    from flodl import Mean as Mean
    from flodl import MergeOp as MergeOp
    from flodl import Mul as Mul
    from flodl import PathKind as PathKind
    from flodl import Reduce as Reduce
    from flodl import Stack as Stack
    from flodl import TraceEmit as TraceEmit
    from flodl import View as View
    from flodl import call as call
    from flodl import on_forward as on_forward
    from flodl import subflow as subflow
    from flodl import view as view
    from flodl import walk_modules as walk_modules

__all__ = [
    "Add",
    "Cat",
    "Field",
    "Flow",
    "FlowBuilder",
    "FlowModule",
    "Graph",
    "LoopBody",
    "Max",
    "Mean",
    "MergeOp",
    "Mul",
    "PathKind",
    "Reduce",
    "Stack",
    "TraceEmit",
    "View",
    "call",
    "on_forward",
    "subflow",
    "view",
    "walk_modules",
]


def __getattr__(name: str) -> Any:
    """Return a public name of `flodl`."""
    if name in __all__:
        return getattr(sys.modules["flodl"], name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
