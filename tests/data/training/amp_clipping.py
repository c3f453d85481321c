# expected: setup builder
# Mixed precision with gradients that are unscaled and clipped.
import torch
import torch.nn as nn
from torch.amp import GradScaler, autocast

torch.manual_seed(0)
batches = [(torch.randn(8, 6), torch.randn(8, 2)) for _ in range(4)]
max_norm = 0.5


def train(model, optimizer, scaler, epochs):
    for epoch in range(epochs):
        for data, target in batches:
            optimizer.zero_grad()
            with autocast("cpu", dtype=torch.bfloat16):
                output = model(data)
                loss = nn.functional.mse_loss(output.float(), target)
            # Scales loss. Calls backward() on scaled loss to create scaled gradients.
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
            # skips the step if there are infs
            scaler.step(optimizer)
            # Updates the scale for next iteration.
            scaler.update()
        print(epoch, loss.item(), scaler.get_scale())


net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2))
opt = torch.optim.AdamW(net.parameters(), lr=0.1)
train(net, opt, GradScaler("cpu", init_scale=65536.0, growth_interval=2), 3)
