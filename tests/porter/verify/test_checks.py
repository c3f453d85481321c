"""Each check sees the fault it is there for, where all others are blind to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.porter.verify.examining import ClassEvidence, examine_files, statuses

pytestmark = [pytest.mark.torch, pytest.mark.slow]

HEAD = """
import torch
from torch import nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
"""
LAYERS = """
        self.fc = nn.Linear(dim, dim)
        self.norm = nn.BatchNorm1d(dim)
"""
FORWARD = """
    def forward(self, x):
        return self.norm(self.fc(x))
"""
CALL = "Net(): torch.randn(3, 4)"

# check -> (layers, forward) of a port in which only this check can find anything
FAULTS = {
    "eval output": (
        LAYERS,
        FORWARD.replace("return", "y =")
        + "        return y if self.training else y * 2\n",
    ),
    "second batch size": (
        LAYERS,
        FORWARD.replace("return self.norm(self.fc(x))", "y = self.norm(self.fc(x))")
        + "        return y if len(x) == 3 else y * 2\n",
    ),
    "train output": (
        LAYERS,
        FORWARD.replace("return", "y =")
        + "        return y + 1 if self.training else y\n",
    ),
    "gradients": (
        LAYERS,
        FORWARD.replace("return", "y =")
        + "        return y + (y - y.detach()) if self.training else y\n",
    ),
    "state_dict": (LAYERS + "        self.fc.register_buffer('extra', torch.zeros(1))\n", FORWARD),
    "initial weights": (
        "        torch.rand(1)\n" + LAYERS,
        FORWARD,
    ),
    "buffers": (
        LAYERS,
        """
    def forward(self, x):
        y = self.norm(self.fc(x))
        if self.training:
            self.norm.num_batches_tracked += 1
        return y
""",
    ),
}  # fmt: skip


def compare(tmp_path: Path, original: str, port: str, call: str = CALL) -> ClassEvidence:
    first, second = tmp_path / "net.py", tmp_path / "ported" / "net.py"
    second.parent.mkdir()
    first.write_text(original, encoding="utf-8")
    second.write_text(port, encoding="utf-8")
    found = examine_files(first, second, ("Net",), workdir=tmp_path / "work", examples=(call,))
    return found["Net"]


@pytest.mark.parametrize("check", FAULTS)
def test_check_catches_its_fault(check: str, tmp_path: Path) -> None:
    layers, forward = FAULTS[check]
    found = compare(tmp_path, HEAD + LAYERS + FORWARD, HEAD + layers + forward)
    assert found["status"] == "different"
    assert statuses(found)[check] == "different", found["checks"]


def test_only_the_second_batch_size_sees_a_baked_batch_size(tmp_path: Path) -> None:
    layers, forward = FAULTS["second batch size"]
    found = statuses(compare(tmp_path, HEAD + LAYERS + FORWARD, HEAD + layers + forward))
    seven = {name for name, status in found.items() if status == "different"}
    assert seven <= {"second batch size", "gradients"}


def test_only_gradients_see_a_changed_backward(tmp_path: Path) -> None:
    layers, forward = FAULTS["gradients"]
    found = statuses(compare(tmp_path, HEAD + LAYERS + FORWARD, HEAD + layers + forward))
    assert found["eval output"] == "equal"
    assert found["train output"] == "equal"
    assert found["buffers"] == "equal"
    assert found["training steps"] == "different"


def test_an_identical_file_is_equal_in_every_check(tmp_path: Path) -> None:
    found = compare(tmp_path, HEAD + LAYERS + FORWARD, HEAD + LAYERS + FORWARD)
    assert found["status"] == "equal"
    assert set(statuses(found).values()) == {"equal"}
    assert "state_dict" in statuses(found)


def test_a_plan_that_goes_wrong_at_the_third_call_is_seen(tmp_path: Path) -> None:
    forward = """
    calls = 0

    def forward(self, x):
        self.calls += 1
        y = self.norm(self.fc(x))
        return y if self.calls < 3 else y + 1
"""
    found = compare(tmp_path, HEAD + LAYERS + FORWARD, HEAD + LAYERS + forward)
    assert statuses(found)["eval output"] == "different"


def test_state_kept_on_the_module_is_compared(tmp_path: Path) -> None:
    keeps = FORWARD.replace("return", "self.last = self.fc(x)\n        return")
    loses = FORWARD.replace("return", "self.last = self.fc(x) * 2\n        return")
    found = compare(tmp_path, HEAD + LAYERS + keeps, HEAD + LAYERS + loses)
    assert found["status"] == "different"
    assert "last" in found["detail"]


def test_rounding_is_close_and_never_equal(tmp_path: Path) -> None:
    twice = (
        "\n    def forward(self, x):\n        y = self.fc(x)\n        return y * 0.1 + y * 0.2\n"
    )
    once = "\n    def forward(self, x):\n        y = self.fc(x)\n        return y * 0.3\n"
    found = compare(tmp_path, HEAD + LAYERS + twice, HEAD + LAYERS + once)
    assert found["status"] == "close"
    assert found["error_code"] == "rounding-differs"


def test_a_port_that_raises_is_different_with_its_line(tmp_path: Path) -> None:
    forward = FORWARD.replace("return", "raise KeyError('gone')\n        return")
    port = HEAD + LAYERS + forward
    found = compare(tmp_path, HEAD + LAYERS + FORWARD, port)
    assert found["status"] == "different"
    assert found["error_code"] == "port-raises"
    assert port.splitlines()[found["line"] - 1].strip() == "raise KeyError('gone')"


def test_a_port_that_does_not_import_is_different(tmp_path: Path) -> None:
    found = compare(tmp_path, HEAD + LAYERS + FORWARD, "import no_such_module_here\n")
    assert found["status"] == "different"
    assert found["error_code"] == "port-import-fails"
    assert found["line"] == 1


def test_a_port_without_the_class_is_different(tmp_path: Path) -> None:
    found = compare(tmp_path, HEAD + LAYERS + FORWARD, "import torch\n")
    assert found["error_code"] == "missing-in-port"
    assert found["status"] == "different"


def test_a_broken_example_is_the_users_to_know(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="fails in the original"):
        compare(tmp_path, HEAD + LAYERS + FORWARD, HEAD + LAYERS + FORWARD, "Net(): torch.ones(5)")


@pytest.mark.parametrize(
    ("forward", "code"),
    [
        ("return torch.rand_like(x) if id(object()) else x", "equal"),
        (
            "import os\n        return x * int.from_bytes(os.urandom(3), 'big')",
            "not-deterministic",
        ),
        ("return 3", "no-tensor-output"),
        ("return x * float('nan')", "nan-output"),
    ],
)
def test_an_original_that_cannot_be_compared_is_not_run(
    forward: str, code: str, tmp_path: Path
) -> None:
    text = HEAD + LAYERS + f"\n    def forward(self, x):\n        {forward}\n"
    found = compare(tmp_path, text, text)
    assert (found["error_code"] or found["status"]) == code


def test_divergence_names_operation_and_both_lines(tmp_path: Path) -> None:
    original = HEAD + LAYERS + "\n    def forward(self, x):\n        return F.silu(self.fc(x))\n"
    port = original.replace("F.silu", "F.gelu")
    found = compare(tmp_path, original, port)
    assert "aten.gelu" in found["detail"]
    assert "aten.silu" in found["detail"]
    assert "gelu" in port.splitlines()[found["line"] - 1]


def test_siblings_are_imported_once_per_side(tmp_path: Path) -> None:
    (tmp_path / "blocks.py").write_text(
        "from torch import nn\nCOUNT = []\n\nclass Block(nn.Linear):\n    pass\n", encoding="utf-8"
    )
    text = (
        "import torch\nfrom torch import nn\nimport blocks\nblocks.COUNT.append(1)\n\n\n"
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.block = blocks.Block(4, 4)\n\n"
        "    def forward(self, x):\n        return self.block(x) * len(blocks.COUNT)\n"
    )
    found = compare(tmp_path, text, text)
    # A shared module would have counted two on the port's side.
    assert found["status"] == "equal", found["detail"]


HELPER = """
    def encode(self, x, scale=1.0):
        return self.fc(x) * scale

    def forward(self, x):
        return self.norm(self.encode(x, scale=0.5))
"""


def test_methods_are_called_from_outside_too(tmp_path: Path) -> None:
    # Inside forward the port's method does the same; called by itself it does not.
    port = HELPER.replace("return self.fc(x) * scale", "return self.fc(x) * (scale * self.inside)")
    port = port.replace(
        "return self.norm(self.encode(x, scale=0.5))",
        "self.inside = 1.0\n"
        "        y = self.norm(self.encode(x, scale=0.5))\n"
        "        del self.inside\n        return y",
    )
    layers = LAYERS + "        self.__class__.inside = 2.0\n"
    found = compare(tmp_path, HEAD + LAYERS + HELPER, HEAD + layers + port)
    checks = statuses(found)
    assert checks.pop("methods") == "different"
    assert set(checks.values()) == {"equal"}, found["checks"]
    assert "`encode` called from outside" in found["detail"]


def test_methods_that_are_alike_are_equal(tmp_path: Path) -> None:
    found = compare(tmp_path, HEAD + LAYERS + HELPER, HEAD + LAYERS + HELPER)
    assert statuses(found)["methods"] == "equal"


SHARED = """
import torch
from torch import nn

class Grid(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        columns, _ = torch.meshgrid(torch.arange(width), torch.arange(width), indexing="xy")
        self.register_buffer("columns", columns)

    def forward(self, x):
        return x * self.columns
"""


def test_a_state_that_the_original_cannot_load_is_not_asked_of_the_port(tmp_path: Path) -> None:
    files = []
    for side in ("original", "ported"):
        (tmp_path / side).mkdir()
        files.append(tmp_path / side / "net.py")
        files[-1].write_text(SHARED, encoding="utf-8")
    examples = ("Grid(): torch.randn(2, 4, 4)",)
    found = examine_files(*files, ("Grid",), examples=examples, workdir=tmp_path / "work")["Grid"]
    assert found["status"] == "equal", found["detail"]
