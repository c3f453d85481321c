"""One of two Gloo processes: trains a flow and its hand-written twin under DDP and compares them."""

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.flodl.test_compatibility import assert_same, tensors
from tests.flodl.twins import PAIRS


def train(module, inputs, rank: int):
    replica = DistributedDataParallel(module, find_unused_parameters=True)
    optimizer = torch.optim.SGD(replica.parameters(), lr=0.1)
    losses = []
    for step in range(3):
        torch.manual_seed(100 * step + rank)
        optimizer.zero_grad()
        loss = sum(each.float().pow(2).mean() for each in tensors(replica(*inputs)))
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


def main(rank: int, store: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    for pair in PAIRS:
        if pair.name == "in-place":
            continue  # DDP broadcasts the buffer that it writes to, for the twin as well
        results = []
        for make in (pair.flow, pair.twin):
            torch.manual_seed(0)
            module = make()
            torch.manual_seed(10 + rank)
            losses = train(module, pair.inputs(), rank)
            results.append([*losses, *module.parameters(), *module.buffers()])
        assert_same(*results)
        gathered = [torch.zeros(()), torch.zeros(())]
        total = sum(p.detach().double().sum() for p in module.parameters()).float()
        dist.all_gather(gathered, total)
        assert gathered[0] == gathered[1], pair.name
        sys.stdout.write(f"{pair.name} equal\n")
    dist.barrier()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
    # Gloo's threads race with the interpreter's teardown and at times abort a process that is done
    # (https://github.com/pytorch/pytorch/pull/179291): the comparison has ended, so leave at once.
    sys.stdout.flush()
    os._exit(0)
