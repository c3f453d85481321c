"""What the porter's tests share: porting a text, and the class around a single forward."""

import textwrap

import pytest

from fdl_cli.porter.pipeline import draft, understand

PRELUDE = """\
import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)
        self.c = nn.Linear(4, 4)
        self.down = nn.Linear(4, 4)
        self.norm = nn.LayerNorm(4)
        self.head = nn.Linear(4, 4)
        self.pool = nn.MaxPool1d(1)
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        self.mix = nn.Bilinear(4, 4, 4)
        self.mixers = nn.ModuleList([nn.Bilinear(4, 4, 4), nn.Bilinear(4, 4, 4)])
        self.cell = nn.GRUCell(4, 4)
        self.lstm = nn.LSTMCell(4, 4)
        self.steps = 2

"""


class Porter:
    """Ports texts without verification."""

    def draft(self, text):
        source, script = understand(text.encode())
        return draft(source, script, {})

    def text(self, text):
        return self.draft(text).text

    def around(self, method):
        """Put a forward into a class with some layers."""
        return PRELUDE + textwrap.indent(textwrap.dedent(method).strip("\n"), "    ") + "\n"

    def flow(self, method):
        """Port one forward and return the flow alone, at the margin."""
        return self.flow_of(self.text(self.around(method)))

    def flow_of(self, ported):
        """Return the flow of a ported text from `around`, at the margin."""
        _, mark, rest = ported.partition("        self.steps = 2\n\n")
        assert mark, ported
        return textwrap.dedent(rest)

    def reasons(self, text):
        made = self.draft(text)
        return [reason for item in made.plan.classes for reason in item.reasons]


@pytest.fixture(scope="session")
def porter():
    return Porter()
