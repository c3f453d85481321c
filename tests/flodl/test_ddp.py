"""Under DistributedDataParallel with two Gloo processes a flow trains exactly like its twin."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.flodl.twins import PAIRS

pytestmark = [pytest.mark.torch, pytest.mark.slow]
ROOT = Path(__file__).parents[2]


def test_flows_train_like_their_twins_under_ddp(tmp_path):
    workers = [
        subprocess.Popen(
            [
                sys.executable,
                "-W",
                "ignore",
                "-m",
                "tests.flodl.ddp_worker",
                str(rank),
                tmp_path / "store",
            ],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    for worker in workers:
        out, err = worker.communicate(timeout=240)
        assert worker.returncode == 0, err
        assert out.count(" equal") == len(PAIRS) - 1
