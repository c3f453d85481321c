# expected: FDL404 FDL404
# A turn inside `try`.
import torch
import torch.nn as nn

torch.manual_seed(0)
model = nn.Linear(3, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
for x in torch.randn(6, 4, 3):
    try:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
    except RuntimeError as e:
        if 'out of memory' in str(e):
            continue
        raise
    print(loss.item())
