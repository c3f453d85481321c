# The ranks come from the environment, and a function trains the wrapped model.
import os

import torch
import torch.nn as nn
from torch.distributed import barrier, destroy_process_group, init_process_group
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def train(network, loader, order, epochs, rank):
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    criterion = nn.MSELoss()
    for number in range(epochs):
        order.set_epoch(number)
        for values, wanted in loader:
            loss = criterion(network(values), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        barrier()
        if rank == 0:
            print("epoch", number)
            torch.save(network.module.state_dict(), "weights.pt")


def main():
    local = int(os.environ["LOCAL_RANK"])
    rank = int(os.environ["RANK"])
    init_process_group("gloo", rank=rank)
    if torch.cuda.is_available():
        torch.cuda.set_device(local)
    torch.manual_seed(1)
    values = torch.randn(48, 4)
    data = TensorDataset(values, values.prod(1, keepdim=True))
    order = DistributedSampler(data, seed=5)
    loader = DataLoader(data, batch_size=4, sampler=order)
    wrapped = DistributedDataParallel(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)))
    train(wrapped, loader, order, 2, rank)
    destroy_process_group()


if __name__ == "__main__":
    main()
