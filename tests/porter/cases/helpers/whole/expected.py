import torch
import torch.nn as nn
import torch.nn.functional as F
from flodl import FlowModule, subflow


class Attention(FlowModule):
    """Keeps the mask that it has made, as long as it is large enough."""

    def __init__(self, dim=4):
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)
        self.register_buffer("mask", None, persistent=False)

    def get_mask(self, n, device):
        if self.mask is not None and self.mask.shape[-1] >= n:
            return self.mask[:n, :n]
        mask = torch.ones((n, n), device=device, dtype=torch.bool).triu(1)
        self.mask = mask
        return mask

    def flow(self, x):
        n = x.shape[1]
        q, k, v = x.through(self.qkv).chunk(3, dim=-1)
        weights = (q @ k.transpose(1, 2)).masked_fill(self.get_mask(n, x.device), -1e9)
        return F.softmax(weights, dim=-1) @ v


class Careful(FlowModule):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(6, 4)
        self.failures = 0

    def either(self, x):
        try:
            return self.a(F.dropout(x, 0.3, self.training))
        except RuntimeError:
            self.failures += 1
            return self.b(x)

    @subflow
    def biggest(self, x):
        best = None
        for row in x.unbind(0):
            if best is None or (0 < (value_ := best.sum())).through(bool) and (value_ < row.sum()).through(bool):
                best = row
        assert best is not None
        return best

    def flow(self, x):
        before = self.failures
        y = torch.relu(x.through(self.either)) * (self.failures + 1)
        return y + self.biggest(y), self.failures - before


class Heir(Careful):
    def flow(self, x):
        return super().flow(x)[0] + x.through(self.either)


def check():
    attention, careful, heir = Attention(), Careful(), Heir()
    results = []
    for turn in range(5):
        for net in (attention, careful, heir):
            net.train(turn % 2 == 0)
        x = torch.rand(2, (3, 5, 4, 6, 3)[turn], 4, requires_grad=True)
        y = torch.rand(2 + turn, 6 if turn in (1, 2) else 4)
        z, failed = careful(y)
        (attention(x).sum() + z.sum() + heir(y).sum()).backward()
        results += [x.grad.tolist(), z.tolist(), failed, careful.failures, heir.failures]
        results += [attention.mask.shape[0], sorted(attention.state_dict()), heir(y).tolist()]
        results.append([p.grad.tolist() for p in (*attention.parameters(), *careful.a.parameters())])
    return results
