"""The import contracts hold, and each of them reports a planted violation."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

LINT = Path(sys.executable).parent / "lint-imports"

# contract -> (the module that gets a forbidden import, the line that is added to it)
VIOLATIONS = {
    "fdl rooms": ("fdl_cli/system/process.py", "import fdl_cli.commands.registry"),
    "porter stages": ("fdl_cli/porter/plan/planted.py", "import fdl_cli.porter.lower"),
    "the porter is a library": ("fdl_cli/porter/planted.py", "import typer"),
    "only parse and emit know libcst": ("fdl_cli/porter/ir/planted.py", "import libcst"),
    "decisions are made without syntax trees": (
        "fdl_cli/porter/plan/planted.py",
        "import fdl_cli.porter.parse.reader",
    ),
    "the tool and the runtime do not know each other": ("fdl_cli/result.py", "import flodl"),
    "the prover knows the runtime, and not the tool": (
        "flodl_verify/values/planted.py",
        "import fdl_cli.errors",
    ),
    "the runtime does not know the prover": (
        "flodl/nn/planted.py",
        "import flodl_verify.protocol",
    ),
    "the tool knows only the protocols of the prover": (
        "fdl_cli/system/planted.py",
        "import flodl_verify.verify_session",
    ),
    "the protocols of the prover need no torch": ("flodl_verify/protocol.py", "import torch"),
    "prover rooms": ("flodl_verify/sandbox/planted.py", "import flodl_verify.values.raw"),
    "rules for inputs do not know the search": (
        "flodl_verify/inputs/rules/planted.py",
        "import flodl_verify.inputs.case_finder",
    ),
    "a torch is chosen without installing anything": (
        "fdl_cli/torch_setup/choice/compat.py",
        "import fdl_cli.torch_setup.install.acquire",
    ),
    "flodl rooms": ("flodl/ir/planted.py", "import flodl.graph"),
    "the terminal lives in console": ("fdl_cli/commands/help.py", "import rich"),
    "typer lives in app and commands": ("fdl_cli/result.py", "import typer"),
    "the network lives in net": ("fdl_cli/commands/help.py", "import httpx"),
    "docker lives in containers": ("fdl_cli/system/planted.py", "import docker"),
    "templates live in scaffold": ("fdl_cli/commands/help.py", "import jinja2"),
    "processes live in system": ("fdl_cli/commands/help.py", "import subprocess"),
    "bytecode is read in one package": ("flodl/tracing/planted.py", "import dis"),
    "bytecode is read without torch": ("flodl/bytecode/planted.py", "import torch"),
    "a graph can be described without torch": ("flodl/ir/planted.py", "import torch"),
    "the cadence is decided without torch": ("flodl/distributed/partition.py", "import torch"),
}


def lint(folder):
    return subprocess.run(
        [str(LINT), "--no-cache"], cwd=folder, capture_output=True, text=True, check=False
    )


def test_the_contracts_hold(root):
    done = lint(root)
    assert done.returncode == 0, done.stdout


def test_every_contract_reports_its_violation(root, tmp_path):
    contracts = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["importlinter"]
    assert {contract["name"] for contract in contracts["contracts"]} == set(VIOLATIONS)
    shutil.copy(root / "pyproject.toml", tmp_path)
    for package in ("fdl_cli", "flodl", "flodl_verify"):
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(root / package, tmp_path / package, ignore=ignore)
    for file, line in VIOLATIONS.values():
        path = tmp_path / file
        assert path.parent.is_dir(), f"the room of {file} is gone"
        old = path.read_text() if path.exists() else '"""Planted."""\n'
        path.write_text(f"{old}\n{line}\n")
    done = lint(tmp_path)
    assert done.returncode == 1, done.stdout
    missed = [name for name in VIOLATIONS if f"{name} BROKEN" not in done.stdout]
    assert missed == [], done.stdout
