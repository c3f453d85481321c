"""Attributes that a flow reads and sets are no boxes; the value that is kept is drawn as a way back."""

import torch
from torch import nn

import flodl
from flodl import FlowModule

TIMES = "\u00d7"


class Keeps(FlowModule):
    def __init__(self):
        super().__init__()
        self.cell = nn.Linear(4, 4)
        self.h = torch.zeros(2, 4)
        self.calls = 0
        self.last = None

    def flow(self, x):
        h = (x + self.h).through(self.cell).tanh()
        self.h = h.detach()
        self.last = h
        self.calls = self.calls + 1
        return h * 2


class Pair(FlowModule):
    def flow(self, x):
        a, b = x.chunk(2, -1)
        return a * b


def drawn(model, *inputs):
    model(*inputs)
    return flodl.view(model).mermaid().splitlines()


def boxes(lines):
    return [line.split('"')[1].partition("<br>")[0] for line in lines if '"' in line]


def links(lines):
    """Return the links with the titles of their ends."""
    names = {
        line.split('"')[0].strip(" ([{<"): line.split('"')[1] for line in lines if '"' in line
    }
    ends = [line.split() for line in lines if "-->" in line or "-." in line]
    return [
        (names[e[0]].partition("<br>")[0], " ".join(e[1:-1]), names[e[-1]].partition("<br>")[0])
        for e in ends
    ]


def test_attributes_that_are_read_or_set_are_no_boxes():
    found = boxes(drawn(Keeps(), torch.ones(2, 4)))
    assert found == ["x", "+", "Linear", "tanh", "detach", TIMES, "output"]


def test_value_that_is_kept_goes_back_to_its_reader():
    found = links(drawn(Keeps(), torch.ones(2, 4)))
    assert ("detach", "-. state .->", "+") in found
    assert [each for each in found if each[1] != "-->"] == [("detach", "-. state .->", "+")]


def test_links_of_visible_steps_do_not_lead_through_hidden_ones():
    found = links(drawn(Keeps(), torch.ones(2, 4)))
    assert ("x", "-->", "+") in found
    assert ("tanh", "-->", TIMES) in found
    assert ("tanh", "-->", "detach") in found
    assert len([each for each in found if each[1] == "-->"]) == 6


def test_parts_of_a_tuple_stay_visible():
    assert "chunk" in boxes(drawn(Pair(), torch.ones(2, 4)))


def test_picture_with_a_state_has_the_way_back():
    model = Keeps()
    model(torch.ones(2, 4))
    text = flodl.view(model).svg()
    assert text.count("<title>state h, for the next call</title>") == 1
    assert "calls" not in text
