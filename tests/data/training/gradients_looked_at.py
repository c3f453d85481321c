# expected: setup FDL424
# Gradients are changed by hand before the update.
import torch
import torch.nn as nn

torch.manual_seed(0)
model = nn.Linear(3, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    loss = model(torch.randn(4, 3)).square().sum()
    optimizer.zero_grad()
    loss.backward()
    for p in model.parameters():
        p.grad.data.clamp_(-1, 1)
    optimizer.step()
    print(step, loss.item())
