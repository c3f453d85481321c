"""Patterns: settings, sizes, captured names, guards, containers and the values of tensors."""

from dataclasses import dataclass

import torch
from torch import nn
from flodl import Flow, FlowModule, call


@dataclass
class Settings:
    kind: str = "wide"
    factor: int = 3


class Net(FlowModule):
    def __init__(self, mode: str = "add", settings: Settings | None = None) -> None:
        super().__init__()
        self.mode = mode
        self.settings = settings or Settings()
        self.up = nn.Linear(4, 8)
        self.down = nn.Linear(8, 4)

    def flow(self, x: Flow, how: str | None = None) -> Flow:
        match x.ndim, self.training:
            case 2, True:
                h = x.through(self.up).through(torch.relu)
            case 2, _:
                h = x.through(self.up)
            case n, _ if call(bool, n > 2):  # flattened
                h = x.through(self.up).flatten(1, -2).mean(1)
        match self.settings:
            case Settings(kind="wide", factor=factor):
                h = h * factor
            case Settings():
                h = h + 1
        match {"value": h, "times": 2}:
            case {"value": taken, **rest}:
                h = taken * rest["times"]
        match [h, x.mean()]:
            case [first, *others]:
                h = first + sum(others)
        match how:
            case None:
                y = call(self.down, h)
            case "twice" | "double":
                y = call(self.down, h) * 2
            case _:
                raise ValueError(how)
        match (y.sum() > 0).through(bool):
            case True:
                return y
        match self.mode:
            case "add":
                y = y + call(self.down, h)
            case "mul":
                y = y * call(self.down, h)
        return y


def check():
    nets = [Net(), Net("mul", Settings("narrow"))]
    found = [net(torch.ones(2, 4)) for net in nets]
    found += [net(torch.ones(2, 3, 4), "twice") for net in nets]
    return found + [net.eval()(torch.ones(2, 4)) for net in nets]
