# expected: setup builder
# Mixed precision: autocast and a scaler of the script's own.
import torch
import torch.nn as nn

torch.manual_seed(0)
batches = [(torch.randn(8, 6), torch.randn(8, 2)) for _ in range(4)]
model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=3)

for epoch in range(3):
    for data, target in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            output = model(data)
            loss = nn.functional.mse_loss(output, target)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    print(epoch, loss.item(), scaler.get_scale())
