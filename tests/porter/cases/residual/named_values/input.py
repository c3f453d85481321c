import torch
import torch.nn as nn
import torch.nn.functional as F


class Inverted(nn.Module):
    def __init__(self, width, residual=True):
        super().__init__()
        self.residual = residual
        self.conv1 = nn.Linear(width, width)
        self.conv2 = nn.Linear(width, width)

    def forward(self, x):
        if self.residual:
            identity = x
        x = self.conv1(x)
        x = self.conv2(x)
        if self.residual:
            x = x + identity
        return x


class InPlace(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Linear(width, width)

    def forward(self, x):
        shortcut = x
        x = self.conv(x)
        seen = [x]
        x += shortcut  # seen by `seen` as well
        y = self.conv(x)
        if self.training:
            y += x
        return y, seen


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attn = nn.Bilinear(width, width, width)

    def forward(self, x, memory):
        x = self.attn(x, memory) + x
        x = x + self.attn(self.norm(x), memory)
        return x + 0.5 * self.norm(x)


class Rounds(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Linear(width, width)

    def forward(self, x):
        identity = x
        out = self.conv(x)
        seen = []
        for _ in range(2):
            out += identity  # in the list as well
            seen.append(out)
        return seen


class Alias(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Linear(width, width)

    def forward(self, x):
        identity = x
        out = self.conv(x)
        both = out
        if self.training:
            both += identity  # written to `out` as well
        return both, out


class Rows(nn.Module):
    def __init__(self, width, down=True):
        super().__init__()
        self.conv = nn.Linear(width, width)
        self.down = nn.Linear(width, width) if down else None

    def forward(self, x):
        a, residual = x, x
        a = self.conv(a)
        a = F.relu(a, inplace=True)
        if self.down is not None:
            residual = self.down(residual)
        return torch.relu(residual + a)


class Parts(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Linear(width, width)

    def forward(self, x):
        identity = x
        parts = []
        for part in self.conv(x).chunk(2, 1):
            parts.append(torch.relu(part))
        out = self.conv(torch.cat(parts, 1) + parts[0].sum())
        if self.training:
            identity = self.conv(identity)
        out += identity
        return torch.relu(out)


class Lateral(nn.Module):
    """No residual: only the size of the second comes from the first."""

    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv1d(width, width, 1)

    def forward(self, state, lateral):
        lateral = self.conv(lateral)
        _, _, length = lateral.shape
        state = torch.nn.functional.interpolate(state, size=length)
        return state + lateral


def rest(x):
    return Lateral(4)(torch.rand(2, 4, 3), torch.rand(2, 4, 6)), Rounds(4)(x), Alias(4)(x), Rows(4)(x), Rows(4, False)(x), Parts(4)(x), Parts(4).eval()(x)


def check():
    torch.manual_seed(1)
    x = torch.randn(2, 4)
    return Inverted(4)(x), Inverted(4, False)(x), InPlace(4)(x), Layer(4)(x, x * 2), rest(x)
