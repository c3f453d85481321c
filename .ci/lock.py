"""Write constraints.txt: the exact versions of everything the project and its tests need.

The versions are those of the environment that runs this script, so that what is locked is what
was tested. New projects of `fdl init` start with their share of them, in the `constraints.txt` of
the templates. Usage: `.venv/bin/python .ci/lock.py [--check]`.
"""

import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Final

from packaging.markers import default_environment
from packaging.requirements import Requirement

from fdl_cli.scaffold.answers import make_answers
from fdl_cli.scaffold.rendering import render
from fdl_cli.torch_setup.install.dependency_lock import Distribution, closure, lock_text

ROOT = Path(__file__).parent.parent
LOCK: Final = ROOT / "constraints.txt"
TEMPLATES: Final = ROOT / "templates" / "project"
HEADER: Final = """\
# Exact versions of the locked environment. Made by `python .ci/lock.py`; do not edit by hand.
# torch carries no build here: `./fdl` adds +cpu where the machine has no GPU.
"""
DOCUMENT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT: Final = DOCUMENT["project"]
BACKEND: Final = DOCUMENT["build-system"]["requires"]
NEW_PROJECTS: Final = {"base": False, "hf": True}  # the part, and whether it has transformers


def needs(requirement: Requirement) -> list[Requirement]:
    """Return a requirement, or in place of flodl what its pyproject.toml asks for."""
    if requirement.name != "flodl":
        return [requirement]
    extras = PROJECT["optional-dependencies"]
    texts = [
        *PROJECT["dependencies"],
        *(text for extra in requirement.extras for text in extras[extra]),
    ]
    return [need for text in texts for need in needs(Requirement(text))]


def wanted() -> list[Requirement]:
    """Return what pyproject.toml asks for, in all extras, and the build backend."""
    extras = ",".join(PROJECT["optional-dependencies"])
    return [*map(Requirement, BACKEND), *needs(Requirement(f"flodl[{extras}]"))]


def wanted_by_new(*, with_hf: bool) -> list[Requirement]:
    """Return what the pyproject.toml of a new project asks for."""
    files = {each.path: each.text for each in render(make_answers("new", with_hf=with_hf))}
    project = tomllib.loads(files["pyproject.toml"])["project"]
    texts = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    return [need for text in texts for need in needs(Requirement(text))]


def installed(
    roots: list[Requirement], unfollowed: frozenset[str] = frozenset()
) -> dict[str, str]:
    """Return name -> version of the roots and of everything they need here."""

    def find(name: str) -> Distribution:
        requires = metadata.requires(name) or []
        return Distribution(version=metadata.version(name), requires=tuple(requires))

    try:
        return closure(roots, find, default_environment(), unfollowed)
    except ValueError as problem:
        sys.exit(str(problem))


def main() -> None:
    """Write the locks, or compare them."""
    pins = installed(wanted())
    text = HEADER + "".join(f"{name}=={pins[name]}\n" for name in sorted(pins))
    locks = {LOCK: text}
    for part, with_hf in NEW_PROJECTS.items():
        share = installed(wanted_by_new(with_hf=with_hf), frozenset({"torch"}))
        locks[TEMPLATES / part / LOCK.name] = lock_text(share)
    for path, text in locks.items():
        if "--check" not in sys.argv:
            path.write_text(text, encoding="utf-8")
            print(f"{path.relative_to(ROOT)}: {text.count('==')} versions")
            continue
        missing = sorted(_names(text) - _names(path.read_text(encoding="utf-8")))
        if missing:
            sys.exit(f"not in {path}: {', '.join(missing)}; run `python .ci/lock.py`")


def _names(text: str) -> set[str]:
    return set(re.findall(r"^[a-z0-9][^=\s]*", text, re.MULTILINE))


if __name__ == "__main__":
    main()
