# expected: FDL402 FDL402
# jcjohnson: weights updated by hand, without an optimizer.
import torch

torch.manual_seed(0)
x, y = torch.randn(16, 10), torch.randn(16, 3)
model = torch.nn.Sequential(torch.nn.Linear(10, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
learning_rate = 1e-3
for t in range(10):
    loss = (model(x) - y).pow(2).sum()
    print(t, loss.item())
    model.zero_grad()
    loss.backward()
    with torch.no_grad():
        for param in model.parameters():
            param -= learning_rate * param.grad
