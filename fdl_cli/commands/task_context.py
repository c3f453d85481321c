"""The context of the task runner, shared by all commands that read a manifest."""

from fdl_cli.commands.registry import CURRENT
from fdl_cli.context import Context
from fdl_cli.manifest.project import Surroundings


def surroundings(context: Context) -> Surroundings:
    """Return the context of the task runner."""
    names = tuple(entry.name for entry in CURRENT)
    return Surroundings(cwd=context.cwd, environ=context.environ, commands=names)
