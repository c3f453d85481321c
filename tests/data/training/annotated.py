# expected: setup FDL427
# A name with an annotation cannot be shared between functions.
import torch
import torch.nn as nn

torch.manual_seed(0)
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    total: float = 0.0
    for x in torch.randn(4, 5, 3):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(epoch, total)
