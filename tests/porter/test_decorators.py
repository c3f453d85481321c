"""Decorators of a forward run around the flow, as they ran around the forward."""

import json
import textwrap

import pytest

from fdl_cli.app import main

SCRIPT = """
import functools
import torch
from torch import nn


def renamed(old, new):
    def decorate(forward):
        @functools.wraps(forward)
        def wrapper(self, *args, **kwargs):
            kwargs = {new if name == old else name: value for name, value in kwargs.items()}
            return forward(self, *args, **kwargs)
        return wrapper
    return decorate


def counted(forward):
    @functools.wraps(forward)
    def wrapper(self, *args, **kwargs):
        self.calls += 1
        return forward(self, *args, **kwargs) * self.calls
    return wrapper


class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.calls = 0

    @renamed(
        "factor", new="mask"  # the old name
    )
    @counted
    def forward(self, x, mask=None):
        y = self.a(x)
        y = torch.relu(y)
        if mask is not None:
            y = y * mask
        return y


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = Part()
        self.last = nn.Linear(4, 2)

    def forward(self, x):
        y = self.part(x, factor=x)
        y = self.part(y)
        return self.last(y)
"""
FLOW = """
    @on_forward(renamed(
        "factor", new="mask"  # the old name
    ))
    @on_forward(counted)
    def flow(self, x, mask=None):
        y = x.through(self.a).through(torch.relu)
        return y * mask if mask is not None else y
"""


def decorated(porter, *decorators, name="forward"):
    lines = "\n".join(f"@{each}" for each in decorators)
    return porter.around(f"{lines}\ndef {name}(self, x):\n    return self.b(self.a(x))\n")


def test_each_stands_around_the_forward(porter):
    text = porter.text(SCRIPT)
    assert FLOW in text
    assert "from flodl import FlowModule, on_forward\n" in text
    assert "x.through(self.part, factor=x).through(self.part).through(self.last)" in text


@pytest.mark.slow
@pytest.mark.torch
def test_the_port_is_proved_equal(tmp_path, capsys):
    (tmp_path / "net.py").write_text(SCRIPT, encoding="utf-8")
    main(["port", str(tmp_path / "net.py"), "-o", str(tmp_path / "port.py"), "--json"])
    (report,) = json.loads(capsys.readouterr().out)["data"]["files"]
    found = {
        item["name"]: (item["status"], item["verify"]["status"]) for item in report["classes"]
    }
    assert found == {"Part": ("graph", "equal"), "Net": ("graph", "equal")}


def test_what_stands_above_a_foreign_one_stays_above_it(porter):
    flow = porter.flow_of(
        porter.text(decorated(porter, "torch.no_grad()", "traced", "torch.no_grad()"))
    )
    assert flow.startswith(
        "@on_forward(torch.no_grad())\n@on_forward(traced)\n@torch.no_grad()\ndef flow(self, x):\n"
    )
    alone = porter.flow_of(porter.text(decorated(porter, "torch.no_grad()")))
    assert alone.startswith("@torch.no_grad()\ndef flow(self, x):\n")


@pytest.mark.parametrize(
    "decorators",
    [
        ("functools.singledispatchmethod",), ("torch.jit.script_if_tracing",), ("staticmethod", "traced"),
        ("torch.jit.unused", "traced"), ("traced", "contextlib.contextmanager"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_what_makes_no_wrapped_method_is_refused(porter, decorators):
    text = "import contextlib\nimport functools\n" + decorated(porter, *decorators)
    assert {reason.code for reason in porter.reasons(text)} <= {"FDL315", "FDL201", "FDL207"}
    assert porter.text(text) == text


def test_a_forward_that_calls_the_decorated_one_above_is_kept(porter):
    below = textwrap.dedent(
        """

        class Below(Part):
            def forward(self, x):
                return super().forward(x) + 1


        class Same(Part):
            pass
        """
    )
    made = porter.draft(SCRIPT + below)
    found = {
        item.name: (item.status, [each.code for each in item.reasons])
        for item in made.plan.classes
    }
    assert found["Below"] == ("kept", ["FDL314"])
    assert found["Same"] == ("graph", [])
    assert "return super().forward(x) + 1" in made.text


def test_a_name_of_the_file_is_not_taken(porter):
    text = porter.text(
        decorated(porter, "traced").replace("import torch\n", "import torch\non_forward = 1\n", 1)
    )
    assert "on_forward as flodl_on_forward" in text
    assert "@flodl_on_forward(traced)" in text
