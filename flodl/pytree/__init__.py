"""Flat trees of Python values: every part of a value as one typed node with a path.

Example: `flatten({"loss": 0.5, "hidden": (h, h)})` gives, in this order,

    index  parent  key       kind           content
    0      -1                dict           Branch()
    1      0       loss      float          Plain("0.5")
    2      0       hidden    tuple          Branch(immutable=True)
    3      2       0         torch.Tensor   Leaf(h)
    4      2       1         torch.Tensor   SameAs(3)

The walk reads what a type stores, and calls no method that user code wrote: the items of the
built-in type below it, its `__slots__`, its `__dict__`. `__basicsize__` tells whether a type stores
more than those; then the value is taken apart as `pickle` would do it. Where that fails as well, the
node is `Unseen` and says why: a reader of the tree always knows whether it saw everything. A value
that occurs twice is one node and references to it, so cycles and shared parts take no further time.

The walk uses no recursion and has no limit of depth. A container that would lead beyond `max_nodes`
is `Unseen`. Classes, modules and functions of a module are compared by name.
"""

from flodl.pytree.tree import (
    Branch,
    Code,
    Known,
    Leaf,
    Node,
    Plain,
    SameAs,
    Tree,
    Unseen,
    path_of,
)
from flodl.pytree.walker import Walker, flatten

__all__ = [
    "Branch",
    "Code",
    "Known",
    "Leaf",
    "Node",
    "Plain",
    "SameAs",
    "Tree",
    "Unseen",
    "Walker",
    "flatten",
    "path_of",
]
