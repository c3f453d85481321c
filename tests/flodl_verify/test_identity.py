"""Tables by identity, and the classes of modules that need them."""

import gc

import pytest
from torch import nn

from flodl_verify.inputs.recorder import Recorder
from flodl_verify.inputs.rules.layer_shapes import has_forward
from flodl_verify.values.identity import IdentityTable


class Metric(nn.Module):
    """As those of torchmetrics: its hash reads what its constructor sets later, and all are equal."""

    def __init__(self):
        super().__init__()
        self.classes = 3

    def __hash__(self):
        return hash(self.classes)

    def __eq__(self, other):
        return True

    def forward(self, x):
        return x


def test_table_tells_equal_objects_apart():
    table = IdentityTable()
    one, other = Metric(), Metric()
    table[one] = "one"
    assert one in table
    assert other not in table
    assert (table.get(one), table.get(other)) == ("one", None)


def test_entry_ends_with_its_object():
    table = IdentityTable()
    for _ in range(50):
        table[Metric()] = 1
    gc.collect()
    assert len(table) == 0


def test_recorder_takes_a_module_with_its_own_hash():
    recorder = Recorder(lambda module: module == __name__, origin="here", keep_live=False)
    with recorder.watching():
        Metric()(1)
    assert [case.construction.qualname for case in recorder.cases["Metric"]] == ["Metric"]


class HandsOn(nn.Module):
    def forward(self, *args):
        return super().forward(*args)


class Below(HandsOn):
    pass


class Real(HandsOn):
    def forward(self, x):
        return x


class Abstract(nn.Module):
    def forward(self, x):
        raise NotImplementedError


class Wraps(nn.Linear):
    def forward(self, x):
        return super().forward(x)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [(HandsOn, False), (Below, False), (Real, True), (Abstract, False), (Wraps, True), (nn.Module, False)],
)  # fmt: skip
def test_has_forward_looks_behind_placeholders(kind, expected):
    assert has_forward(kind) is expected
