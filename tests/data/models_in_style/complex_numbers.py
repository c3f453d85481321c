"""Spectral convolution of Fourier neural operators, rotary by complex numbers, STFT."""

import torch
import torch.nn.functional as F
from torch import nn


class SpectralConv1d(nn.Module):
    def __init__(self, modes=3):
        super().__init__()
        self.modes = modes
        self.weights = nn.Parameter(torch.rand(2, 2, modes, dtype=torch.cfloat) / 4)

    def compl_mul1d(self, input, weights):
        return torch.einsum("bix,iox->box", input, weights)

    def forward(self, x):
        batchsize = x.shape[0]
        x_ft = torch.fft.rfft(x.float())
        out_ft = torch.zeros(batchsize, 2, x.size(-1) // 2 + 1, device=x.device, dtype=torch.cfloat)
        out_ft[:, :, : self.modes] = self.compl_mul1d(x_ft[:, :, : self.modes], self.weights)
        return torch.fft.irfft(out_ft, n=x.size(-1)).to(x.dtype)


def apply_rotary(x, freqs_cis):
    x_ = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(x_ * freqs_cis).flatten(-2).type_as(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.w = SpectralConv1d(), nn.Conv1d(2, 2, 1)
        t = torch.outer(torch.arange(2).float(), torch.ones(4))
        self.freqs_cis = torch.polar(torch.ones_like(t), t)
        self.register_buffer("window", torch.hann_window(4), persistent=False)

    def forward(self, x):
        y = F.gelu(self.conv(x) + self.w(x))
        y = apply_rotary(y, self.freqs_cis)
        spec = torch.stft(y.flatten(0, 1).float(), 4, window=self.window.float(), return_complex=True)
        magnitude, phase = spec.abs(), torch.angle(spec.detach())
        if spec.is_complex() and torch.is_complex(spec):
            magnitude = magnitude + spec.real * 0.1
        return y, magnitude, phase


def inputs(rows):
    return (torch.randn(rows, 2, 8),), {}


def freqs(net):
    net.freqs_cis = net.freqs_cis * 1j


CHANGES = {"freqs": freqs, "modes": lambda net: (setattr(net.conv, "modes", 2), setattr(net.conv, "weights", nn.Parameter(net.conv.weights[..., :2].detach())))}
