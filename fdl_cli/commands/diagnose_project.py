"""The checks of `fdl diagnose` that need other packages: the scaffold's version, the skills'."""

from collections.abc import Iterator
from pathlib import Path

from fdl_cli import __version__
from fdl_cli.diagnose.check import Check, check
from fdl_cli.errors import ConfigError


def project_checks(root: Path) -> Iterator[Check]:
    """Compare the generated and installed files of a project with those of this fdl."""
    yield _scaffold(root)
    yield _skills(root)


def _scaffold(root: Path) -> Check:
    from fdl_cli.scaffold.record import RECORD, read_record

    if not (root / RECORD).is_file():
        return check("project.scaffold-version", "info", "the project was not made by `fdl init`")
    try:
        version = read_record(root).version
    except ConfigError as problem:
        return check("project.scaffold-version", "error", problem.message, problem.hint)
    if version == __version__:
        return check("project.scaffold-version", "ok", f"made by fdl {version}", version=version)
    return check(
        "project.scaffold-version",
        "warning",
        f"made by fdl {version}, this is fdl {__version__}",
        "`fdl init --update`",
        version=version,
    )


def _skills(root: Path) -> Check:
    from fdl_cli.skill.bundled import bundled_skills
    from fdl_cli.skill.lock import read_lock

    try:
        installed = read_lock(root)
    except ConfigError as problem:
        return check("skill.version", "error", problem.message, problem.hint)
    old = [
        f"{skill.name} {installed[skill.name].version} (this fdl has {skill.version})"
        for skill in bundled_skills()
        if skill.name in installed and installed[skill.name].version != skill.version
    ]
    if old:
        return check("skill.version", "warning", ", ".join(old), "`fdl skill update`")
    if not installed:
        return check("skill.version", "info", "no skill for assistants is installed here")
    return check("skill.version", "ok", "the installed skills are those of this fdl")
