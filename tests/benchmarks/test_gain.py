"""Whole trainings: seconds computed beyond the measured steps, and ratios to the best rival."""

import pytest

from benchmarks import gain

pytestmark = pytest.mark.torch
# Seconds before the first step and for each one, by the clock; twice as many of the processor.
COSTS = {
    "plain": (1.0, 0.010), "fused": (1.0, 0.008), "compile": (20.0, 0.006), "auto": (9.0, 0.006),
    "again": (2.0, 0.004),
}  # fmt: skip


@pytest.fixture
def linear(monkeypatch):
    def one_round(name, steps):
        wall = {way: start + steps * each for way, (start, each) in COSTS.items()}
        return {way: {"wall": value, "cpu": 2 * value} for way, value in wall.items()}

    monkeypatch.setattr(gain, "one_round", one_round)


def test_measured_computes_more_steps_from_the_last_three_quarters(linear):
    for steps in (400, 20_000):
        seconds = gain.measured("mlp", 400, 3, steps)
        for way, (start, each) in COSTS.items():
            assert seconds[way]["wall"] == pytest.approx(start + steps * each)
            assert seconds[way]["cpu"] == pytest.approx(2 * (start + steps * each))


def test_ratios_compare_with_the_best_loop_and_with_compile(linear):
    found = gain.ratios(gain.measured("mlp", 1_000, 1, 0), "again")
    assert found["loop wall"] == pytest.approx(9 / 6)  # the fused one
    assert found["compile cpu"] == pytest.approx(26 / 6)
    assert gain.ratios(gain.measured("mlp", 100, 1, 0), "auto")["loop wall"] < gain.BAR


@pytest.mark.parametrize(("words", "code"), [(["--to", "20000"], 0), (["--steps", "100"], 1)])
def test_gain_fails_where_a_bar_is_missed(linear, monkeypatch, tmp_path, capsys, words, code):
    file = tmp_path / "gain.json"
    monkeypatch.setattr("sys.argv", ["gain.py", "--model", "mlp", "--json", str(file), *words])
    assert gain.main() == code
    shown = capsys.readouterr().out
    assert ("missed" in shown) == bool(code)
    assert '"again"' in file.read_text()
