# expected: setup builder
# The number of the batch decides what is computed.
import torch
import torch.nn as nn

torch.manual_seed(0)
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = list(torch.randn(4, 5, 3))
for epoch in range(2):
    for i, data in enumerate(loader):
        noise = torch.randn_like(data) * (0.1 if i % 2 else 0.2) * (epoch + 1)
        loss = model(data + noise).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(epoch, i, loss.item())
