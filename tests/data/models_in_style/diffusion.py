"""A denoiser: schedules as buffers extracted by steps, guidance, a sampling loop without gradients."""

import math

import torch
import torch.nn.functional as F
from torch import nn


def extract(a, t, x_shape):
    b, *_ = t.shape
    out = a.gather(-1, t)
    return out.reshape(b, *((1,) * (len(x_shape) - 1)))


def default(val, d):
    if val is not None:
        return val
    return d() if callable(d) else d


class SinusoidalPosEmb(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, t):
        half_dim = self.dim // 2
        emb = math.log(10000) / (half_dim - 1)
        emb = torch.exp(torch.arange(half_dim, device=t.device) * -emb)
        emb = t[:, None] * emb[None, :]
        return torch.cat((emb.sin(), emb.cos()), dim=-1)


class Unet(nn.Module):
    def __init__(self):
        super().__init__()
        self.time = nn.Sequential(SinusoidalPosEmb(4), nn.Linear(4, 4))
        self.downs = nn.ModuleList([nn.ModuleList([nn.Linear(4, 4), nn.Identity()]) for _ in range(2)])
        self.ups = nn.ModuleList([nn.Linear(8, 4) for _ in range(2)])

    def forward(self, x, time, cond=None):
        t, r, h = self.time(time), x.clone(), []
        for block, attn in self.downs:
            x = block(x + t)
            h.append(x)
            x = attn(x) + x
        for up in self.ups:
            x = up(torch.cat((x, h.pop()), dim=-1))
        return x + r if cond is None else x + r * cond


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = Unet()
        betas = torch.linspace(1e-4, 0.02, 5, dtype=torch.float64)
        cumprod = torch.cumprod(1.0 - betas, dim=0)
        register_buffer = lambda name, val: self.register_buffer(name, val.to(torch.float32))
        register_buffer("betas", betas)
        register_buffer("sqrt_alphas_cumprod", torch.sqrt(cumprod))
        register_buffer("sqrt_one_minus", torch.sqrt(1.0 - cumprod))
        self.num_timesteps, self.objective, self.guidance = 5, "noise", 2.0

    @property
    def device(self):
        return self.betas.device

    def q_sample(self, x_start, t, noise=None):
        noise = default(noise, lambda: torch.randn_like(x_start))
        return extract(self.sqrt_alphas_cumprod, t, x_start.shape) * x_start + extract(
            self.sqrt_one_minus, t, x_start.shape
        ) * noise

    @torch.inference_mode(False)
    @torch.no_grad()
    def sample(self, shape, cond=None):
        img = torch.randn(shape, device=self.device)
        imgs = [img]
        for t in reversed(range(0, self.num_timesteps)):
            batched = torch.full((shape[0],), t, device=self.device, dtype=torch.long)
            pred = self.model(img, batched)
            if cond is not None and self.guidance > 1:
                pred = pred + self.guidance * (self.model(img, batched, cond) - pred)
            img = img - extract(self.betas, batched, img.shape) * pred
            if t > 0:
                img = img + 0.1 * torch.randn_like(img)
            imgs.append(img)
        return img if self.num_timesteps > 9 else torch.stack(imgs, dim=1)

    def forward(self, x, *args, **kwargs):
        b, n = x.shape
        assert n == 4, f"expected 4 features, got {n}"
        t = torch.randint(0, self.num_timesteps, (b,), device=self.device).long()
        noise = torch.randn_like(x)
        pred = self.model(self.q_sample(x_start=x, t=t, noise=noise), t, *args)
        if self.objective == "noise":
            target = noise
        elif self.objective == "x0":
            target = x
        else:
            raise ValueError(f"unknown objective {self.objective}")
        loss = F.mse_loss(pred, target, reduction="none").mean(-1)
        return loss.mean(), self.sample((b, n), **kwargs)


def inputs(rows):
    return (torch.randn(rows, 4),), {}


def second_inputs(rows):
    return (torch.randn(rows, 4),), {"cond": torch.rand(rows, 4)}


def third_inputs(rows):
    return (torch.randn(rows, 5),), {}


CHANGES = {"objective": lambda net: setattr(net, "objective", "x0"), "steps": lambda net: setattr(net, "num_timesteps", 3),
           "none": lambda net: setattr(net, "objective", "v"), "guidance": lambda net: setattr(net, "guidance", 1.0)}
