# expected: setup builder
# Names that wander: set after a step and read in the next turn, deleted, read much later; names the tool likes.
import torch
import torch.nn as nn

torch.manual_seed(0)
train_step = 3
metrics = {"epochs": 0}


def main(batch):
    model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.2), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    previous = None
    for epoch in range(2, 5):
        seen = []
        for number, (x, y) in enumerate([(torch.randn(4, 3), torch.randn(4, 1)) for _ in range(train_step)]):
            hidden = model(x)
            penalty = 0 if previous is None else (hidden - previous).square().mean()
            squares = [v for v in (hidden - y).square().unbind()]
            loss = torch.stack(squares).mean() + 0.1 * penalty
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            previous = hidden.detach()
            if loss.item() > 1:
                large = (epoch, number)
            seen.append(loss.item())
            training = len(seen) / batch
            del hidden, squares
        metrics["epochs"] += 1
        average = sum(seen) / len(seen)
        print(epoch, number, average, metrics, training)
    print(previous.sum().item(), x.sum().item())
    return average


print(main(3))
