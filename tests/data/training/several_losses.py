# expected: setup FDL425
# Two losses with a backward pass each, one update.
import torch
import torch.nn as nn

torch.manual_seed(0)
loader = [(torch.randn(4, 5), torch.randint(0, 3, (4,)), torch.randn(4, 1)) for _ in range(5)]


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(5, 6)
        self.classes = nn.Linear(6, 3)
        self.value = nn.Linear(6, 1)

    def forward(self, x):
        h = torch.relu(self.body(x))
        return self.classes(h), self.value(h)


model = TwoHeads()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(2):
    for x, label, value in loader:
        logits, estimate = model(x)
        loss1 = nn.functional.cross_entropy(logits, label)
        loss2 = nn.functional.mse_loss(estimate, value)
        optimizer.zero_grad()
        loss1.backward(retain_graph=True)
        loss2.backward()
        optimizer.step()
        print(loss1.item(), loss2.item())
