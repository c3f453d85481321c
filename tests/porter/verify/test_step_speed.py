"""`fdl port --fast` on real scripts: steps are measured, compared, and written on request."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from fdl_cli.app import main
from fdl_cli.porter.ir.evidence import ScriptRequest, SpeedOutcome
from fdl_cli.porter.verify import measure_speed

pytestmark = [pytest.mark.torch, pytest.mark.slow]

MODEL = """\
import sys
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(16, 32)
        self.b = nn.Linear(32, 4)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


model = Net()
"""
LOOP = """\
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
loader = [(torch.randn(8, 16), torch.randn(8, 4)) for _ in range(24)]
for x, y in loader:
    optimizer.zero_grad()
    loss = (model(x) - y).square().mean()
    loss.backward()
    optimizer.step()
"""
# A fused kernel whose rate is off by a tenth of a per cent.
MUTANT = """\
adam = sys.modules["torch.optim.adam"]
kernel = adam._fused_adam
def wrong(*args, **options):
    return kernel(*args, **{**options, "lr": options["lr"] * 1.001})
adam._fused_adam = wrong
"""
MADE = "torch.optim.AdamW(model.parameters(), lr=1e-3)"


def measure(tmp_path: Path, text: str) -> SpeedOutcome:
    script, workdir = tmp_path / "train.py", tmp_path / "work"
    script.write_text(text, encoding="utf-8")
    workdir.mkdir()
    return measure_speed(
        ScriptRequest(
            original=script, ported=script, python=sys.executable, timeout_s=120.0,
            workdir=workdir, search_path=(tmp_path,),
        )
    )  # fmt: skip


def test_measure_adamw_is_fused_and_within_rounding(tmp_path: Path) -> None:
    found = measure(tmp_path, MODEL + LOOP)
    assert (found.trouble, found.kernels, found.equality) == ("", ("fused AdamW",), "rounding")
    assert 0 < found.difference < 1e-5
    assert 0 < found.rounding < 1e-5
    # 24 steps, without those that make the states.
    assert (found.steps, len(found.own), len(found.fused)) == (10, 22, 22)
    assert all(each > 0 for each in (*found.own, *found.fused))


def test_measure_sgd_is_fused_and_equal_bit_for_bit(tmp_path: Path) -> None:
    found = measure(
        tmp_path, MODEL + LOOP.replace(MADE, "torch.optim.SGD(model.parameters(), 0.1)")
    )
    assert (found.kernels, found.equality, found.difference) == (("fused SGD",), "equal", 0.0)


@pytest.mark.parametrize(
    ("made", "kernels"),
    [("torch.optim.RMSprop(model.parameters())", ("none RMSprop",)),
     ("torch.optim.AdamW(model.parameters(), fused=True)", ("already AdamW",)),
     ("torch.optim.AdamW(model.parameters(), foreach=True)", ("none AdamW",))],
    ids=["none", "already", "refused"],
)  # fmt: skip
def test_measure_without_another_kernel_says_what_is_used(
    tmp_path: Path, made: str, kernels: tuple[str, ...]
) -> None:
    assert measure(tmp_path, MODEL + LOOP.replace(MADE, made)).kernels == kernels


NO_DECAY = MUTANT.replace('"lr": options["lr"] * 1.001', '"weight_decay": 0.0')


@pytest.mark.parametrize("mutant", [MUTANT, NO_DECAY], ids=["rate", "decay"])
def test_measure_wrong_kernel_is_different(tmp_path: Path, mutant: str) -> None:
    found = measure(tmp_path, MODEL + mutant + LOOP)
    assert (found.kernels, found.equality) == (("fused AdamW",), "different")
    assert found.difference > 8 * found.rounding


def test_measure_kernel_that_raises_tells_its_error(tmp_path: Path) -> None:
    text = MUTANT.replace("return kernel(*args, **{**options, \"lr\": options[\"lr\"] * 1.001})",
                          "raise ValueError('no such kernel')")  # fmt: skip
    found = measure(tmp_path, MODEL + text + LOOP)
    assert "copy: ValueError: no such kernel" in found.trouble
    assert found.fused == ()


@pytest.mark.parametrize(
    ("text", "trouble", "line"),
    [(MODEL, "finished", None), (MODEL + "unknown()\n", "NameError: name 'unknown' is not defined", 17)],
    ids=["no-loop", "raises"],
)  # fmt: skip
def test_measure_script_without_a_step_gives_the_reason(
    tmp_path: Path, text: str, trouble: str, line: int | None
) -> None:
    found = measure(tmp_path, text)
    assert (found.trouble, found.line, found.own, found.steps) == (trouble, line, (), 0)


def test_measure_script_that_ends_early_is_compared_at_its_end(tmp_path: Path) -> None:
    found = measure(tmp_path, MODEL + LOOP.replace("range(24)", "range(4)"))
    assert (found.trouble, found.steps, len(found.own)) == ("", 4, 2)
    assert found.equality == "rounding"


def test_measure_loader_with_workers_loads_in_each_copy(tmp_path: Path) -> None:
    made = """\
pairs = torch.utils.data.TensorDataset(torch.randn(96, 16), torch.randn(96, 4))
loader = torch.utils.data.DataLoader(pairs, 8, shuffle=True, num_workers=2, persistent_workers=True)
"""
    lines = LOOP.splitlines(keepends=True)
    found = measure(tmp_path, "".join([MODEL, lines[0], made, *lines[2:]]))
    assert (found.trouble, found.steps, len(found.own)) == ("", 10, 10)
    assert "the worker processes of its loader" in found.stubs


def test_measure_two_optimizers_in_one_turn_are_one_step(tmp_path: Path) -> None:
    two = LOOP.replace("loader = ", "other = torch.optim.RMSprop(model.a.parameters())\nloader = ")
    found = measure(tmp_path, MODEL + two + "    other.step()\n")
    assert found.kernels == ("fused AdamW", "none RMSprop")
    assert (found.steps, len(found.own)) == (10, 22)


def test_measure_steps_with_a_closure(tmp_path: Path) -> None:
    body = """\
    def closure():
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        return loss
    optimizer.step(closure)
"""
    found = measure(tmp_path, MODEL + LOOP.partition("    optimizer.zero")[0] + body)
    assert (found.kernels, found.equality, found.steps) == (("fused AdamW",), "rounding", 10)


# -- the command ----------------------------------------------------------------------------------


def port(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, *options: str
) -> tuple[dict[str, Any], str]:
    script, target = tmp_path / "train.py", tmp_path / "made.py"
    script.write_text(text, encoding="utf-8")
    assert main(["--json", "port", str(script), "--fast", "-o", str(target), *options]) == 0
    (file,) = json.loads(capsys.readouterr().out)["data"]["files"]
    return file, target.read_text(encoding="utf-8")


@pytest.fixture
def _any_gain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every measured time for a gain: how fast this machine is decides nothing here."""
    monkeypatch.setattr("fdl_cli.porter.faster.LEAST_GAIN", 0.0)
    monkeypatch.setattr("fdl_cli.porter.faster.is_sure", lambda _: True)


@pytest.mark.usefixtures("_any_gain")
def test_fast_with_a_builder_writes_the_fused_kernel_and_runs_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, text = port(tmp_path, capsys, MODEL + LOOP, "--training", "builder")
    assert '.step("eager")' in text
    assert ".fused(" not in text
    speed, script = file["speed"], file["script"]
    assert (speed["status"], speed["written"], speed["equality"]) == ("faster", True, "rounding")
    assert script["status"] == "close"
    assert "losses within rounding" in script["detail"]
    assert "bits differ" in script["detail"]


@pytest.mark.usefixtures("_any_gain")
def test_fast_wrong_kernel_is_reported_and_not_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, text = port(tmp_path, capsys, MODEL + MUTANT + LOOP, "--training", "builder")
    assert ".fused(False)" in text
    assert (file["speed"]["status"], file["speed"]["written"]) == ("different", False)
    assert "DIFFERENT" in file["speed"]["proof"]
    assert file["script"]["status"] == "equal"


@pytest.mark.usefixtures("_any_gain")
def test_fast_sgd_with_a_builder_stays_equal_bit_for_bit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = MODEL + LOOP.replace(MADE, "torch.optim.SGD(model.parameters(), 0.1)")
    file, text = port(tmp_path, capsys, text, "--training", "builder")
    assert ".fused(" not in text
    assert (file["speed"]["written"], file["speed"]["equality"]) == (True, "equal")
    assert file["script"]["status"] == "equal"


def test_fast_alone_changes_no_training_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, text = port(tmp_path, capsys, MODEL + LOOP)
    assert text.endswith(LOOP)
    speed = file["speed"]
    assert speed["status"] in {"faster", "no-gain"}
    assert speed["own_ms"] > 0
    assert speed["fused_ms"] > 0
    assert not speed["written"]
    assert any(line.startswith("  fast: your step: ") for line in file["summary"])


def test_fast_slower_kernel_is_reported_and_not_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    slow = MUTANT.replace('"lr": options["lr"] * 1.001', "").replace(
        "    return", "    import time; time.sleep(0.02)\n    return"
    )
    file, text = port(tmp_path, capsys, MODEL + slow + LOOP, "--training", "builder")
    assert ".fused(False)" in text
    assert (file["speed"]["status"], file["speed"]["written"]) == ("no-gain", False)
    assert "no sure gain" in file["speed"]["detail"]


def test_fast_file_without_a_loop_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, _ = port(tmp_path, capsys, MODEL)
    assert file["speed"]["status"] == "not-measured"
    assert "nothing to measure" in file["speed"]["detail"]
