"""Vision Transformer (Dosovitskiy et al., 2020) that tells the direction of synthetic stripes."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

DIRECTIONS = 4


class PatchEmbedding(nn.Module):
    """Cuts an image into patches and projects each to a token."""

    def __init__(self, image_size, patch_size, in_channels, dim):
        super().__init__()
        assert image_size % patch_size == 0
        self.num_patches = (image_size // patch_size) ** 2
        self.proj = nn.Conv2d(in_channels, dim, kernel_size=patch_size, stride=patch_size)

    def forward(self, x):
        return self.proj(x).flatten(2).transpose(1, 2)


class Attention(nn.Module):
    def __init__(self, dim, num_heads, dropout=0.0):
        super().__init__()
        self.num_heads = num_heads
        self.scale = (dim // num_heads) ** -0.5
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, C // self.num_heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        attn = (q @ k.transpose(-2, -1)) * self.scale
        attn = self.drop(attn.softmax(dim=-1))
        x = (attn @ v).transpose(1, 2).reshape(B, N, C)
        return self.proj(x)


class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, mlp_ratio=2, dropout=0.0):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = Attention(dim, num_heads, dropout)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(
            nn.Linear(dim, mlp_ratio * dim), nn.GELU(), nn.Linear(mlp_ratio * dim, dim)
        )

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        x = x + self.mlp(self.norm2(x))
        return x


class VisionTransformer(nn.Module):
    def __init__(self, image_size=16, patch_size=4, dim=32, depth=2, num_heads=4, num_classes=10):
        super().__init__()
        self.patch_embed = PatchEmbedding(image_size, patch_size, 1, dim)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos_embed = nn.Parameter(0.02 * torch.randn(1, self.patch_embed.num_patches + 1, dim))
        self.blocks = nn.ModuleList([EncoderBlock(dim, num_heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, num_classes)

    def forward(self, x):
        x = self.patch_embed(x)
        cls = self.cls_token.expand(x.shape[0], -1, -1)
        x = torch.cat((cls, x), dim=1) + self.pos_embed
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


def make_stripes(num_images, size=16):
    """Stripes in one of four directions, with noise; the direction is the label."""
    labels = torch.randint(0, DIRECTIONS, (num_images,))
    angle = labels.view(-1, 1, 1) * torch.pi / DIRECTIONS
    rows, columns = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    phase = 2 * torch.pi * torch.rand(num_images, 1, 1)
    waves = torch.sin(1.2 * (rows * angle.sin() + columns * angle.cos()) + phase)
    return (waves + 0.3 * torch.randn(num_images, size, size)).unsqueeze(1), labels


def main():
    parser = argparse.ArgumentParser(description="ViT on synthetic stripes")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    train_loader = DataLoader(
        TensorDataset(*make_stripes(256)), batch_size=args.batch_size, shuffle=True
    )
    test_images, test_labels = make_stripes(64)

    model = VisionTransformer(num_classes=DIRECTIONS)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.05)

    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for images, labels in train_loader:
            optimizer.zero_grad()
            loss = criterion(model(images), labels)
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch + 1}: loss {total / len(train_loader):.4f}")

    model.eval()
    with torch.no_grad():
        accuracy = (model(test_images).argmax(dim=1) == test_labels).float().mean()
    print(f"accuracy {accuracy.item():.3f}")


if __name__ == "__main__":
    main()
