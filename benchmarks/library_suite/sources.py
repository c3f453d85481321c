"""A library in two copies, original and port, each beside the same tests of its own.

WORK/site        the library as pip installs it, if this Python has it not
WORK/original    timm/ tests/ pytest.ini
WORK/ported      timm/ tests/ pytest.ini: the model code went through `fdl port --in-place`
WORK/port.json   what the port says of each class
"""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

from benchmarks.model_zoo import projects

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = ROOT / "benchmarks" / "requirements.txt"
# Tests that a source distribution needs, or that say which models its common tests take.
ADDED = Path(__file__).with_name("added")
_MARKS = "[pytest]\naddopts =\n"


@dataclasses.dataclass(frozen=True)
class Library:
    """A library whose tests are known: where its model code and its tests are."""

    name: str
    code: tuple[str, ...]
    tests: str
    chosen: tuple[str, ...]


LIBRARIES = {
    each.name: each
    for each in (
        Library("timm", ("layers", "models"), "tests", ("tests/test_layers.py",)),
        Library("torchvision", ("models", "ops"), "test", ("test/test_models.py",)),
        Library(
            "transformers",
            tuple(f"models/{family}" for family in ("bert", "gpt2", "llama", "t5", "vit")),
            "tests",
            ("tests/test_common_families.py",),
        ),
    )
}


def library(name: str) -> tuple[Library, Path | None]:
    """Return a known library, or that of a folder with a package of the same name and its tests.

    Raises:
        SystemExit: there is no such library.
    """
    folder = Path(name).resolve()
    if name in LIBRARIES:
        return LIBRARIES[name], None
    if not (folder / folder.name / "__init__.py").is_file():
        sys.exit(
            f"library: `{name}` is none of {', '.join(sorted(LIBRARIES))}, and no folder with a package "
            f"at {folder / folder.name}; name one of these, or a folder"
        )
    tests = next((each for each in ("tests", "test") if (folder / each).is_dir()), "tests")
    return Library(folder.name, (".",), tests, (tests,)), folder


def pinned(name: str) -> str:
    """Return the version of a package in the list of requirements.

    Raises:
        SystemExit: the list does not name the package.
    """
    found = re.search(
        rf"^{re.escape(name)}==(\S+)$", REQUIREMENTS.read_text("utf-8"), re.MULTILINE
    )
    if found is None:
        sys.exit(f"library: {REQUIREMENTS} has no line `{name}==VERSION`; add one")
    return found[1]


def package(name: str, site: Path) -> Path:
    """Return the folder of an installed package, and install the pinned version if there is none."""
    if site.is_dir():
        sys.path.insert(0, str(site))
    spec = importlib.util.find_spec(name)
    if spec is None:
        words = ["install", "--quiet", "--no-deps", "--target", str(site)]
        _pip([*words, f"{name}=={pinned(name)}"])
        return site / name
    locations = list(spec.submodule_search_locations or ())
    if not locations:
        sys.exit(f"library: `{name}` is a module, not a package, at {spec.origin}")
    return Path(locations[0])


def _pip(words: list[str]) -> None:
    done = subprocess.run([sys.executable, "-m", "pip", *words], check=False)
    if done.returncode:
        sys.exit(
            f"library: `pip {' '.join(words)}` failed; install it yourself and run this again"
        )


def tests(library: Library, source: Path | None, work: Path) -> Path:
    """Return the folder of the library's tests: of a checkout, or of its source distribution.

    Raises:
        SystemExit: there are no tests.
    """
    if source is None:
        source = _source_distribution(library.name, work / "sdist")
    folder = source / library.tests
    if not any(folder.glob("**/test_*.py")):
        sys.exit(
            f"library: {folder} holds no tests; check the library out at the tag of its version "
            "and add `--source FOLDER`"
        )
    return folder


def _source_distribution(name: str, folder: Path) -> Path:
    if not folder.is_dir():
        words = ["download", "--quiet", "--no-deps", "--no-binary", ":all:", "--dest"]
        _pip([*words, str(folder), f"{name}=={pinned(name)}"])
    for archive in folder.glob("*.tar.gz"):
        with tarfile.open(archive) as opened:
            opened.extractall(folder, filter="data")
        archive.unlink()
    return next(item for item in sorted(folder.iterdir()) if item.is_dir())


def prepare(package_folder: Path, tests_folder: Path, side: Path) -> None:
    """Copy a library and its tests to one side, once."""
    if (side / "pytest.ini").is_file():
        return
    shutil.rmtree(side, ignore_errors=True)
    projects.copy(package_folder.name, package_folder, side)
    shutil.copytree(
        tests_folder, side / tests_folder.name, ignore=shutil.ignore_patterns("__pycache__")
    )
    added = ADDED / package_folder.name
    for file in sorted(added.glob("**/*.py")):
        target = side / file.relative_to(added)
        if not target.is_file():  # a checkout has all tests
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
    (side / "pytest.ini").write_text(_MARKS, encoding="utf-8")


def port(side: Path, name: str, code: tuple[str, ...], report: Path, *, verified: bool) -> Any:
    """Port the model code of a copy in place, once, and return the state of each class."""
    if report.is_file():
        return json.loads(report.read_text(encoding="utf-8"))
    paths = [str(side / name / each) for each in code]
    argv = [sys.executable, "-m", "fdl_cli", "port", "--in-place", "--json", *paths]
    started = time.monotonic()
    done = subprocess.run(
        argv if verified else [*argv, "--no-verify"],
        capture_output=True,
        cwd=ROOT,
        check=False,
        env={**os.environ, "PYTHONHASHSEED": "0"},
    )
    if done.returncode not in {0, 1}:
        sys.exit(f"library: `{' '.join(argv[1:])}` failed: {done.stderr.decode()[-2000:]}")
    found = {
        "seconds": round(time.monotonic() - started, 1),
        "verified": verified,
        "code": list(code),
        "classes": [
            {"file": str(Path(file["file"]).relative_to(side)), **_state(each)}
            for file in json.loads(done.stdout)["data"]["files"]
            for each in file["classes"]
        ],
    }
    report.write_text(json.dumps(found, indent=1), encoding="utf-8")
    return found


def _state(item: dict[str, Any]) -> dict[str, Any]:
    reasons = [f"{each['code']} {each['message']}" for each in item["reasons"]]
    return {"name": item["name"], "status": item["status"], "reasons": reasons}
