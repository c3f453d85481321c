# expected: setup builder
# Meters and clocks; a text log; the loader made anew for every epoch; the last batch looked at.
import time
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class AverageMeter(object):
    def __init__(self):
        self.reset()

    def reset(self):
        self.sum, self.count = 0, 0

    def update(self, val, n=1):
        self.sum += val * n
        self.count += n

    @property
    def avg(self):
        return self.sum / self.count


def accuracy(output, target):
    return (output.argmax(1) == target).float().mean().item()


def run(net, data, lr):
    optim = torch.optim.SGD(net.parameters(), lr, momentum=0.9, nesterov=True)
    losses, top1 = AverageMeter(), AverageMeter()
    log = []
    for epoch in range(3):
        losses.reset()
        top1.reset()
        end = time.time()
        train_loader = DataLoader(data, batch_size=4 + epoch, shuffle=True)
        for i, (input, target) in enumerate(train_loader):
            output = net(input)
            loss = nn.functional.cross_entropy(output, target, label_smoothing=0.1)

            # measure accuracy and record loss
            prec1 = accuracy(output, target)
            losses.update(loss.item(), input.size(0))
            top1.update(prec1, input.size(0))

            # compute gradient and do SGD step
            optim.zero_grad()
            loss.backward()
            optim.step()

            elapsed = time.time() - end
            end = time.time()
            if i % 2 == 0 and elapsed >= 0:
                print('Epoch: [{0}][{1}/{2}] Loss {3:.4f} ({4:.4f}) Prec@1 {5:.3f}'.format(
                    epoch, i, len(train_loader), losses.avg, loss.item(), top1.avg))
        for group in optim.param_groups:
            group['lr'] = lr * (0.1 ** (epoch // 2))
        log.append((epoch, losses.avg, len(output)))
    return log, output.shape


torch.manual_seed(5)
net = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
print(run(net, TensorDataset(torch.randn(28, 6), torch.randint(0, 3, (28,))), 0.1))
