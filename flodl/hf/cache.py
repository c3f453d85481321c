"""Ported model files in the user's cache folder.

`transformers.models.bert.modeling_bert` -> `<cache>/hf/<key>/modeling_bert.py` and `modeling_bert.json`.
The key names transformers, flodl and Python.  The JSON holds a digest of the original and of the
porter, and the state of each class; another digest ports the file again.

The porter is part of the tool, which the runtime must not import: a child process runs
`python -m fdl_cli port`.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, final

from flodl.errors import FlodlError

INSTALL = "pip install 'flodl[hf,torch]'"


@final
class HuggingFaceError(FlodlError):
    """A model of transformers cannot become a flow graph.

    Example:
        >>> from flodl import FlodlError
        >>> from flodl.hf import HuggingFaceError
        >>> issubclass(HuggingFaceError, FlodlError)
        True
    """


def require() -> str:
    """Return the version of transformers.

    Raises:
        HuggingFaceError: transformers is not installed.
    """
    try:
        return importlib.metadata.version("transformers")
    except importlib.metadata.PackageNotFoundError:
        raise HuggingFaceError(
            f"flodl.hf needs transformers, which is not installed; type: {INSTALL}"
        ) from None


def cache_folder() -> Path:
    """Return the folder of the ports for these versions of transformers, flodl and Python.

    Raises:
        HuggingFaceError: transformers is not installed.
    """
    own = os.environ.get("FLODL_CACHE_DIR")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "flodl"
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    key = f"transformers-{require()}-flodl-{_flodl_version()}-python-{python}"
    return (Path(own) if own else base) / "hf" / key


def _flodl_version() -> str:
    try:
        return importlib.metadata.version("flodl")
    except importlib.metadata.PackageNotFoundError:
        return "source"  # a checkout on the path, which no installer has recorded


def ported(module: str) -> tuple[ModuleType, dict[str, Any]]:
    """Return the port of a model file as a module, and what is stored beside it.

    Raises:
        HuggingFaceError: the file cannot be ported.
    """
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise HuggingFaceError(f"{module} has no source file, so there is nothing to port")
    name = module.rpartition(".")[2]
    folder = cache_folder()
    digest = hashlib.sha256(_porter_state() + Path(spec.origin).read_bytes()).hexdigest()
    record = stored(folder, name)
    if record.get("digest") != digest or not (folder / f"{name}.py").is_file():
        record = {"digest": digest, "classes": _port(Path(spec.origin), folder, name)}
        store(folder, name, record)
        importlib.invalidate_caches()
    places = importlib.import_module("flodl.hf.ported").__path__
    if str(folder) not in places:  # FLODL_CACHE_DIR is another one since the package was imported
        places.insert(0, str(folder))
    return importlib.import_module(f"flodl.hf.ported.{name}"), record


@cache
def _porter_state() -> bytes:
    """Return what changes with the porter: in a checkout it changes under one version."""
    tool = importlib.util.find_spec("fdl_cli")
    if tool is None or tool.origin is None:
        raise HuggingFaceError("flodl.hf needs the porter, fdl_cli, which is not installed")
    files = sorted((Path(tool.origin).parent / "porter").rglob("*.py"))
    facts = [(each.name, each.stat().st_size, each.stat().st_mtime_ns) for each in files]
    return repr(facts).encode()


def stored(folder: Path, name: str) -> dict[str, Any]:
    """Return what is stored beside a port; nothing if it is missing or damaged."""
    try:
        found: dict[str, Any] = json.loads((folder / f"{name}.json").read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def store(folder: Path, name: str, record: dict[str, Any]) -> None:
    """Write what is stored beside a port, whole or not at all."""
    with tempfile.NamedTemporaryFile("w", dir=folder, delete=False, encoding="utf-8") as file:
        json.dump(record, file)
    Path(file.name).replace(folder / f"{name}.json")


def _reason(done: subprocess.CompletedProcess[bytes]) -> str:
    """Return the error of `fdl ... --json` with its cure, or the end of what a crash has written."""
    try:
        error = json.loads(done.stdout)["error"]
        return f"{error['message']}\nhint: {error['hint']}"
    except (ValueError, KeyError, TypeError):
        return done.stderr.decode(errors="replace")[-1000:]


def _port(original: Path, folder: Path, name: str) -> dict[str, str]:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as work:
        target = Path(work) / f"{name}.py"
        command = [sys.executable, "-m", "fdl_cli", "port", str(original), "-o", str(target)]
        # The proof on a tiny configuration is ours: it takes seconds, that of each class minutes.
        done = subprocess.run(
            [*command, "--no-verify", "--json"],
            capture_output=True,
            check=False,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        if done.returncode != 0 or not target.is_file():
            raise HuggingFaceError(
                f"fdl port could not port {original} (exit {done.returncode}); type: {' '.join(command)}"
                f"\n{_reason(done)}"
            )
        target.replace(folder / f"{name}.py")
    (outcome,) = json.loads(done.stdout)["data"]["files"]
    return {each["name"]: each["status"] for each in outcome["classes"]}
