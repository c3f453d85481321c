import torch
import torch.nn as nn
from flodl import Cat as FlodlCat, FlowModule, call as flodl_call


def call(x):
    return x


class Cat(FlowModule):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)

    def flow(self, x, n=2):
        x = x.split(self.a, self.b).merge(FlodlCat(dim=1))
        return flodl_call(self.a, self.a.weight) + x[:n].sum()


def check():
    torch.manual_seed(1)
    return Cat()(torch.ones(1, 4))
