# expected: setup builder
# Cross-validation: a model and an optimizer for every fold.
import torch
import torch.nn as nn

torch.manual_seed(0)
x, y = torch.randn(24, 3), torch.randn(24, 1)
scores = []
for fold in range(3):
    keep = torch.arange(24) % 3 != fold
    model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.1), nn.ReLU(), nn.Linear(4, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for epoch in range(2):
        model.train()
        for xb, yb in zip(x[keep].split(4), y[keep].split(4)):
            loss = nn.functional.mse_loss(model(xb), yb)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    model.eval()
    scores.append(nn.functional.mse_loss(model(x[~keep]), y[~keep]).item())
    print(fold, scores[-1], loss.item())
