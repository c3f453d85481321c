"""Actor and critic: distributions, replayed memory on the object, running statistics, numpy inputs."""

import collections
import random

import numpy as np
import torch
from torch import nn


class RunningMeanStd(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("count", torch.tensor(1e-4))

    def update(self, x):
        total = self.count + x.shape[0]
        self.mean = self.mean + (x.mean(0) - self.mean) * x.shape[0] / total
        self.count = total

    def forward(self, x):
        if self.training:
            self.update(x.detach())
        return x - self.mean


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rms = RunningMeanStd()
        self.actor = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
        self.critic = nn.Linear(4, 1)
        self.log_std = nn.Parameter(torch.zeros(2))
        self.memory = collections.deque(maxlen=3)
        self.saved_log_probs, self.epsilon = [], 0.5

    def get_value(self, x):
        return self.critic(x)

    def forward(self, obs, action=None, deterministic=False):
        if not isinstance(obs, torch.Tensor):
            obs = torch.as_tensor(obs, dtype=torch.float32)
        x = self.rms(obs)
        mean = self.actor(x)
        dist = torch.distributions.Normal(mean, self.log_std.exp().expand_as(mean))
        if action is None:
            if deterministic or random.random() > self.epsilon:
                action = dist.mean
            else:
                action = dist.rsample()
        log_prob = dist.log_prob(action).sum(1)
        self.memory.append(action.detach())
        self.saved_log_probs.append(log_prob.detach().mean().item())
        if len(self.saved_log_probs) > 4:
            del self.saved_log_probs[:]
        old = torch.stack([m.mean() for m in self.memory]).mean()
        return action, log_prob, dist.entropy().sum(1), self.get_value(x), old, len(self.memory)


def inputs(rows):
    random.seed(rows)
    return (torch.randn(rows, 4),), {}


def second_inputs(rows):
    random.seed(rows)
    return (np.ones((rows, 4)),), {"deterministic": True}


CHANGES = {"epsilon": lambda net: setattr(net, "epsilon", 1.0), "memory": lambda net: net.memory.clear(),
           "std": lambda net: net.log_std.data.fill_(-1.0)}
