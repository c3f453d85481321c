"""The tables of `docs/explanation/el-che.md` are what the code computes."""

import re
from pathlib import Path

import pytest

from flodl.distributed.window_shapes import WindowShapes

PAGE = (Path(__file__).parents[3] / "docs" / "explanation" / "el-che.md").read_text("utf-8")


def test_table_of_anchors_is_computed():
    rows = re.findall(r"^\| (\d+) \| (\d+), (\d+) \| ([\d.]+) % \|$", PAGE, re.MULTILINE)
    shapes = WindowShapes([0.010, 0.025], 0.002)
    assert [int(anchor) for anchor, *_ in rows] == [1, 2, 3, 4]
    for anchor, first, second, share in rows:
        assert shapes.counts(int(anchor)) == [int(first), int(second)]
        assert f"{shapes.efficiency(int(anchor)):.1%}" == f"{share}%"


@pytest.mark.slow
def test_table_of_simulated_shares_is_computed():
    from benchmarks.simulation import scenarios, simulate
    from flodl.distributed import ApplyPolicy

    rows = re.findall(r"^\| .*[^\d] \| ([\d.]+) % \| ([\d.]+) % \|$", PAGE, re.MULTILINE)
    chosen = [case for case in scenarios(1024) if "dies" not in case[0]]
    assert len(rows) == len(chosen) == 4
    for shares, (name, cluster, units) in zip(rows, chosen, strict=True):
        for share, policy in zip(shares, (ApplyPolicy.CADENCE, ApplyPolicy.ASYNC), strict=True):
            found = simulate(cluster, units, policy).share
            assert found * 100 == pytest.approx(float(share), abs=0.1), (name, policy)
