# expected: setup builder
# Losses added up, some of them only sometimes.
import torch
import torch.nn as nn

torch.manual_seed(0)
loader = [(torch.randn(4, 5), torch.randint(0, 3, (4,))) for _ in range(5)]
model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=1e-4)
alpha, use_penalty = 0.3, True
for epoch in range(2):
    for x, label in loader:
        out = model(x)
        losses = [nn.functional.cross_entropy(out, label)]
        if use_penalty:
            losses.append(alpha * sum(p.abs().sum() for p in model.parameters()))
        losses.append(out.square().mean())
        optimizer.zero_grad()
        sum(losses).backward()
        optimizer.step()
        print([each.item() for each in losses])
