"""A fresh environment has torch and no numpy: nothing that verifies may need it."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.torch
ROOT = Path(__file__).parents[2]
PROGRAM = """
import sys
sys.modules["numpy"] = None  # as if it were not installed
import torch
from flodl_verify.sandbox.memory import tensor_bytes
from flodl_verify.sandbox.seeds import random_state, seed_all

torch.Tensor.numpy = None
seed_all(3)
before = random_state()
torch.rand(1)
assert random_state() != before
seed_all(3)
assert random_state() == before
assert tensor_bytes(torch.tensor([1.0, -0.0])) == bytes.fromhex("0000803f00000080")
"""


@pytest.mark.slow
def test_random_states_and_bytes_need_no_numpy():
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr


def test_no_source_of_the_runtime_calls_numpy():
    calls = [
        f"{path}:{number}"
        for path in (ROOT / "flodl").rglob("*.py")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if ".numpy()" in line and not line.lstrip().startswith(("#", '"'))
    ]
    assert calls == []
