# expected: setup builder
# yunjey's ResNet: the rate is changed by hand at the end of epochs.
import torch
import torch.nn as nn

torch.manual_seed(0)
train_loader = [(torch.randn(4, 3, 6, 6), torch.randint(0, 4, (4,))) for _ in range(3)]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(3)

    def forward(self, x):
        residual = x
        out = self.bn(self.conv(x))
        out += residual
        return torch.relu(out)


model = nn.Sequential(Block(), Block(), nn.Flatten(), nn.Linear(108, 4))
criterion = nn.CrossEntropyLoss()
learning_rate = 0.01
optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)


# For updating learning rate
def update_lr(optimizer, lr):
    for param_group in optimizer.param_groups:
        param_group['lr'] = lr


total_step = len(train_loader)
curr_lr = learning_rate
for epoch in range(4):
    for i, (images, labels) in enumerate(train_loader):
        outputs = model(images)
        loss = criterion(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("Epoch [{}], Step [{}/{}] Loss: {:.4f}".format(epoch+1, i+1, total_step, loss.item()))

    # Decay learning rate
    if (epoch+1) % 2 == 0:
        curr_lr /= 3
        update_lr(optimizer, curr_lr)
print(curr_lr)
