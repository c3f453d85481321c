"""The long way from the words of `fdl TASK ...` to a task, which can explain itself."""

import difflib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import final

from fdl_cli.errors import NotFoundError, UsageError
from fdl_cli.manifest.entry_arguments import entry_arguments
from fdl_cli.manifest.model import Flags, Invocation, Trouble
from fdl_cli.manifest.probe import entry_schema
from fdl_cli.manifest.project import (
    Project,
    Surroundings,
    explained,
    open_project,
    take_overlay,
)
from fdl_cli.manifest.reading.document import Table
from fdl_cli.manifest.reading.needs import needed
from fdl_cli.manifest.reading.overlay import lookup
from fdl_cli.manifest.resolve import (
    Found,
    find_task,
    read_task_words,
    require_forwardable,
    require_runnable,
    resolve,
)
from fdl_cli.manifest.words import Words, read_flags


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A requested task: the project, the task, the flags, and the task's own words."""

    project: Project
    found: Found
    flags: Flags
    given: Words
    words: tuple[str, ...]


def read_request(
    around: Surroundings, words: tuple[str, ...], leading: Flags, *, overlay_word: bool
) -> Request:
    """Find the task that the words name, with the overlay that they name.

    Raises:
        NotFoundError: there is no project, overlay or task of that name.
        UsageError: the words do not fit together.
        ConfigError: the manifest is invalid.
    """
    environment = leading.environment
    rest = words
    try:
        flags, rest = _more_flags(rest)
    except Trouble as trouble:
        raise explained(trouble) from trouble
    leading = leading.merged(flags)
    environment = leading.environment
    if overlay_word:
        environment, rest = take_overlay(around, rest, asked=environment)
    project = open_project(around, environment)
    found = _require_task(project, rest, around.commands)
    try:
        own, given = read_task_words(found)
    except Trouble as trouble:
        raise explained(trouble) from trouble
    flags = leading.merged(own)
    if own.environment is not None and own.environment != environment:
        again = (*found.names, *found.words)
        project = open_project(around, own.environment)
        found = _require_task(project, again, around.commands)
    return Request(project=project, found=found, flags=flags, given=given, words=rest)


def needed_by(request: Request) -> tuple[Found, ...]:
    """Return the tasks that must run before that of a request, each once, after what it needs itself."""
    stored = request.project.stored
    return needed(stored.tree, stored.root, request.found)


def prepare(request: Request, around: Surroundings) -> Invocation:
    """Return exactly the program that will run.

    Raises:
        UsageError: the arguments do not fit.
        EnvironmentLackingError: a variable that the manifest needs is not set.
    """
    found, given = request.found, request.given
    stored = request.project.stored
    try:
        require_runnable(found)
        require_forwardable(found, given)
        arguments = given.all
        if found.entry is not None:
            schema = entry_schema(stored, found, around.environ)
            arguments = entry_arguments(found, schema, given, around.environ)
        return resolve(stored, found, request.flags, arguments, around.environ, os.path.exists)
    except Trouble as trouble:
        error = explained(trouble)
        table = lookup(request.project.manifest.table, task_path(found.names))
        if isinstance(table, Table) and trouble.path:
            error.file = str(request.project.manifest.root / table.place.file)
            error.line, error.column = table.place.line, table.place.column
        raise error from trouble


def task_path(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the path of a task in the manifest.

    Example:
        >>> task_path(("train", "quick"))
        ('commands', 'train', 'commands', 'quick')
    """
    return tuple(part for name in names for part in ("commands", name))


def _more_flags(words: tuple[str, ...]) -> tuple[Flags, tuple[str, ...]]:
    """Read flags between `fdl run` and the task's name."""
    position = 0
    while position < len(words) and words[position].startswith("-") and words[position] != "--":
        position += 2 if words[position] == "--env" else 1
    flags, unknown = read_flags(words[:position])
    if unknown:
        raise UsageError(
            error_id="option-unknown",
            message=f"there is no option `{unknown[0]}` before a task's name",
            hint="see `fdl run --help`",
        )
    return flags, words[position:]


def _require_task(project: Project, words: tuple[str, ...], commands: tuple[str, ...]) -> Found:
    if not words or words[0] == "--":
        raise UsageError(
            error_id="usage", message="a task is missing", hint="`fdl run --list` lists them"
        )
    found = find_task(project.stored.tree, project.stored.root, words)
    if found is not None:
        return found
    tasks = lookup(project.manifest.table, ("commands",))
    names = list(tasks.entries) if isinstance(tasks, Table) else []
    near = difflib.get_close_matches(words[0], [*names, *sorted(commands)], n=1)
    shown = Path(project.stored.root) / "fdl.yml"
    raise NotFoundError(
        error_id="task-unknown",
        message=f"there is no task `{words[0]}` in `{shown.name}`",
        hint=f"did you mean `fdl {near[0]}`?" if near else "`fdl run --list` lists them",
        file=str(shown),
    )
