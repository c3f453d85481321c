"""Write constraints.txt: the exact versions of everything the project and its tests need.

The versions are those of the environment that runs this script, so that what is locked is what
was tested. Usage: `.venv/bin/python .ci/lock.py [--check]`.
"""

import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
LOCK = ROOT / "constraints.txt"
HEADER = """\
# Exact versions of the locked environment. Made by `python .ci/lock.py`; do not edit by hand.
# torch carries no build here: `./fdl` adds +cpu where the machine has no GPU.
"""


def wanted() -> list[Requirement]:
    """Return what pyproject.toml asks for, in all extras, and the build backend."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"].values()
    groups = [project["build-system"]["requires"], project["project"]["dependencies"], *extras]
    found = [Requirement(text) for group in groups for text in group]
    found = [item for item in found if item.name != "flodl"]  # an extra that takes another in
    return [item for item in found if item.marker is None or item.marker.evaluate()]


def closure(roots: list[Requirement]) -> dict[str, str]:
    """Return name -> version of the roots and of everything they need here."""
    pins: dict[str, str] = {}
    todo = [(root, frozenset(root.extras)) for root in roots]
    while todo:
        requirement, extras = todo.pop()
        name = canonicalize_name(requirement.name)
        version = metadata.version(name)
        if not requirement.specifier.contains(version.partition("+")[0], prereleases=True):
            sys.exit(f"{name} {version} is installed, but {requirement} is asked for")
        first = name not in pins
        pins[name] = version.partition("+")[0]
        if not first and not extras:
            continue
        for text in metadata.requires(name) or []:
            child = Requirement(text)
            marker = child.marker
            wishes = ["", *extras]
            if marker is None or any(marker.evaluate({"extra": wish}) for wish in wishes):
                todo.append((child, frozenset(child.extras)))
    return pins


def main() -> None:
    """Write the lock, or compare it."""
    pins = closure(wanted())
    text = HEADER + "".join(f"{name}=={pins[name]}\n" for name in sorted(pins))
    if "--check" not in sys.argv:
        LOCK.write_text(text, encoding="utf-8")
        print(f"{LOCK.name}: {len(pins)} versions")
        return
    locked = set(re.findall(r"^[a-z0-9][^=\s]*", LOCK.read_text(encoding="utf-8"), re.MULTILINE))
    missing = sorted(set(pins) - locked)
    if missing:
        sys.exit(f"not in {LOCK.name}: {', '.join(missing)}; run `python .ci/lock.py`")


if __name__ == "__main__":
    main()
