"""`llms.txt` and `llms-full.txt`: the reference in the form that language models are given."""

from itertools import groupby

from fdl_cli.apiref.model import ApiIndex
from fdl_cli.apiref.render import markdown
from fdl_cli.apiref.torch_map import torch_entries

_OPENING = """# flodl

> Flow graphs for PyTorch. `fdl port model.py` turns a PyTorch script into the same program on
> flow graphs and proves it equal; `flodl` is the runtime. A model is a `FlowModule` whose `flow`
> method replaces `forward`, or a chain made with `FlowBuilder`. Both are torch modules.

- One name: `fdl api-ref NAME`; a PyTorch name: `fdl api-ref --torch nn.Conv2d`
- All of it: `fdl api-ref --llms-full`
"""


def llms_text(index: ApiIndex) -> str:
    """Return the short text: what flodl is, and one line for every public name."""
    parts = [_OPENING.rstrip()]
    for category, group in groupby(index.public, key=lambda entry: entry.category):
        lines = [f"- `{entry.short_name}`: {entry.doc.summary}" for entry in group]
        parts.append(f"## {category}\n\n" + "\n".join(lines))
    return "\n\n".join(parts)


def llms_full_text(index: ApiIndex) -> str:
    """Return the long text: the whole reference and the map from PyTorch."""
    lines = [
        f"### {entry.torch}\n\n`{entry.flodl}`\n\n{entry.note}\n\n```pycon\n{entry.example}\n```"
        for entry in torch_entries()
        if entry.example
    ]
    rest = "Every other layer, function and tensor method of torch is used unchanged."
    return "\n\n".join(
        (
            _OPENING.rstrip(),
            markdown(index, index.entries, 0).replace("# flodl", "# Reference of flodl", 1),
            "## From PyTorch",
            *lines,
            rest,
        )
    )
