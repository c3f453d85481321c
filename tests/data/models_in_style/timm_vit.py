"""A vision transformer of timm: drop path, position embeddings resampled, heads, features by name."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


def drop_path(x, drop_prob: float = 0.0, training: bool = False, scale_by_keep: bool = True):
    if drop_prob == 0.0 or not training:
        return x
    keep_prob = 1 - drop_prob
    random_tensor = x.new_empty((x.shape[0],) + (1,) * (x.ndim - 1)).bernoulli_(keep_prob)
    if keep_prob > 0.0 and scale_by_keep:
        random_tensor.div_(keep_prob)
    return x * random_tensor


class DropPath(nn.Module):
    def __init__(self, drop_prob: float = 0.0):
        super().__init__()
        self.drop_prob = drop_prob

    def forward(self, x):
        return drop_path(x, self.drop_prob, self.training)


class Attention(nn.Module):
    fused_attn: bool

    def __init__(self):
        super().__init__()
        self.num_heads, self.head_dim, self.scale, self.fused_attn = 2, 4, 0.5, False
        self.qkv, self.proj = nn.Linear(8, 24), nn.Linear(8, 8)
        self.q_norm, self.k_norm = nn.LayerNorm(4), nn.Identity()
        self.attn_drop = nn.Dropout(0.1)

    def forward(self, x, attn_mask=None):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, self.head_dim).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        q, k = self.q_norm(q), self.k_norm(k)
        if self.fused_attn:
            x = F.scaled_dot_product_attention(q, k, v, dropout_p=self.attn_drop.p if self.training else 0.0)
        else:
            q = q * self.scale
            attn = q @ k.transpose(-2, -1)
            if attn_mask is not None:
                attn = attn + attn_mask
            x = self.attn_drop(attn.softmax(dim=-1)) @ v
        return self.proj(x.transpose(1, 2).reshape(B, N, C))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.attn, self.norm2 = nn.LayerNorm(8), Attention(), nn.LayerNorm(8)
        self.ls1 = nn.Parameter(torch.full((8,), 0.5))
        self.drop_path1 = DropPath(0.3)
        self.mlp = nn.Sequential(nn.Linear(8, 8), nn.GELU())

    def forward(self, x):
        x = x + self.drop_path1(self.ls1 * self.attn(self.norm1(x)))
        return x + self.mlp(self.norm2(x)).mul(self.ls1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch_embed = nn.Conv2d(1, 8, 2, 2)
        self.cls_token = nn.Parameter(torch.randn(1, 1, 8))
        self.pos_embed = nn.Parameter(torch.randn(1, 5, 8))
        self.blocks = nn.Sequential(*[Block() for _ in range(2)])
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 3)
        self.global_pool, self.num_prefix_tokens, self.dynamic_img_size = "token", 1, True
        self.grad_checkpointing = False

    def set_grad_checkpointing(self, enable=True):
        self.grad_checkpointing = enable

    def _pos_embed(self, x):
        B, C, H, W = x.shape
        pos_embed = self.pos_embed
        if self.dynamic_img_size and (H, W) != (2, 2):
            grid = pos_embed[:, 1:].reshape(1, 2, 2, -1).permute(0, 3, 1, 2)
            grid = F.interpolate(grid, size=(H, W), mode="bilinear").permute(0, 2, 3, 1).reshape(1, -1, C)
            pos_embed = torch.cat([pos_embed[:, :1], grid], dim=1)
        x = x.flatten(2).transpose(1, 2)
        to_cat = []
        if self.cls_token is not None:
            to_cat.append(self.cls_token.expand(B, -1, -1))
        return torch.cat(to_cat + [x], dim=1) + pos_embed

    def forward_features(self, x):
        x = self._pos_embed(self.patch_embed(x))
        if self.grad_checkpointing and not torch.jit.is_scripting():
            for blk in self.blocks:
                x = checkpoint(blk, x, use_reentrant=False)
        else:
            x = self.blocks(x)
        return self.norm(x)

    def pool(self, x, pool_type=None):
        pool_type = self.global_pool if pool_type is None else pool_type
        if pool_type == "avg":
            return x[:, self.num_prefix_tokens :].mean(dim=1)
        return x[:, 0] if pool_type else x

    def forward(self, x):
        return self.head(self.pool(self.forward_features(x)))


def inputs(rows):
    return (torch.randn(rows, 1, 4, 4),), {}


def second_inputs(rows):
    return (torch.randn(rows, 1, 6, 4).contiguous(memory_format=torch.channels_last),), {}


CHANGES = {
    "pool": lambda net: setattr(net, "global_pool", "avg"), "no pool": lambda net: setattr(net, "global_pool", ""),
    "fused": lambda net: setattr(net.blocks[0].attn, "fused_attn", True),
    "checkpointing": lambda net: net.set_grad_checkpointing(),
    "head": lambda net: setattr(net, "head", nn.Identity()), "heads": lambda net: setattr(net.blocks[1].attn, "num_heads", 1),
    "drop path": lambda net: setattr(net.blocks[0].drop_path1, "drop_prob", 0.0),
    "norm": lambda net: setattr(net.blocks[1].attn, "k_norm", nn.LayerNorm(4)),
}
