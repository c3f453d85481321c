# expected: setup builder
# Minibatches by a permutation that is drawn for every epoch.
import torch
import torch.nn as nn

torch.manual_seed(0)
X, Y = torch.randn(21, 3), torch.randn(21, 1)
net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
loss_func = nn.MSELoss()
batch_size = 5
for epoch in range(3):
    permutation = torch.randperm(X.size()[0])
    loss_sum = 0
    for i in range(0, X.size()[0], batch_size):
        optimizer.zero_grad()
        indices = permutation[i:i+batch_size]
        batch_x, batch_y = X[indices], Y[indices]
        loss = loss_func(net(batch_x), batch_y)
        loss.backward()
        optimizer.step()
        loss_sum += loss.detach()
    print('epoch', epoch, 'loss', loss_sum.item(), permutation[:3].tolist())
