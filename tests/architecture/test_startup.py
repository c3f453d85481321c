"""What `fdl` imports at start-up: a list of what may never be there, and an allow-list."""

import json
import subprocess
import sys
import tempfile

import pytest

HEAVY = (
    "torch", "flodl", "libcst", "docker", "httpx", "jinja2", "pydantic", "numpy", "requests",
    "yaml", "importlib.metadata", "asyncio", "email",
)  # fmt: skip
LIGHT = {
    "fdl_cli", "fdl_cli.app", "fdl_cli.commands", "fdl_cli.commands.overview",
    "fdl_cli.commands.registry", "fdl_cli.terminal", "fdl_cli.folders", "fdl_cli.manifest",
    "fdl_cli.manifest.discover", "fdl_cli.manifest.model",
}  # fmt: skip

PROBE = """
import io, json, sys
before = set(sys.modules)
from fdl_cli.app import main
real, sys.stdout = sys.stdout, io.StringIO()
code = main(tuple(sys.argv[1:]))
sys.stdout = real
print(json.dumps([code, sorted(set(sys.modules) - before)]))
"""


def imported(*arguments, folder=None):
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROBE, *arguments],
        cwd=folder or tempfile.gettempdir(),  # no project around
        capture_output=True,
        text=True,
        check=True,
    )
    code, modules = json.loads(done.stdout)
    return code, set(modules)


def heavy(modules):
    return {
        name for name in modules for root in HEAVY if name == root or name.startswith(f"{root}.")
    }


@pytest.mark.parametrize("arguments", [(), ("--help",), ("--version",)])
def test_the_fast_path_imports_next_to_nothing(arguments):
    code, modules = imported(*arguments)
    assert code == 0
    assert {name for name in modules if name.startswith("fdl_cli")} <= LIGHT
    assert not {"typer", "rich", "dataclasses", "inspect", "subprocess"} & modules
    assert heavy(modules) == set()


@pytest.mark.parametrize(
    "arguments",
    [("help", "exit-codes"), ("port", "--help"), ("port", "--json-schema"), ("zzz",), ("port",)],
)
def test_asking_imports_nothing_heavy(arguments):
    _, modules = imported(*arguments)
    assert heavy(modules) == set()
    assert "rich" not in modules


@pytest.mark.slow
def test_every_command_explains_itself_without_heavy_imports():
    from fdl_cli.commands.registry import COMMANDS

    for entry in COMMANDS:
        code, modules = imported(entry.name, "--help")
        assert code == 0, entry.name
        assert heavy(modules) == set(), entry.name


# What a command imports decides what its start costs; `benchmarks/startup.py` measures the time.
MOST_MODULES = {
    ("--help",): 20,
    ("nonsense",): 70,
    ("help", "exit-codes"): 122,
    ("diagnose", "--json"): 225,
    ("init", "p", "--vcs", "none", "-q"): 250,
}


@pytest.mark.parametrize("arguments", MOST_MODULES, ids=" ".join)
def test_command_at_its_start_imports_few_modules(arguments):
    with tempfile.TemporaryDirectory() as folder:
        _, modules = imported(*arguments, folder=folder)
    assert len(modules) <= MOST_MODULES[arguments], sorted(modules)
