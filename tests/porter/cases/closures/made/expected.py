from functools import partial

import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint
from flodl import FlowModule, call


class Layer(FlowModule):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.drop = nn.Dropout(0.3)

    def flow(self, x, mask=None, past=None, both=False):
        y = x.through(self.a).through(torch.relu).through(self.drop)
        if mask is not None:
            y = y * mask
        if past is not None:
            y = y + past
        return (y, x) if both else (y,)


class Encoder(FlowModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.ModuleList(Layer() for _ in range(3))
        self.gradient_checkpointing = True

    def flow(self, hidden, mask=None, pasts=None, both=False):
        every = () if both else None
        for i, layer_module in enumerate(self.layer):
            past = pasts[i] if pasts is not None else None
            if self.gradient_checkpointing and self.training:

                def create_custom_forward(module):
                    def custom_forward(*inputs):
                        return module(*inputs, past, both)

                    return custom_forward

                outputs = call(
                    checkpoint,
                    call(create_custom_forward, layer_module),
                    hidden,
                    mask,
                    use_reentrant=False,
                )
            else:
                outputs = hidden.through(layer_module, mask, past, both)
            hidden = outputs[0]
            if both:
                every = every + (outputs[1],)
        return tuple(v for v in [hidden, every] if v is not None)


class Sublayer(FlowModule):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(4)

    def flow(self, x, sublayer):
        return x.also(x.through(self.norm).through(sublayer))


class EncoderLayer(FlowModule):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.mix = nn.Linear(4, 4)
        self.sublayer = nn.ModuleList(Sublayer() for _ in range(2))

    def flow(self, x, mask):
        x = x.through(self.sublayer[0], (lambda t: self.attention(t, t, t, attn_mask=mask)[0]))
        tau = mask.mean()
        soften = lambda t: torch.exp(t / tau)
        return x.through(self.sublayer[1], self.mix).through(soften), x.through(self.sublayer[1], partial(torch.mul, tau))


class Mapped(FlowModule):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def flow(self, x):
        scale = x.through(self.b)

        def block(t):
            return self.a(t) * scale

        return sum(map(block, x.unbind(0)))


def check():
    encoder, layer, mapped = Encoder(), EncoderLayer(), Mapped()
    results = []
    for turn in range(4):
        encoder.train(turn % 2 == 0)
        x = torch.rand(2 + turn, 4, requires_grad=True)
        mask = torch.rand(2 + turn, 4)
        pasts = [torch.rand(4) for _ in range(3)] if turn < 2 else None
        out = encoder(x, mask, pasts, both=turn == 1)
        y, z = layer(x[None], torch.rand(2 + turn, 2 + turn))
        total = out[0].sum() + y.sum() + z.sum() + mapped(x).sum()
        total.backward()
        results += [out, y.tolist(), z.tolist(), x.grad.tolist()]
        results.append([p.grad.tolist() for net in (encoder, layer) for p in net.parameters()])
    return results
