# expected: setup builder
# Early stopping: the loop over epochs ends by itself, and stays where it is.
import torch
import torch.nn as nn

torch.manual_seed(0)
x, y = torch.randn(20, 3), torch.randn(20, 1)
model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
best, waited = float("inf"), 0
for epoch in range(30):
    total = 0.0
    for i in range(0, 20, 5):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x[i:i + 5]), y[i:i + 5])
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(epoch, total, i)
    if total < best - 1e-2:
        best, waited = total, 0
    else:
        waited += 1
        if waited == 2:
            break
print(best)
