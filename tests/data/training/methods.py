# expected: setup builder
# A class that holds everything; its loop is a method.
import torch
import torch.nn as nn


class Experiment:
    def __init__(self, epochs):
        self.epochs = epochs
        self.model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.05)
        self.scheduler = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, 0.9)
        self.loader = torch.utils.data.DataLoader(torch.randn(16, 3), batch_size=4, shuffle=True)
        self.losses = []
        self.__best = float("inf")

    def criterion(self, out):
        return (out - 1).abs().mean()

    def train(self):
        self.model.train()
        for epoch in range(self.epochs):
            epoch_loss = 0.0
            for x in self.loader:
                self.optimizer.zero_grad()
                loss = self.criterion(self.model(x))
                loss.backward()
                self.optimizer.step()
                epoch_loss += loss.item()
            self.scheduler.step()
            self.losses.append(epoch_loss)
            self.__best = min(self.__best, epoch_loss)
            print(epoch, epoch_loss, self.__best)


torch.manual_seed(0)
Experiment(3).train()
