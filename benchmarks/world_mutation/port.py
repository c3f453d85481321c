"""A file of an installed library, its port by `fdl port`, and both as modules of one process.

The port is loaded beside the original, as a module of the same package.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SUFFIX = "_flodl"


def ported(module: str, work: Path) -> tuple[Path, dict[str, str]]:
    """Port the file of a module, and return the port and the status of each class.

    Raises:
        SystemExit: the file cannot be ported.
    """
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise SystemExit(
            f"world: `{module}` is not installed; pip install -r benchmarks/requirements.txt"
        )
    name = module.rpartition(".")[2]
    target = work / f"{name}{SUFFIX}.py"
    work.mkdir(parents=True, exist_ok=True)
    argv = [sys.executable, "-m", "fdl_cli", "port", spec.origin, "-o", str(target)]
    done = subprocess.run(
        [*argv, "--no-verify", "--force", "--json"],
        capture_output=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "0"},
    )
    if done.returncode != 0:
        raise SystemExit(f"world: fdl port {spec.origin}: {done.stderr.decode()[-2000:]}")
    report = json.loads(done.stdout)["data"]["files"][0]
    return target, {each["name"]: each["status"] for each in report["classes"]}


def loaded(module: str, file: Path) -> tuple[ModuleType, ModuleType]:
    """Return a module and its port, which is a module of the same package."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        original = importlib.import_module(module)
        name = f"{module}{SUFFIX}"
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None
        assert spec.loader is not None
        port = importlib.util.module_from_spec(spec)
        sys.modules[name] = port
        with unregistered(module):
            spec.loader.exec_module(port)
    return original, port


@contextmanager
def unregistered(module: str) -> Iterator[None]:
    """Let a file register the names of its models a second time, and forget that it did."""
    tables: list[dict[Any, Any]] = []
    if module.startswith("torchvision.models"):
        from torchvision.models import _api

        tables = [_api.BUILTIN_MODELS]
    kept = [dict(each) for each in tables]
    for each in tables:
        each.clear()
    try:
        yield
    finally:
        for each, before in zip(tables, kept, strict=True):
            each.clear()
            each.update(before)
