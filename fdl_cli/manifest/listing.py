"""The tasks of the project around, for the overview: remembered, or loaded if they must be.

On the path of `fdl --help`.
"""

import os
from collections.abc import Mapping

from fdl_cli.manifest.describe import rows
from fdl_cli.manifest.model import Tree
from fdl_cli.manifest.store import project_here


def project_tree(environ: Mapping[str, str]) -> Tree | None:
    """Return the merged manifest of this folder's project; None if there is none, or it is broken.

    Raises:
        FdlError: the manifest is invalid.
    """
    stored = project_here(environ)
    if stored is not None:
        return stored.tree
    from pathlib import Path

    from fdl_cli.manifest.project import Surroundings, open_project

    around = Surroundings(cwd=Path(os.getcwd()), environ=environ)
    return open_project(around, None).stored.tree


def task_rows(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return name and summary of every task that is shown; a broken manifest is named instead."""
    stored = project_here(environ)
    if stored is not None:
        return _shown(stored.tree)
    from fdl_cli.errors import FdlError

    try:
        tree = project_tree(environ)
    except FdlError as error:
        return [("fdl.yml", f"cannot be read: {error.message}; see `fdl run --list`")]
    return [] if tree is None else _shown(tree)


def _shown(tree: Tree) -> list[tuple[str, str]]:
    return [(row.name, row.summary) for row in rows(tree)]
