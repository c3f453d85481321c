import torch
import torch.nn as nn
import torch.nn.functional as F
from flodl import FlowModule


class Inverted(FlowModule):
    def __init__(self, width, residual=True):
        super().__init__()
        self.residual = residual
        self.conv1 = nn.Linear(width, width)
        self.conv2 = nn.Linear(width, width)

    def flow(self, x):
        if self.residual:
            identity = x
        x = x.through(self.conv1).through(self.conv2)
        return x + identity if self.residual else x


class InPlace(FlowModule):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Linear(width, width)

    def flow(self, x):
        shortcut = x
        x = x.through(self.conv)
        seen = [x]
        x += shortcut  # seen by `seen` as well
        y = x.through(self.conv)
        if self.training:
            y += x
        return y, seen


class Layer(FlowModule):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attn = nn.Bilinear(width, width, width)

    def flow(self, x, memory):
        x = x.through(self.attn, memory) + x
        x = x.also(x.through(self.norm).through(self.attn, memory))
        return x.also(0.5 * x.through(self.norm))


class Rounds(FlowModule):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Linear(width, width)

    def flow(self, x):
        identity = x
        out = x.through(self.conv)
        seen = []
        for _ in range(2):
            out += identity  # in the list as well
            seen.append(out)
        return seen


class Alias(FlowModule):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Linear(width, width)

    def flow(self, x):
        identity = x
        out = x.through(self.conv)
        both = out
        if self.training:
            both += identity  # written to `out` as well
        return both, out


class Rows(FlowModule):
    def __init__(self, width, down=True):
        super().__init__()
        self.conv = nn.Linear(width, width)
        self.down = nn.Linear(width, width) if down else None

    def flow(self, x):
        a, residual = x, x
        a = a.through(self.conv).through(F.relu, inplace=True)
        return (
            residual.through(self.down if self.down is not None else ())
            .also(a)
            .through(torch.relu)
        )


class Parts(FlowModule):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Linear(width, width)

    def flow(self, x):
        identity = x
        parts = []
        for part in x.through(self.conv).chunk(2, 1):
            parts.append(torch.relu(part))
        out = (torch.cat(parts, 1) + parts[0].sum()).through(self.conv)
        if self.training:
            identity = identity.through(self.conv)
        out += identity
        return torch.relu(out)


class Lateral(FlowModule):
    """No residual: only the size of the second comes from the first."""

    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv1d(width, width, 1)

    def flow(self, state, lateral):
        lateral = lateral.through(self.conv)
        _, _, length = lateral.shape
        return state.through(torch.nn.functional.interpolate, size=length) + lateral


def rest(x):
    return Lateral(4)(torch.rand(2, 4, 3), torch.rand(2, 4, 6)), Rounds(4)(x), Alias(4)(x), Rows(4)(x), Rows(4, False)(x), Parts(4)(x), Parts(4).eval()(x)


def check():
    torch.manual_seed(1)
    x = torch.randn(2, 4)
    return Inverted(4)(x), Inverted(4, False)(x), InPlace(4)(x), Layer(4)(x, x * 2), rest(x)
