# expected: setup FDL424
# One-cycle: the rate moves with every step.
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(30, 4), torch.randn(30, 1)), batch_size=5, shuffle=True)
model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
epochs = 3
sched = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, epochs=epochs, steps_per_epoch=len(loader))


def get_lr(optimizer):
    for param_group in optimizer.param_groups:
        return param_group['lr']


lrs = []
for epoch in range(epochs):
    train_losses = []
    for batch in loader:
        x, y = batch
        loss = nn.functional.mse_loss(model(x), y)
        train_losses.append(loss)
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 0.1)
        optimizer.step()
        optimizer.zero_grad()
        # Record & update learning rate
        lrs.append(get_lr(optimizer))
        sched.step()
    print(epoch, torch.stack(train_losses).mean().item())
print(lrs)
