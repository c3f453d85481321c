# expected: FDL406 FDL406
# A closure whose result is used.
import torch

torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
x, y = torch.randn(6, 4), torch.randn(6, 2)
optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
for step in range(3):
    def closure():
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        return loss

    loss = optimizer.step(closure)
    print(loss.item())
