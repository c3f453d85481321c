# expected: setup builder
# A rate per step, moved right behind the update.
import torch
import torch.nn as nn

torch.manual_seed(0)
x, y = torch.randn(30, 4), torch.randn(30, 1)
model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))
optimizer = torch.optim.RMSprop(model.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=18)
for epoch in range(3):
    for xb, yb in zip(x.split(5), y.split(5)):
        optimizer.zero_grad()
        pred = model(xb)
        loss = nn.functional.mse_loss(pred, yb)
        loss.backward()
        optimizer.step()
        scheduler.step()
        print(loss.item(), scheduler.get_last_lr()[0])
