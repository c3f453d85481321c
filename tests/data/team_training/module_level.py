# Statements of the module, a schedule, a limit of the gradients, and no shuffling.
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import distributed
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data import DistributedSampler


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 12)
        self.second = nn.Linear(12, 3)

    def forward(self, x):
        return self.second(F.relu(self.first(x)))


distributed.init_process_group(backend="nccl" if torch.cuda.is_available() else "gloo")
me, everyone = distributed.get_rank(), distributed.get_world_size()
if torch.cuda.is_available():
    torch.cuda.set_device(me)
torch.manual_seed(3)
x = torch.randn(96, 6)
y = x[:, :3].argmax(1)
data = TensorDataset(x, y)
loader = DataLoader(data, batch_size=4, sampler=DistributedSampler(data, num_replicas=everyone, rank=me, shuffle=False))
net = Net()
net = nn.parallel.DistributedDataParallel(net, find_unused_parameters=False)
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
distributed.barrier()
for epoch in range(2):
    net.train()
    for images, labels in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(images), labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
    schedule.step()
    if me == 0:
        print("epoch", epoch, "rate", schedule.get_last_lr())
if me == 0:
    torch.save(net.module.state_dict(), "weights.pt")
distributed.destroy_process_group()
