# expected: setup builder
# Evaluation and checkpoints after every epoch, with random numbers of their own.
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.manual_seed(0)
data = TensorDataset(torch.randn(30, 4), torch.randint(0, 2, (30,)))
train_set, val_set = random_split(data, [20, 10])
train_loader = DataLoader(train_set, batch_size=5, shuffle=True, drop_last=True)
val_loader = DataLoader(val_set, batch_size=5, shuffle=True)
model = nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.5), nn.ReLU(), nn.Linear(6, 2))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [1, 2])


def evaluate(loader):
    model.eval()
    with torch.no_grad():
        found = [(model(x).argmax(1) == y).float().mean().item() for x, y in loader]
    model.train()
    return sum(found) / len(found)


saved = {}
for epoch in range(1, 4):
    model.train()
    for step, (x, y) in enumerate(train_loader, start=1):
        optimizer.zero_grad(set_to_none=True)
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        if step % 2 == 0:
            print(f"epoch {epoch} step {step} loss {loss.item():.6f} lr {scheduler.get_last_lr()}")
    accuracy = evaluate(val_loader)
    scheduler.step()
    saved[epoch] = {k: v.clone() for k, v in model.state_dict().items()}
    print(epoch, accuracy)
print(len(saved), step)
