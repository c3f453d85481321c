# expected: setup builder
# Numbers are taken between the backward pass and the update.
import torch
import torch.nn as nn

torch.manual_seed(0)
model = nn.Linear(3, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
running_loss, correct = 0.0, 0
for epoch in range(2):
    for x, y in [(torch.randn(4, 3), torch.randint(0, 2, (4,))) for _ in range(4)]:
        optimizer.zero_grad()
        output = model(x)
        loss = nn.functional.cross_entropy(output, y)
        loss.backward()
        running_loss += loss.item()
        pred = output.argmax(dim=1)
        correct += pred.eq(y).sum().item()
        optimizer.step()
    print(epoch, running_loss, correct)
