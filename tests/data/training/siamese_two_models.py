# expected: FDL408 FDL408
# One optimizer for two models: which one trains is not clear.
import itertools
import torch
import torch.nn as nn

torch.manual_seed(0)
left, right = nn.Linear(3, 2), nn.Linear(3, 2)
optimizer = torch.optim.Adam(itertools.chain(left.parameters(), right.parameters()), lr=0.05)
for x in torch.randn(6, 4, 3):
    loss = (left(x) - right(x) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
