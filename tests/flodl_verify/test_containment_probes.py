"""Each probe of the containment is refused, or the documentation says that it is not."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.flodl_verify.probes import PROBES

pytestmark = [pytest.mark.torch, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("probing.py")
# By Python's own guards, by the kernel, or because the user may not do it anyway.
REFUSALS = (
    "PermissionError", "ConnectionRefusedError", "OSError: refused", "FileNotFoundError", "is not allowed",
    "refused", "BrokenPipeError", "NotADirectoryError", "gaierror",
)  # fmt: skip


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("probes")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(ROOT), str(folder)],
        capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_there_are_forty_one_probes_or_more():
    assert len(PROBES) >= 41


@pytest.mark.parametrize("name", PROBES)
def test_probe_is_refused_or_documented(name, outcomes):
    expected = PROBES[name][0]
    outcome = outcomes[name]
    if expected.startswith("kernel ") and outcomes["version"] < int(expected.split()[1]):
        pytest.skip(f"this kernel has version {outcomes['version']} of Landlock")
    if expected == "open":
        assert outcome == "done"
        text = (ROOT / "docs" / "explanation" / "verification.md").read_text(encoding="utf-8")
        assert f"| {name} |" in text, (
            "say in docs/explanation/verification.md that it is not contained"
        )
    else:
        assert any(word in outcome for word in REFUSALS), outcome
