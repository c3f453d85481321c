# expected: setup builder
# The loop over batches is left after some steps.
import torch
import torch.nn as nn

torch.manual_seed(0)
model = nn.Linear(3, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(
    torch.utils.data.TensorDataset(torch.randn(30, 3), torch.randn(30, 1)), batch_size=3, shuffle=True)
steps = 0
for epoch in range(3):
    for x, y in loader:
        loss = nn.functional.l1_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        steps += 1
        if steps % 4 == 0: break
    print(epoch, steps, loss.item())
