# expected: FDL404 FDL404
# A turn with bad gradients is left before the update.
import torch
import torch.nn as nn

torch.manual_seed(0)
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i, x in enumerate(torch.randn(8, 4, 3)):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    if i % 3 == 1:
        print("skipped", i)
        continue
    optimizer.step()
    print(i, loss.item())
