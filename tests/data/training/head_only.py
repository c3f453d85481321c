# expected: setup builder
# Only the last layer is trained.
import torch
import torch.nn as nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.ReLU())
        self.fc = nn.Linear(6, 2)

    def forward(self, x):
        return self.fc(self.body(x))


model = Net()
for param in model.body.parameters():
    param.requires_grad = False
model.train()
model.body.eval()
optimizer = torch.optim.SGD(model.fc.parameters(), lr=0.1, momentum=0.9)
criterion = nn.CrossEntropyLoss()
loader = [(torch.randn(4, 5), torch.randint(0, 2, (4,))) for _ in range(4)]
for epoch in range(2):
    for x, y in loader:
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
