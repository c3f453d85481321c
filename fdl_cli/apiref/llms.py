"""`llms.txt` and `llms-full.txt`: the reference in the form that language models are given."""

from itertools import groupby
from typing import Final

from fdl_cli.apiref.model import ApiIndex, Entry
from fdl_cli.apiref.render import markdown
from fdl_cli.apiref.torch_map import torch_entries

PAGES: Final = "https://github.com/flodl/flodl/blob/main"
"""Where the pages and sources of the project are; the same place as in `pyproject.toml`."""

_GUIDES: Final = (
    ("docs/explanation/flows.md", "write a model as a flow graph"),
    ("docs/reference/pytorch-map.md", "PyTorch on the left, flodl on the right"),
    ("docs/explanation/porter.md", "the patterns of `fdl port`, with before and after"),
    ("docs/explanation/verification.md", "how a port is proved equal"),
    ("docs/how-to/training.md", "train, resume and watch"),
    ("docs/explanation/el-che.md", "how units are divided among ranks of unequal speed"),
    ("docs/reference/commands.md", "every command of `fdl`"),
)

_OPENING: Final = """# flodl

> Flow graphs for PyTorch. `fdl port model.py` turns a PyTorch script into the same program on
> flow graphs and proves it equal; `flodl` is the runtime. A model is a `FlowModule` whose `flow`
> method replaces `forward`, or a chain made with `FlowBuilder`. Both are torch modules.

- One name: `fdl api-ref NAME`; a PyTorch name: `fdl api-ref --torch nn.Conv2d`
- All of it: `fdl api-ref --llms-full`
"""


def llms_text(index: ApiIndex) -> str:
    """Return the short text in the form of llmstxt.org: the guides, and one link for every public name."""
    guides = [f"- [{path}]({PAGES}/{path}): {text}" for path, text in _GUIDES]
    parts = [_OPENING.rstrip(), "## Guides\n\n" + "\n".join(guides)]
    for category, group in groupby(index.public, key=lambda entry: entry.category):
        lines = [f"- {_link(entry)}: {entry.doc.summary}" for entry in group]
        parts.append(f"## {category}\n\n" + "\n".join(lines))
    return "\n\n".join(parts)


def _link(entry: Entry) -> str:
    """Return a name that leads to its source."""
    return f"[{entry.short_name}]({PAGES}/{entry.file}#L{entry.line})"


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
