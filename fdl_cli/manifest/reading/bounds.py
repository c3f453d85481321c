"""Bounds of a YAML file: its text before the parser sees it, its nodes before aliases are followed.

```
a: &a [x, x]        # 3 nodes
b: &b [*a, *a]      # 7
c: &c [*b, *b]      # 15: each line doubles it, and forty lines would fill the memory
```
Sizes are added up with aliases counted at each use.  A file of a kilobyte that means a million nodes is
refused without being unfolded.
"""

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import yaml

MOST_BYTES: Final = 1 << 18
MOST_NODES: Final = 20_000
DEEPEST: Final = 40
# The parser recurses in C: it must not see what could nest deeper than its stack.
_MOST_BRACKETS: Final = 100
_MOST_INDENTATION: Final = 500

_BRACKETS: Final = re.compile(rb"[][{}]")
_INDENTED: Final = re.compile(rb"^[ \t?:-]{%d}" % _MOST_INDENTATION, re.MULTILINE)


def text_problem(text: bytes) -> str:
    """Return why a text is not given to the parser; empty if it is."""
    if len(text) > MOST_BYTES:
        return f"the file has {len(text):,} bytes, at most {MOST_BYTES:,} are read"
    depth = 0
    for bracket in _BRACKETS.findall(text):
        depth = depth + 1 if bracket in b"[{" else max(depth - 1, 0)
        if depth > _MOST_BRACKETS:
            return f"more than {_MOST_BRACKETS} brackets are open at once"
    if _INDENTED.search(text):
        return f"a line is indented by {_MOST_INDENTATION} columns or more"
    return ""


def nodes_problem(root: "yaml.Node") -> tuple[str, "yaml.Node"] | None:
    """Return why a document is not read, and the node that is too much; aliases count at each use."""
    sizes: dict[int, int] = {}
    heights: dict[int, int] = {}
    waiting: list[tuple[yaml.Node, bool]] = [(root, False)]
    open_nodes: set[int] = set()
    while waiting:
        node, done = waiting.pop()
        key = id(node)
        children = _children(node)
        if done:
            sizes[key] = 1 + sum(sizes.get(id(each), 0) for each in children)
            heights[key] = 1 + max((heights.get(id(each), 0) for each in children), default=0)
            open_nodes.discard(key)
            if sizes[key] > MOST_NODES:
                return f"the file means more than {MOST_NODES:,} values, aliases followed", node
            if heights[key] > DEEPEST:
                return f"the file nests deeper than {DEEPEST} levels", node
        elif key not in sizes and key not in open_nodes:
            open_nodes.add(key)
            for place, each in enumerate(children):
                if id(each) in open_nodes:  # those above it, and itself
                    is_value = place % 2 and isinstance(node.value[0], tuple)
                    return "the mapping contains itself", children[place - 1] if is_value else node
            waiting.append((node, True))
            waiting.extend((each, False) for each in children)
    return None


def _children(node: "yaml.Node") -> list["yaml.Node"]:
    import yaml

    if isinstance(node, yaml.MappingNode):
        return [each for pair in node.value for each in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []
