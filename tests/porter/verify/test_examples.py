"""Every example is ported whole, proved equal, and trains to the same printed losses."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from fdl_cli.porter.port_file import port_file
from fdl_cli.porter.port_loop import Proving
from fdl_cli.porter.verify import verify_port
from tests.porter.verify.package_models import SEVEN

pytestmark = [pytest.mark.torch, pytest.mark.slow]

FOLDER = Path(__file__).parents[3] / "examples" / "pytorch"
EXAMPLES = sorted(path for path in FOLDER.glob("*.py") if not path.stem.endswith("_flodl"))


def run_script(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    monkeypatch.setattr(sys, "argv", [file.name])
    runpy.run_path(str(file), run_name="__main__")
    return capsys.readouterr().out


def test_there_are_twelve_examples() -> None:
    assert len(EXAMPLES) == 12


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_is_ported_proved_and_trains_alike(
    example: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    proofs = []

    def verify(request):
        outcome = verify_port(request)
        proofs.append(outcome)
        return outcome

    proving = Proving(
        verify=verify,
        workdir=tmp_path,
        examples=(),
        python=sys.executable,
        timeout_s=120.0,
        search_path=(),
    )
    outcome, data = port_file(example.read_bytes(), example, proving)
    assert {item.status for item in outcome.classes} == {"graph"}, outcome.classes
    assert {item.verify.status for item in outcome.classes} == {"equal"}, outcome.classes
    assert len(proofs) == 1
    for item in proofs[0].classes:
        ran = {check.name for check in item.checks if check.status == "equal"}
        assert set(SEVEN) <= ran, item
    ported = tmp_path / example.name
    ported.write_bytes(data)
    original = run_script(example, monkeypatch, capsys)
    assert "loss" in original
    assert run_script(ported, monkeypatch, capsys) == original
