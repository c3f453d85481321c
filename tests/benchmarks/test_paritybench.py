"""The parity benchmark on a made-up corpus: what it must find right, wrong, unusable and kept."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.parity import shape
from benchmarks.parity.corpus import part_of

ROOT = Path(__file__).parents[2]
HEAD = """\
import sys
_module = sys.modules[__name__]
del sys
net = _module
from _paritybench_helpers import _mock_config, patch_functional
from unittest.mock import mock_open, MagicMock
import matplotlib, pandas, torch
import torch.nn as nn
patch_functional()
open = mock_open()
yaml = logging = sys = argparse = MagicMock()
_global_config = args = cfg = config = params = _mock_config()


"""
CLASSES = """\
LAST = None


class Chain(nn.Module):
    def __init__(self, inplanes, planes):
        super(Chain, self).__init__()
        self.conv = nn.Conv2d(inplanes, planes, 3, padding=1)  # the only one
        self.bn = nn.BatchNorm2d(planes)

    def forward(self, x):
        residual = x
        out = self.conv(x)
        out = self.bn(out)
        out += residual
        return out


class Fixed(nn.Module):
    def __init__(self, act):
        super().__init__()
        self.act, self.deep = act, True

    def forward(self, x):
        if x.size(0) > 100:
            return x
        return self.act(x)


class Global(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(3))

    def forward(self, x):
        global LAST
        self.last = LAST = x
        return self.last * self.w


class Broken(nn.Module):
    def forward(self, x):
        return x.no_such_thing()


class Noisy(nn.Module):
    count = 0

    def forward(self, x):
        Noisy.count += 1
        return x + Noisy.count
"""
TAIL = """

import torch
from torch.nn import MSELoss, ReLU
from _paritybench_helpers import _mock_config, _mock_layer, _paritybench_base, _fails_compile


TESTCASES = [
    # (nn.Module, init_args, forward_args, jit_compiles)
    (Chain,
     lambda: ([], {'inplanes': 4, 'planes': 4}),
     lambda: ([torch.rand([4, 4, 4, 4])], {}),
     True),
    (Fixed,
     lambda: ([], {'act': _mock_layer()}),
     lambda: ([torch.rand([4, 4])], {}),
     False),
    (Global,
     lambda: ([], {}),
     lambda: ([torch.rand([3])], {}),
     False),
    (Broken,
     lambda: ([], {}),
     lambda: ([torch.rand([3])], {}),
     False),
    (Noisy,
     lambda: ([], {}),
     lambda: ([torch.rand([3])], {}),
     False),
]

class Test_made_up(_paritybench_base):
    def test_000(self):
        self._check(*TESTCASES[0])
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkout") / "generated"
    folder.mkdir()
    (folder / "test_made_up.py").write_text(HEAD + CLASSES + TAIL)
    (folder / "test_no_import.py").write_text("import no_such_library\nTESTCASES = []\n")
    return folder.parent


def run(checkout, work, *words):
    argv = [sys.executable, "benchmarks/paritybench.py", checkout, "--part", "all", "--work", work]
    done = subprocess.run(
        [*map(str, argv), *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.slow
@pytest.mark.torch
def test_a_corpus_becomes_a_table(checkout, tmp_path):
    data = json.loads(run(checkout, tmp_path, "--json", "--no-baselines").stdout)
    assert (data["files"], data["usable_files"], data["usable_cases"]) == (2, 1, 3)
    assert data["rows"]["ours"]["cases"] == [2, 3]
    assert data["rows"]["ours, identical"]["cases"] == [3, 3]
    assert data["rows"]["ours"]["projects"] == [0, 1]
    assert data["rows"]["ours"]["tiers"] == {
        "1": [0, 0], "2": [1, 1], "3": [0, 0], "4": [1, 1], "5": [0, 1],
    }  # fmt: skip
    assert dict(data["unusable"]) == {"original": 1, "not deterministic": 1, "no-import": 1}
    assert data["comments"] == data["idempotent"] == [2, 2]
    # `out += residual` works in place: `also` would make a new tensor, with the other's strides.
    style = {"direct": 0, "calls": 3, "residuals": 1, "also": 0, "handed": 1, "named": 0}
    assert data["style"] == style
    assert len(data["kept"]) >= 1
    again = run(checkout, tmp_path, "--no-baselines")
    assert "done" not in again.stderr
    assert "| ours | 66.7 | 0.0 |" in again.stdout


@pytest.mark.slow
@pytest.mark.torch
def test_the_captures_of_torch_stand_beside_it(checkout, tmp_path):
    data = json.loads(run(checkout, tmp_path, "--json", "--files", "test_made_up.py").stdout)
    assert data["rows"]["fx"]["cases"] == [2, 3]
    assert data["rows"]["export"]["cases"][1] == 3


@pytest.mark.slow
@pytest.mark.torch
def test_a_port_that_is_wrong_is_found(checkout, tmp_path, monkeypatch):
    from benchmarks.parity import corpus, table, worker

    corpus.materialise(checkout, ["test_made_up.py"], tmp_path)
    source = corpus.place(tmp_path, "test_made_up.py")
    broken = tmp_path / "broken.py"
    text = source.read_text()
    broken.write_text(text.replace("out += residual", "out += residual * 1.0000001"))
    cases = worker.forked(worker.judge_cases, source, broken, False, limit_s=60)
    assert not table.identical(cases[0])
    assert "eval differs" in table._why(cases[0])
    assert [table.identical(case) for case in cases[1:3]] == [True, True]


def test_the_part_of_a_file_is_chosen_by_its_name():
    parts = [part_of(f"test_{n}.py") for n in range(1000)]
    assert 150 < parts.count("development") < 250


@pytest.mark.parametrize(
    ("body", "tier"),
    [
        ("return self.b(F.relu(self.a(x)))", 1),
        ("x = self.a(x)\n        return x + self.b(x)", 2),
        ("for layer in self.layers:\n            x = layer(x)\n        return x", 3),
        ("if x.dim() == 2:\n            x = x[None]\n        return self.a(x)", 4),
        ("self.last = self.a(x)\n        return self.last", 5),
        ("return self.a(x) if x.sum().item() > 0 else x", 5),
    ],
)
def test_the_tier_of_a_forward(body, tier):
    import ast

    text = f"class Net(nn.Module):\n    def forward(self, x):\n        {body}\n"
    assert shape.tier_of(shape.classes_of(ast.parse(text)), "Net") == tier
