"""The scenarios catch wrong rules: each planted error breaks at least one of them.

A planted error is an edit of a rule's source text. The edited modules run in a package of their
own, so that nothing leaks into other tests.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOM = Path(__file__).parents[2] / "fdl_cli"
HERE = Path(__file__).parent

COMPAT = "torch_setup/choice/compat.py"
SELECTION = "torch_setup/choice/selection.py"
NVIDIA = "torch_setup/choice/nvidia_choice.py"
OTHER = "torch_setup/choice/other_choice.py"
REASONS = "torch_setup/choice/explain.py"
CHOOSE = "torch_setup/choice/choose.py"
RANK = "2 * direct + build.default, build.cuda"

# (file below fdl_cli, what stands there, the wrong rule)
PLANTED = [
    (COMPAT, "build.cuda[0] <= driver_cuda[0]", "build.cuda[0] <= driver_cuda[0] + 1"),
    (COMPAT, "build.cuda[0] <= driver_cuda[0]", "build.cuda <= driver_cuda"),
    (COMPAT, "code[0] != device[0] or code[1] > device[1]", "code[0] != device[0]"),
    (COMPAT, "code[0] != device[0] or code[1] > device[1]", "code > device"),
    (COMPAT, "lifted or device not in", "True or device not in"),
    (COMPAT, "any(code <= device for code in build.ptx)", "False"),
    (SELECTION, "and all(compat.can_compile_ptx", "or all(compat.can_compile_ptx"),
    (SELECTION, "return all(compat.has_machine_code", "return any(compat.has_machine_code"),
    (SELECTION, "build.advertised and _is_kind", "_is_kind"),
    (SELECTION, RANK, "build.default, build.cuda"),
    (SELECTION, RANK, "direct, build.cuda"),
    (SELECTION, "2 * direct + build.default", "2 * direct - build.default"),
    (SELECTION, "int(build.bundled), build.rocm", "0, build.rocm[:1]"),
    (SELECTION, "build.glibc > problem.glibc", "False"),
    (SELECTION, "problem.python not in build.pythons", "False"),
    (SELECTION, "if problem.held is None else", "if True else"),
    (NVIDIA, "ptx=wishes.torch is not None", "ptx=False"),
    (NVIDIA, "if facts.os.tegra is not None:\n        raise", "if False:\n        raise"),
    (
        "torch_setup/choice/visibility.py",
        "number is None:\n        return True",
        "False: return True",
    ),
    (OTHER, "considered = discrete or gpus", "considered = gpus"),
    (OTHER, 'if facts.os.platform == "windows":', "if False:"),
    (OTHER, "if facts.amd.access is False:", "if False:"),
    (OTHER, "if facts.intel.driver is None or", "if False or"),
    (REASONS, "if len(set(problem.caps)) > 1:", "if False:"),
    (REASONS, "driver=_newest_driver(problem, catalogue)", "driver=problem.driver"),
    (REASONS, 'yield "index_lacks_newer"', 'yield "python_caps_torch"'),
    (CHOOSE, "        if outcome.build is not None:", "        if gathered:"),
    (CHOOSE, "gathered += () if minor else", "gathered +="),
    ("system/nvidia.py", 'return "dropped"', 'return "broken"'),
    ("system/nvidia_smi.py", "stated or compute_cap_of_name(full_name)", "stated"),
    ("torch_setup/choice/catalogue.py", 'row.get("python_linux_extra", [])', '["3.9"]'),
]


@pytest.mark.parametrize(
    ("file", "right", "wrong"), PLANTED, ids=[f"{n}-{row[0]}" for n, row in enumerate(PLANTED)]
)
@pytest.mark.slow
def test_a_planted_error_is_caught(file, right, wrong, tmp_path):
    copy_with_edit(tmp_path, file, right, wrong)
    assert count_mismatches(tmp_path) > 0


def test_the_unedited_copy_passes(tmp_path):
    copy_with_edit(tmp_path, "torch_setup/choice/compat.py", "", "")
    assert count_mismatches(tmp_path) == 0


def copy_with_edit(folder, file, right, wrong):
    for room in ("system", "torch_setup"):
        shutil.copytree(ROOM / room, folder / "fdl_cli" / room)
    for module in ("__init__.py", "errors.py"):
        shutil.copy(ROOM / module, folder / "fdl_cli" / module)
    target = folder / "fdl_cli" / file
    text = target.read_text("utf-8")
    if right:
        assert text.count(right) >= 1, f"{file} no longer holds {right!r}: plant it anew"
    target.write_text(text.replace(right, wrong) if right else text, "utf-8")


def count_mismatches(folder):
    code = (
        "import sys; sys.path[:0] = [sys.argv[1], sys.argv[2]];"
        "import fdl_cli; assert fdl_cli.__file__.startswith(sys.argv[1]);"
        "from test_scenarios import SCENARIOS, mismatch\n"
        "def wrong(item):\n"
        "    try: return mismatch(item) is not None\n"
        "    except Exception: return True\n"
        "print(sum(wrong(item) for item in SCENARIOS))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder), str(HERE)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return int(done.stdout)
