# expected: setup FDL427
# What a function knows is asked for afterwards.
import torch
import torch.nn as nn


def main():
    torch.manual_seed(0)
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in torch.randn(5, 4, 3):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        last = loss.item()
    print("last" in locals(), last)


main()
