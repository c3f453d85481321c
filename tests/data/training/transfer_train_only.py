# expected: setup builder
# A function with everything in it: best weights kept, early scheduler, a return value.
import copy
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(24, 6), torch.randint(0, 2, (24,)))
loader = DataLoader(data, batch_size=8, shuffle=True)


def fit(model, criterion, optimizer, scheduler, num_epochs):
    best, best_loss = None, float('inf')
    history = []
    for epoch in range(num_epochs):
        model.train()
        total, seen = 0.0, 0
        for inputs, labels in loader:
            outputs = model(inputs)
            loss = criterion(outputs, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * inputs.size(0)
            seen += inputs.size(0)
        scheduler.step(total / seen)
        history.append(total / seen)
        if history[-1] < best_loss:
            best_loss, best = history[-1], copy.deepcopy(model.state_dict())
        print(epoch, history[-1], optimizer.param_groups[0]['lr'])
    model.load_state_dict(best)
    return history, epoch


net = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.1), nn.ReLU(), nn.Linear(8, 2))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, patience=0)
print(fit(net, nn.CrossEntropyLoss(), opt, plateau, 4))
