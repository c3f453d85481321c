"""A teacher that is updated in the forward, as in BYOL and DINO."""

import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.student, self.teacher = nn.Linear(4, 4), nn.Linear(4, 4)
        for p in self.teacher.parameters():
            p.requires_grad = False
        self.momentum = 0.9
        self.register_buffer("center", torch.zeros(1, 4))
        self.register_buffer("queue", F.normalize(torch.randn(4, 8), dim=0))
        self.register_buffer("queue_ptr", torch.zeros(1, dtype=torch.long))

    @torch.no_grad()
    def _update_teacher(self):
        for s, t in zip(self.student.parameters(), self.teacher.parameters()):
            t.data.mul_(self.momentum).add_((1 - self.momentum) * s.detach().data)

    @torch.no_grad()
    def _dequeue_and_enqueue(self, keys):
        batch_size = keys.shape[0]
        ptr = int(self.queue_ptr)
        assert self.queue.shape[1] % batch_size == 0
        self.queue[:, ptr : ptr + batch_size] = keys.T
        self.queue_ptr[0] = (ptr + batch_size) % self.queue.shape[1]

    def forward(self, im_q, im_k=None):
        q = F.normalize(self.student(im_q), dim=1)
        im_k = im_q if im_k is None else im_k
        with torch.no_grad():
            self._update_teacher()
            idx = torch.randperm(im_k.size(0))
            k = F.normalize(self.teacher(im_k[idx]), dim=1)
            k = k[torch.argsort(idx)]
            self.center = self.center * 0.9 + k.mean(dim=0, keepdim=True) * 0.1
        logits = torch.einsum("nc,ck->nk", [q, self.queue.clone().detach()])
        pos = torch.einsum("nc,nc->n", [q, k - self.center]).unsqueeze(-1)
        logits = torch.cat([pos, logits], dim=1)
        self._dequeue_and_enqueue(k)
        return logits, torch.zeros(logits.shape[0], dtype=torch.long)


def inputs(rows):
    return (torch.randn(2 if rows < 4 else 4, 4),), {}


CHANGES = {"momentum": lambda net: setattr(net, "momentum", 0.0)}
