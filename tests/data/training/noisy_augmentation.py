# expected: setup builder
# Augmentation with numpy's and Python's generators, a collate function, a sampler with weights.
import random
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset, WeightedRandomSampler

random.seed(1)
np.random.seed(2)
torch.manual_seed(3)


class Noisy(Dataset):
    def __len__(self):
        return 15

    def __getitem__(self, i):
        x = np.full(4, i, dtype=np.float32) + np.random.randn(4).astype(np.float32)
        return (x if random.random() < 0.5 else -x), i % 3


def collate(rows):
    xs, ys = zip(*rows)
    return torch.from_numpy(np.stack(xs)), torch.tensor(ys)


sampler = WeightedRandomSampler([1.0] * 10 + [3.0] * 5, 15)
loader = DataLoader(Noisy(), batch_size=4, sampler=sampler, collate_fn=collate)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
opt = torch.optim.Adam(model.parameters(), lr=0.02)
for epoch in range(2):
    for X, Y in loader:
        opt.zero_grad()
        l = nn.functional.cross_entropy(model(X), Y)
        l.backward()
        opt.step()
        print(epoch, float(l))
