"""Every example script trains on its own data, prints losses that fall, and repeats itself."""

from __future__ import annotations

import math
import re
import runpy
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.torch

EXAMPLES = Path(__file__).parents[2] / "examples" / "pytorch"
NAMES = (
    "bert.py",
    "detector.py",
    "gan.py",
    "gcn.py",
    "gpt.py",
    "inception.py",
    "lstm_tagger.py",
    "mlp_residual.py",
    "resnet_cifar.py",
    "unet.py",
    "vae.py",
    "vit.py",
)
LOSS = re.compile(r"loss(?:_D)?:? ([0-9.]+|nan|inf)")


def run_example(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    monkeypatch.setattr(sys, "argv", [name])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return capsys.readouterr().out


def test_no_example_is_left_out() -> None:
    # A port lies beside its original once the first command of the README has run.
    mine = [path.name for path in EXAMPLES.glob("*.py") if not path.stem.endswith("_flodl")]
    assert tuple(sorted(mine)) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_example_has_no_flodl_in_it(name: str) -> None:
    assert "flodl" not in (EXAMPLES / name).read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_example_learns_and_is_deterministic(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        first = run_example(name, monkeypatch, capsys)
        second = run_example(name, monkeypatch, capsys)
    finally:
        torch.set_num_threads(threads)
    assert first == second
    losses = [float(text) for text in LOSS.findall(first)]
    assert len(losses) >= 2
    assert all(math.isfinite(loss) for loss in losses)
    assert losses[-1] < losses[0]
