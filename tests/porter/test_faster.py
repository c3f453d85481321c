"""The gain of a fused optimizer: what a measurement shows, and what is written for it."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from fdl_cli.app import main
from fdl_cli.porter.faster import decide, is_sure, measure_training
from fdl_cli.porter.ir.evidence import ScriptOutcome, ScriptRequest, SpeedOutcome, VerifyOutcome
from fdl_cli.porter.ir.findings import SpeedFinding
from fdl_cli.porter.port_file import outcome_of
from fdl_cli.porter.port_loop import Proof, Proving
from fdl_cli.porter.project import Project
from fdl_cli.porter.report.page import page
from fdl_cli.porter.report.summary import summary_lines

SCRIPT = """\
import torch
from torch import nn
model = nn.Linear(4, 2)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
loader = [(torch.randn(3, 4), torch.randn(3, 2)) for _ in range(9)]
for x, y in loader:
    optimizer.zero_grad()
    loss = (model(x) - y).square().mean()
    loss.backward()
    optimizer.step()
"""
SLOW, QUICK = (0.122,) * 8, (0.063,) * 8


def measured(**changes: object) -> SpeedOutcome:
    fields = {
        "own": SLOW,
        "fused": QUICK,
        "equality": "rounding",
        "difference": 2e-8,
        "rounding": 3e-8,
        "steps": 10,
        "kernels": ("fused AdamW",),
        "threads": 4,
        "limit_s": 60.0,
    }
    return SpeedOutcome(**{**fields, **changes})  # type: ignore[arg-type]


# -- what a measurement shows --------------------------------------------------------------------


def test_decide_faster_and_within_rounding_says_both_times_and_that_bits_change() -> None:
    found = decide(measured())
    assert (found.status, found.optimizer, found.written) == ("faster", "AdamW", False)
    assert (found.own_ms, found.fused_ms, found.equality) == (122.0, 63.0, "rounding")
    assert found.ratio == pytest.approx(122 / 63, abs=1e-3)
    assert "your step: 122 ms -> 63 ms with the fused AdamW" in found.detail
    assert "median of 8 steps on 4 CPU threads" in found.detail
    assert "bits change" in found.proof
    assert "2.0e-08 apart" in found.proof
    assert "not measured, since compiling" in found.compiled


def test_decide_equal_bits_says_so_and_not_that_bits_change() -> None:
    found = decide(measured(equality="equal", kernels=("fused SGD",), threads=1))
    assert (found.status, found.optimizer, found.equality) == ("faster", "SGD", "equal")
    assert "equal bit for bit after 10 steps" in found.proof
    assert "bits change" not in found.proof
    assert "on 1 CPU thread)" in found.detail


@pytest.mark.parametrize(
    ("fused", "words"),
    [
        (SLOW, "1.00 times as fast, too little to count"),
        ((0.121,) * 8, "1.01 times as fast, too little to count"),
        ((0.2,) * 8, "0.61 times as fast, too little to count"),
        ((0.09, 0.3, 0.09, 0.3, 0.09, 0.3, 0.09, 0.09), "1.36 times as fast, steps vary more"),
    ],
    ids=["same", "hardly", "slower", "noise"],
)
def test_decide_without_a_sure_gain_writes_nothing_and_says_why(
    fused: tuple[float, ...], words: str
) -> None:
    found = decide(measured(fused=fused))
    assert found.status == "no-gain"
    assert f"no sure gain: {words}" in found.detail
    assert found.action == "nothing is written: it gains nothing here"


@pytest.mark.parametrize("equality", ["different", None])
def test_decide_other_weights_are_different_however_fast(equality: str | None) -> None:
    found = decide(measured(equality=equality, difference=float("inf"), fused=(0.001,) * 8))
    assert found.status == "different"
    assert found.difference is None
    why = "it is not the same training" if equality else "it is not verified"
    assert found.action == f"nothing is written: {why}"
    assert ("DIFFERENT" in found.proof) == (equality is not None)


NOTHING = {"own": (), "fused": (), "equality": None, "steps": 0, "kernels": ()}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kernels": ("none RMSprop",)}, "RMSprop has no fused kernel"),
        ({"kernels": ("already Adam", "already Adam")}, "Adam uses its fused kernel already"),
        ({"own": SLOW[:4], "fused": QUICK[:4]}, "too few optimizer steps"),
        ({"own": SLOW[:2], "trouble": "time"}, "take too long for the 60 s"),
        ({"fused": (), "trouble": "copy: ValueError: no"}, "a copy of its step ended with ValueError"),
        ({**NOTHING, "trouble": "finished"}, "takes no backward pass"),
        ({**NOTHING, "trouble": "time"}, "no training step within 60 s; add `--timeout`"),
        ({**NOTHING, "trouble": "NameError: x", "line": 7}, "does not run here: NameError: x (line 7)"),
        ({**NOTHING, "trouble": "copy: OSError: no"}, "a copy of its step ended with OSError"),
        (NOTHING, "too few optimizer steps"),
    ],
)  # fmt: skip
def test_decide_nothing_measured_gives_the_reason(changes: dict[str, object], words: str) -> None:
    found = decide(measured(**changes))
    assert found.status == "not-measured"
    assert words in found.detail
    assert (found.own_ms, found.fused_ms, found.ratio) == (None, None, None)


def test_decide_two_optimizers_names_the_fused_one() -> None:
    assert decide(measured(kernels=("none RMSprop", "fused Adam"))).optimizer == "Adam"


@pytest.mark.parametrize(
    ("ratios", "sure"),
    [([1.1] * 5, True), ([1.1] * 4 + [0.9], False), ([1.1] * 60 + [0.9] * 40, True),
     ([1.1] * 59 + [0.9] * 41, False)],
)  # fmt: skip
def test_is_sure_needs_more_pairs_than_chance(ratios: list[float], sure: bool) -> None:
    assert is_sure(ratios) is sure


# -- what is written ------------------------------------------------------------------------------


class Prover:
    """A prover whose answers are given."""

    def __init__(self, folder: Path, outcome: SpeedOutcome | None, *statuses: str) -> None:
        self.outcome = outcome
        self.statuses = list(statuses)
        self.ran: list[tuple[bool, bool]] = []
        self.proving = Proving(
            verify=self.verify,
            workdir=folder,
            examples=(),
            python="python3",
            timeout_s=9.0,
            search_path=(),
            prove_script=self.prove,
            measure=None if outcome is None else self.measure,
        )

    def verify(self, request: object) -> VerifyOutcome:
        raise AssertionError(request)

    def measure(self, request: ScriptRequest) -> SpeedOutcome:
        assert self.outcome is not None
        return self.outcome

    def prove(self, request: ScriptRequest) -> ScriptOutcome:
        text = request.ported.read_text(encoding="utf-8")
        self.ran.append((".fused(False)" in text, request.rounding))
        status = self.statuses.pop(0)
        return ScriptOutcome(
            status=status,  # type: ignore[arg-type]
            detail="as given",
            steps=9,
            losses=(),
            source_runs=True,
            seconds=0.1,
        )


def ported(
    tmp_path: Path, prover: Prover, level: str = "builder", text: str = SCRIPT
) -> tuple[SpeedFinding | None, str, list[str]]:
    path = tmp_path / "train.py"
    path.write_text(text, encoding="utf-8")
    project = Project({path: text.encode()}, training=level)  # type: ignore[arg-type]
    project.move_training(path)
    proof = measure_training(project, path, prover.proving, Proof())
    outcome = outcome_of(project, path, proof, asked=True)
    return outcome.speed, project.draft(path).text, list(summary_lines("train.py", outcome, None))


def test_measure_gain_with_a_builder_is_written_and_run_once_more(tmp_path: Path) -> None:
    prover = Prover(tmp_path, measured(), "close")
    speed, text, lines = ported(tmp_path, prover)
    assert speed is not None
    assert speed.written
    assert '.step("eager")' in text
    assert ".fused(" not in text
    assert prover.ran == [(False, True)]
    assert any(line.startswith("  fast: your step: 122 ms -> 63 ms") for line in lines)
    assert "        written: the builder is without `.fused(False)`" in lines
    assert "  script trains closely: as given" in lines
    assert "  training loop, line 6: moved to Trainer.builder" in lines


def test_measure_gain_of_one_optimizer_leaves_loops_of_others(tmp_path: Path) -> None:
    head, start, loop = SCRIPT.partition("for x, y")
    other = "second = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    text = head + start + loop + other + (start + loop).replace("optimizer", "second")
    speed, port, _ = ported(tmp_path, Prover(tmp_path, measured(), "close"), text=text)
    assert speed is not None
    assert speed.written
    first, last = port.split("Trainer.builder(")[1:]
    assert first.startswith("model, optimizer,")
    assert ".fused(" not in first
    assert ".fused(False)" in last


@pytest.mark.parametrize("status", ["different", "not-run"])
def test_measure_written_script_that_trains_otherwise_is_put_back(
    tmp_path: Path, status: str
) -> None:
    speed, text, _ = ported(tmp_path, Prover(tmp_path, measured(), status))
    assert speed is not None
    assert not speed.written
    assert ".fused(False)" in text
    assert "not written: the script so written was not verified: as given" in speed.action


@pytest.mark.parametrize(
    "changes", [{"equality": "different"}, {"fused": SLOW}, {"kernels": ("none RMSprop",)}]
)
def test_measure_without_a_verified_gain_keeps_the_bits(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    prover = Prover(tmp_path, measured(**changes))
    speed, text, _ = ported(tmp_path, prover)
    assert speed is not None
    assert not speed.written
    assert ".fused(False)" in text
    assert prover.ran == []


@pytest.mark.parametrize("level", ["keep", "setup"])
def test_measure_without_a_builder_says_how_to_have_the_gain(tmp_path: Path, level: str) -> None:
    speed, text, _ = ported(tmp_path, Prover(tmp_path, measured()), level)
    assert speed is not None
    assert (speed.status, speed.written) == ("faster", False)
    assert "`AdamW(..., fused=True)`, or `--fast --training builder`" in speed.action
    assert "fused" not in text


def test_measure_file_without_a_loop_says_that_there_is_nothing(tmp_path: Path) -> None:
    text = SCRIPT.partition("for x, y")[0]
    speed, _, lines = ported(tmp_path, Prover(tmp_path, measured()), text=text)
    assert speed is not None
    assert speed.status == "not-measured"
    assert "  fast: nothing to measure: the file is no script with a training loop" in lines


def test_measure_not_wanted_keeps_every_bit_and_offers_it(tmp_path: Path) -> None:
    speed, text, lines = ported(tmp_path, Prover(tmp_path, None))
    assert speed is None
    assert ".fused(False)" in text
    (offer,) = (line for line in lines if "fdl port ... --fast" in line)
    assert "`.fused(False)` keeps every bit: AdamW's fused kernel may be faster" in offer


@pytest.mark.parametrize("level", ["keep", "setup"])
def test_offer_is_for_builders_only(tmp_path: Path, level: str) -> None:
    _, _, lines = ported(tmp_path, Prover(tmp_path, None), level)
    assert not any("--fast" in line for line in lines)


@pytest.mark.parametrize(
    "made", ["torch.optim.RMSprop(model.parameters())", "make(model.parameters())"]
)
def test_offer_needs_an_optimizer_with_a_fused_kernel(tmp_path: Path, made: str) -> None:
    text = SCRIPT.replace("torch.optim.AdamW(model.parameters(), lr=0.1)", made)
    _, port, lines = ported(tmp_path, Prover(tmp_path, None), text=text)
    assert ".fused(False)" in port
    assert not any("--fast" in line for line in lines)


def test_page_shows_the_measurement_with_its_state(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    project = Project({path: SCRIPT.encode()}, training="builder")
    project.move_training(path)
    proof = Proof(speed=decide(measured()))
    outcome = outcome_of(project, path, proof, asked=True)
    shown = page([("train.py", None, outcome)])
    assert "122 ms -&gt; 63 ms with the fused AdamW" in shown
    assert '<span class="badge faster">faster</span>' in shown
    offered = page([("train.py", None, outcome_of(project, path, Proof(), asked=True))])
    assert "fused kernel may be faster" in offered


# -- the command ----------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["--no-verify", "--check", "--dry-run"])
def test_fast_where_nothing_runs_is_a_usage_error(
    tmp_path: Path, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT, encoding="utf-8")
    assert main(["port", str(path), "--fast", option]) == 2
    error = capsys.readouterr().err
    assert "error[port-fast-runs]" in error
    assert "hint: try `fdl port model.py --fast`" in error


def test_schema_describes_the_measurement(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["port", "--json-schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator.check_schema(schema)
    text = json.dumps(schema)
    for name in ("speed", "own_ms", "fused_ms", "equality", "written", "not-measured"):
        assert f'"{name}"' in text
