# expected: setup FDL422
# A batch may be left out before anything is computed.
import torch
import torch.nn as nn

torch.manual_seed(0)
model = nn.Linear(3, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
loader = [(torch.randn(n, 3), torch.randn(n, 1)) for n in (4, 1, 4, 4, 1)]
for epoch in range(2):
    for x, y in loader:
        if len(x) < 2:
            continue
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        print(epoch, loss.item())
