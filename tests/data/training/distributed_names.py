# expected: setup FDL428
# A script that could run in several processes; here it is one.
import os
import torch
import torch.distributed as dist
import torch.nn as nn

torch.manual_seed(0)
model = nn.Linear(3, 1)
if int(os.environ.get("WORLD_SIZE", 1)) > 1:
    dist.init_process_group("gloo")
    model = nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(5, 4, 3):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    print(loss.item())
