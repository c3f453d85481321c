"""A project on disk: its copy without compiled parts, and what `fdl port` makes of the copy."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
OPERATORS = Path(__file__).with_name("operators.py")
_LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.pyc", "*.so", ".git", "*.ipynb")


def find(source: str) -> tuple[str, Path]:
    """Return the name and the folder of a project: a folder, or an installed package."""
    folder = Path(source)
    if folder.is_dir():
        return folder.resolve().name, folder.resolve()
    spec = importlib.util.find_spec(source)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(
            f"zoo: `{source}` is neither a folder nor an installed package; install it with "
            "`pip install --no-deps --target FOLDER` and add `--site FOLDER`"
        )
    return source, Path(next(iter(spec.submodule_search_locations)))


def copy(name: str, folder: Path, target: Path) -> None:
    """Copy the sources of a project, once; a package stays one."""
    if target.is_dir():
        return
    inside = target / name if (folder / "__init__.py").is_file() else target
    shutil.copytree(folder, inside, ignore=_LEFT_OUT)
    extension = inside / "extension.py"
    if name == "torchvision" and extension.is_file():
        before = extension.read_text(encoding="utf-8")
        added = OPERATORS.read_text(encoding="utf-8").partition('"""\n\n')[2]
        extension.write_text(f"{before}\n\n{added}", encoding="utf-8")


def port(original: Path, target: Path, report: Path, *, verified: bool) -> Any:
    """Port a project with the tool, as a user does, once; return its report."""
    if report.is_file():
        return json.loads(report.read_text(encoding="utf-8"))
    argv = [sys.executable, "-m", "fdl_cli", "port", str(original), "-o", str(target), "--force"]
    argv += ["--json", *([] if verified else ["--no-verify"])]
    started = time.monotonic()
    done = subprocess.run(
        argv,
        capture_output=True,
        cwd=ROOT,
        check=False,
        env={**os.environ, "PYTHONHASHSEED": "0"},
    )
    if done.returncode not in {0, 1}:
        raise SystemExit(f"zoo: fdl port failed: {done.stderr.decode()[-2000:]}")
    found = {
        "seconds": round(time.monotonic() - started, 1),
        "verified": verified,
        "files": [_file(item, original) for item in json.loads(done.stdout)["data"]["files"]],
    }
    report.write_text(json.dumps(found, indent=1), encoding="utf-8")
    return found


def _file(item: dict[str, Any], original: Path) -> Any:
    return {
        "file": str(Path(item["file"]).relative_to(original)),
        "error": item["error"],
        "classes": [
            {
                "name": each["name"],
                "status": each["status"],
                "verify": each["verify"]["status"],
                "codes": sorted({reason["code"] for reason in each["reasons"]}),
            }
            for each in item["classes"]
        ],
    }
