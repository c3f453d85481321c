# expected: setup FDL421
# nanoGPT: `while True`, rates set by hand, micro steps, a scaler, clipping, an estimate now and then.
import math
from contextlib import nullcontext
import torch
import torch.nn as nn
from torch.nn import functional as F

torch.manual_seed(1337)
gradient_accumulation_steps, batch_size, block_size = 2, 3, 6
learning_rate, max_iters, warmup_iters, lr_decay_iters, min_lr, grad_clip = 1e-2, 8, 2, 8, 1e-3, 1.0
data = torch.randint(0, 17, (200,))
ctx = nullcontext()


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(17, 8)
        self.h = nn.Linear(8, 8)
        self.lm_head = nn.Linear(8, 17, bias=False)

    def forward(self, idx, targets=None):
        x = self.wte(idx)
        x = x + F.gelu(self.h(x))
        logits = self.lm_head(x)
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))
        return logits, loss


def get_batch(split):
    ix = torch.randint(len(data) - block_size, (batch_size,))
    x = torch.stack([data[i:i+block_size] for i in ix])
    y = torch.stack([data[i+1:i+1+block_size] for i in ix])
    return x, y


def get_lr(it):
    if it < warmup_iters:
        return learning_rate * it / warmup_iters
    decay_ratio = (it - warmup_iters) / (lr_decay_iters - warmup_iters)
    return min_lr + 0.5 * (1.0 + math.cos(math.pi * decay_ratio)) * (learning_rate - min_lr)


model = GPT()
scaler = torch.amp.GradScaler('cpu', enabled=False)
optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=(0.9, 0.95))


@torch.no_grad()
def estimate_loss():
    model.eval()
    losses = torch.zeros(2)
    for k in range(2):
        X, Y = get_batch('val')
        losses[k] = model(X, Y)[1].item()
    model.train()
    return losses.mean()


X, Y = get_batch('train')
iter_num = 0
while True:
    lr = get_lr(iter_num)
    for param_group in optimizer.param_groups:
        param_group['lr'] = lr
    if iter_num % 4 == 0:
        print(f"step {iter_num}: val loss {estimate_loss():.4f}")
    for micro_step in range(gradient_accumulation_steps):
        with ctx:
            logits, loss = model(X, Y)
            loss = loss / gradient_accumulation_steps
        X, Y = get_batch('train')
        scaler.scale(loss).backward()
    if grad_clip != 0.0:
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), grad_clip)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    print(f"iter {iter_num}: loss {loss.item() * gradient_accumulation_steps:.4f}")
    iter_num += 1
    if iter_num > max_iters:
        break
