"""The measurement of `benchmarks/gallery.py`: programs take turns, and must print the same."""

import json

import pytest
import torch

from benchmarks import gallery

pytestmark = pytest.mark.torch

PROGRAM = """
import torch

if __name__ == "__main__":
    torch.manual_seed(3)
    weight = torch.zeros(2, requires_grad=True)
    optimizers = [torch.optim.SGD([weight], lr=LR) for _ in range(2)]
    for step in range(10):
        loss = (weight - torch.randn(2)).square().sum()
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        print(f"{loss.item():.6f}")
"""


def module(folder, name, lr="0.1"):
    path = folder / f"{name}.py"
    path.write_text(PROGRAM.replace("LR", lr))
    return gallery._module(path, name)


def test_side_by_side_equal_programs_have_a_pair_per_step_after_the_warm_ones(tmp_path):
    before = torch.get_rng_state()
    pairs = gallery.side_by_side(module(tmp_path, "one"), module(tmp_path, "two"))
    assert len(pairs) == 10 - 1 - gallery.WARM
    assert all(seconds > 0 for pair in pairs for seconds in pair)
    torch.set_rng_state(before)


def test_side_by_side_programs_that_print_differently_raise(tmp_path):
    with pytest.raises(RuntimeError, match="print different texts"):
        gallery.side_by_side(module(tmp_path, "one"), module(tmp_path, "two", lr="0.2"))


def test_side_by_side_program_that_fails_raises_its_error(tmp_path):
    with pytest.raises(RuntimeError, match="LRS"):
        gallery.side_by_side(module(tmp_path, "one"), module(tmp_path, "two", lr="LRS"))


def test_row_has_the_median_of_ratios_and_their_spread():
    row = gallery.row_of("x", [(0.002, 0.001), (0.004, 0.003), (0.004, 0.002), (0.002, 0.002)])
    assert (row.steps, row.original_ms, row.port_ms) == (4, 3.0, 2.0)
    assert (row.ratio, row.spread) == (0.625, 0.125)


def test_result_has_each_example_from_one_run():
    result = json.loads(gallery.RESULT.read_text("utf-8"))
    names = [row["name"] for row in result["rows"]]
    assert names == sorted(path.stem for path in gallery.EXAMPLES.glob("*.py"))
    assert all(row["steps"] >= 40 for row in result["rows"])
    assert {"commit", "date", "machine", "clock", "load"} <= result["measured"].keys()
