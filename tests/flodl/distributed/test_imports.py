"""The arithmetic of many devices runs where torch does not."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import flodl.distributed

FOLDER = Path(flodl.distributed.__file__).parent
PROGRAM = """
import sys, types
package = types.ModuleType("flodl")  # the real one exports eagerly, and so imports torch
package.__path__ = [sys.argv[1]]
sys.modules["flodl"] = package
import flodl.distributed
print(sorted(name for name in sys.modules if name.split(".")[0] in ("torch", "numpy")
             or name.startswith("flodl.") and not name.startswith("flodl.distributed")))
"""


def test_package_in_a_fresh_process_imports_nothing_heavy():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(FOLDER.parent)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")


def test_modules_import_only_the_standard_library_and_each_other():
    wrong = []
    for path in sorted(
        FOLDER.glob("*.py")
    ):  # the processes of a team, in a package below, need torch
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module]
            wrong += [
                f"{path.name}: {name}"
                for name in names
                if name.split(".")[0] not in sys.stdlib_module_names
                and not name.startswith("flodl.distributed")
            ]
    assert wrong == []


@pytest.mark.slow
def test_flodl_in_a_fresh_process_imports_no_team():
    program = "import sys, flodl; print([name for name in sys.modules if '.team' in name])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "[]\n")


ALONE = """
import sys, threading, torch
from flodl import Trainer
state = (
    Trainer.builder(
        lambda: torch.nn.Linear(2, 1), lambda p: torch.optim.SGD(p, 0.1), lambda m, b: m(b).mean()
    )
    .dataset([torch.ones(4, 2)]).devices("all" if not torch.cuda.is_available() else 1)
    .step("eager").progress(False).run().join()
)
print([name for name in sys.modules if name.startswith(("flodl.distributed", "flodl.train.sync"))])
print(torch.distributed.is_initialized(), threading.active_count(), state.steps)
"""


@pytest.mark.torch
@pytest.mark.slow
def test_training_on_one_device_imports_nothing_of_several():
    done = subprocess.run(
        [sys.executable, "-c", ALONE], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\nFalse 1 1\n", "")
