# expected: setup builder
# A function that counts in names of the module.
import torch
import torch.nn as nn

torch.manual_seed(0)
net = nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
global_step = 0
history = {}


def report():
    print("step", global_step, history)


def train(epoch):
    global global_step
    for inputs in torch.randn(3, 4, 3):
        loss = net(inputs).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        global_step += 1
        history[epoch] = loss.item()
        report()
    return loss


for epoch in range(2):
    last = train(epoch)
print(last.item(), global_step)
