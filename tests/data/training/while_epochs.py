# expected: setup builder
# A loop over epochs that counts by hand: the loop over batches moves, that one stays.
import torch
import torch.nn as nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
optimizer = torch.optim.NAdam(model.parameters(), lr=0.02)
dataset = torch.randn(4, 3, 4)
epoch = 0
while epoch < 3:
    epoch += 1
    for sample in dataset:
        optimizer.zero_grad()
        loss = (model(sample) - 1).square().mean()
        loss.backward()
        optimizer.step()
    print("epoch", epoch, "loss", loss.item())
