"""The benchmark of proofs: its result is the one that the documents show, and it measures all processes."""

import ast
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_SPEC = importlib.util.spec_from_file_location("proofs", ROOT / "benchmarks" / "proofs.py")
assert _SPEC is not None
assert _SPEC.loader is not None
proofs = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(proofs)
RESULT = json.loads((ROOT / "benchmarks" / "results" / "proofs.json").read_text("utf-8"))


def test_result_meets_the_bar():
    assert [each["family"] for each in RESULT["families"]] == list(proofs.FAMILIES)
    assert all(map(proofs.holds, RESULT["families"]))


def test_holds_needs_nine_of_ten_classes_in_time():
    found = {"classes": 20, "proved": 18, "wall_s": 120.0}
    assert proofs.holds(found)
    assert not proofs.holds({**found, "proved": 17})
    assert not proofs.holds({**found, "wall_s": 120.1})


def test_documents_show_the_numbers_of_the_result():
    page = (ROOT / "docs" / "explanation" / "verification.md").read_text("utf-8")
    listed = (ROOT / "benchmarks" / "README.md").read_text("utf-8")
    assert "\n".join(proofs.HEAD) in page
    for found in RESULT["families"]:
        assert proofs.row(found) in page
        assert f"{found['family']} {found['proved']} of {found['classes']}" in listed
    measured = RESULT["measured"]
    assert f"commit {measured['commit'][:7]}, {measured['date']}" in page
    assert f"`--timeout {measured['timeout_s']:.0f}`" in page
    assert f"transformers {measured['versions']['transformers']}" in page


def test_with_forward_counts_classes_with_their_own_one(tmp_path):
    file = tmp_path / "models.py"
    file.write_text(
        "class A:\n    def forward(self): ...\n\n\nclass B(A): ...\n\n\n"
        "class C:\n    async def forward(self): ...\n    def other(self): ...\n"
    )
    assert ast.parse(file.read_text())
    assert proofs.with_forward(file) == {"A"}


# A parent that waits for a child, which computes and takes memory before it says so.
FAMILY = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", '''
import os, sys
memory = b"x" * (48 << 20)
while sum(os.times()[:2]) < 0.1: pass  # in the ticks of the kernel
print("ready", flush=True)
sys.stdin.read()
'''])
child.wait()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_processes_count_what_is_below_them_also_after_its_end():
    with subprocess.Popen(
        [sys.executable, "-c", FAMILY], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdin is not None
        assert parent.stdout.readline() == b"ready\n"
        found = proofs.Processes(parent.pid)
        found.look(memory=True)
        seen = found.seconds
        assert seen >= 0.1
        assert found.peak_bytes > 48 << 20
        parent.stdin.close()
    found.look(memory=True)
    assert found.seconds >= seen
