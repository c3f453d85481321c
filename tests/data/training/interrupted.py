# expected: setup FDL429
# Ctrl-C is caught around the training.
import torch
import torch.nn as nn

torch.manual_seed(0)
model = nn.Linear(3, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
try:
    for epoch in range(2):
        for x in torch.randn(5, 4, 3):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())
except KeyboardInterrupt:
    print('Exiting from training early')
