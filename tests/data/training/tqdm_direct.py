# expected: setup builder
# The wrapped loader right in the head of the loop.
import torch
import torch.nn as nn

torch.manual_seed(0)
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
train_loader = torch.utils.data.DataLoader(torch.randn(12, 3), batch_size=4, shuffle=True)


def shown(items):
    for item in items:
        yield item


for epoch in range(2):
    for data in shown(train_loader):
        loss = model(data).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
