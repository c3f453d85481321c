# expected: setup builder
# A progress bar around the loader, told about every loss.
import torch
import torch.nn as nn


class tqdm:
    def __init__(self, items, desc=""):
        self.items, self.desc = items, desc

    def __iter__(self):
        return iter(self.items)

    def set_postfix(self, **values):
        print(self.desc, values)


torch.manual_seed(0)
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
train_loader = torch.utils.data.DataLoader(torch.randn(12, 3), batch_size=4, shuffle=True)


def main(epochs):
    for epoch in range(epochs):
        losses = []
        loop = tqdm(train_loader, desc=f"epoch {epoch}")
        for batch_idx, data in enumerate(loop):
            scores = model(data)
            loss = scores.square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            loop.set_postfix(loss=loss.item(), batch=batch_idx)
        print(sum(losses) / len(losses), batch_idx)
    print(epoch)


if __name__ == "__main__":
    main(3)
