"""A proof holds for a class until it, or something that it reaches, is written another way."""

from pathlib import Path

from fdl_cli.porter.affected import affected_classes
from fdl_cli.porter.ir.findings import Reason
from fdl_cli.porter.project import Project

TEXT = """\
from torch import nn


class Block(nn.Module):
    def forward(self, x):
        return x * 2


class Loss(nn.Module):
    def forward(self, x):
        return x + 1


def make_layer(count):
    return nn.Sequential(*[Block() for _ in range(count)])


if True:
    TABLE = {"block": Block}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = make_layer(2)

    def forward(self, x):
        return self.layers(x)


class ByTable(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.layer = TABLE[kind]()

    def forward(self, x):
        return self.layer(x)


class Deeper(Net):
    def forward(self, x):
        return self.layers(x) - 1


class ByText(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = globals()["Block"]()

    def forward(self, x):
        return self.layer(x)
"""


def after_demotion(name):
    path = Path("/p/net.py")
    project = Project({path: TEXT.encode()})
    before = project.draft(path)
    project.demote(path, {name: Reason(line=4, code="FDL321", message="it differs")})
    return affected_classes(before, project.draft(path))


def test_affected_classes_reach_the_changed_one_by_any_name():
    assert after_demotion("Block") == {"Block", "Net", "ByTable", "Deeper", "ByText"}


def test_affected_classes_do_not_reach_those_that_hold_nothing_of_it():
    assert after_demotion("Loss") == {"Loss"}


def test_affected_classes_include_those_that_extend_it():
    assert after_demotion("Net") >= {"Net", "Deeper"}
    assert "Block" not in after_demotion("Net")
