"""Resolution of a command line's words to the exact program, by the manifest alone; pure.

On the path of `fdl <task>`: everything it needs comes in as arguments, nothing is read.
"""

import os
import sys
from collections.abc import Callable, Mapping
from typing import NamedTuple, final

from fdl_cli.manifest.model import (
    Change,
    Flags,
    Invocation,
    PassedOver,
    Stored,
    Tree,
    Trouble,
    Value,
)
from fdl_cli.manifest.variables import fill_in
from fdl_cli.manifest.words import Words, divide, read_flags

_USUAL_PATH = "/usr/local/bin:/usr/bin:/bin"
# A task may call itself with other arguments; nobody means to do it so often.
MOST_CALLS = 20


@final
class Found(NamedTuple):
    """A task found by its words: the tasks that lead to it, itself, and the words that are left.

    `parents` are the entry tasks above a preset, outermost first; `folder` is the manifest's
    folder that the task's own paths count from.
    """

    names: tuple[str, ...]
    parents: tuple[Tree, ...]
    task: Tree
    folder: str
    words: tuple[str, ...]

    @property
    def entry(self) -> Tree | None:
        """Return the task whose `entry` runs: this one, or for a preset the one above."""
        if "run" in self.task:
            return None
        for task in (self.task, *reversed(self.parents)):
            if "entry" in task:
                return task
        return None


def table(tree: Tree, key: str) -> Tree:
    """Return the mapping at a key; an absent one is empty."""
    value = tree.get(key)
    return value if isinstance(value, dict) else {}


def text(tree: Tree, key: str) -> str | None:
    """Return the text at a key, or nothing."""
    value = tree.get(key)
    return value if isinstance(value, str) else None


def find_task(tree: Tree, root: str, words: tuple[str, ...]) -> Found | None:
    """Follow the words down to a task; presets and nested tasks are further words."""
    folder = root
    names: tuple[str, ...] = ()
    parents: tuple[Tree, ...] = ()
    found: Found | None = None
    inside = tree
    for position, word in enumerate(words):
        task = table(inside, "commands").get(word)
        if not isinstance(task, dict):
            break
        folder = text(task, "path") or folder
        names = (*names, word)
        found = Found(names, parents, task, folder, words[position + 1 :])
        parents = (*parents, task)
        inside = task
    return found


def read_task_words(found: Found) -> tuple[Flags, Words]:
    """Divide the words after a task's name into flags for the runner and the task's arguments."""
    words = divide(found.words)
    forward = text(found.task, "forward")
    if found.entry is not None or forward == "auto":
        help_wanted = bool({"-h", "--help"} & set(words.before))
        return Flags(help=help_wanted), words
    flags, rest = read_flags(words.before)
    return flags, Words(rest, words.after)


def require_forwardable(found: Found, words: Words) -> None:
    """Refuse arguments that the task does not take.

    Raises:
        Trouble: with the command line as it should be.
    """
    if found.entry is not None:
        return
    forward = text(found.task, "forward")
    name = " ".join(found.names)
    if forward == "never" and words.all:
        message = f"the task `{name}` takes no arguments"
        raise Trouble("arguments", message, f"write `fdl {name}`", found.names)
    if forward != "auto" and words.before:
        from shlex import join

        message = f"the task `{name}` takes its arguments after `--`, not `{words.before[0]}`"
        corrected = join(words.all)
        raise Trouble("arguments", message, f"write `fdl {name} -- {corrected}`", found.names)


def resolve(
    stored: Stored,
    found: Found,
    flags: Flags,
    arguments: tuple[str, ...],
    environ: Mapping[str, str],
    exists: Callable[[str], bool],
) -> Invocation:
    """Return the program to run; `arguments` are exactly the words that it will get."""
    require_runnable(found)
    _require_end(calls_so_far(environ, stored.root), " ".join(found.names))
    service, passed_over = _service(found, flags, environ, exists)
    folder = _folder(found, environ)
    changes = _changes(stored, found, environ, exists, native=service is None)
    return Invocation(
        task=found.names,
        argv=_argv(found, flags, arguments),
        folder=folder,
        changes=changes,
        service=service,
        confirm=None if flags.yes else text(found.task, "confirm"),
        digest=stored.digest,
        passed_over=passed_over,
    )


def require_runnable(found: Found) -> None:
    """Refuse a task whose words lead to nothing that runs."""
    if "run" not in found.task and found.entry is None:
        name = " ".join(found.names)
        raise Trouble("arguments", f"`fdl {name}` needs a task", f"see `fdl {name} --help`")


def calls_so_far(environ: Mapping[str, str], root: str) -> tuple[str, ...]:
    """Return the tasks of this project that lead to this process, outermost first."""
    chain = environ.get("FDL_CALLS", "") if environ.get("FDL_ROOT") == root else ""
    return tuple(chain.split(" > ")) if chain else ()


def _require_end(calls: tuple[str, ...], name: str) -> None:
    """Refuse a task that calls itself without an end."""
    if calls.count(name) >= MOST_CALLS:
        shown = " > ".join((*calls[-2:], name))
        message = f"the task `{name}` calls itself, {MOST_CALLS} times so far: ... > {shown}"
        hint = f"`fdl why {name}` shows what it runs; a program of the same name needs its path"
        raise Trouble("usage", message, hint)


def _argv(found: Found, flags: Flags, arguments: tuple[str, ...]) -> tuple[str, ...]:
    entry = found.entry
    command = entry.get("entry") if entry is not None else found.task.get("run")
    if isinstance(command, list):
        return (*_words(command), *arguments, *_appended(found, flags))
    script = str(command)
    name = "fdl-" + "-".join(found.names)
    if entry is None and flags.append:
        tail = found.task.get("append")
        return _shell(_script(script, arguments, tail, found), name, arguments)
    return _shell(_script(script, arguments, None, found), name, arguments)


def _shell(script: str, name: str, arguments: tuple[str, ...]) -> tuple[str, ...]:
    # The arguments are parameters of the shell and never part of its text.
    return ("sh", "-c", script, name, *arguments)


def _script(script: str, arguments: tuple[str, ...], tail: Value, found: Found) -> str:
    line = script.strip()
    places = any(mark in line for mark in ("$@", "$*", "${@", "${*", "$1", "${1"))
    if not places and arguments:
        if "\n" in line or "#" in line or "<<" in line or line.endswith((";", "&", "|", "\\")):
            name = " ".join(found.names)
            message = f"it is not clear where in `run` of `{name}` the arguments belong"
            raise Trouble("arguments", message, 'write "$@" there in fdl.yml', found.names)
        line = f'{line} "$@"'
    if tail is None:
        return line
    if isinstance(tail, list):
        from shlex import join

        return f"{line} {join(_words(tail))}"
    return f"{line} {tail}"


def _appended(found: Found, flags: Flags) -> tuple[str, ...]:
    tail = found.task.get("append") if flags.append and found.entry is None else None
    if isinstance(tail, list):
        return _words(tail)
    if isinstance(tail, str):
        from shlex import split

        return tuple(split(tail))
    return ()


def _words(values: list[Value]) -> tuple[str, ...]:
    return tuple(str(value) for value in values)


def _service(
    found: Found, flags: Flags, environ: Mapping[str, str], exists: Callable[[str], bool]
) -> tuple[str | None, PassedOver | None]:
    service = None
    for task in (*found.parents, found.task):
        service = text(task, "docker") or service
    if flags.place == "docker" and service is None:
        name = " ".join(found.names)
        hint = "add `docker: SERVICE` to it in fdl.yml"
        raise Trouble("arguments", f"the task `{name}` names no service", hint, found.names)
    if service is None or flags.place == "native":
        return None, None
    sign = sign_of_container(environ, exists) if flags.place is None else None
    return (service, None) if sign is None else (None, PassedOver(service, sign))


def sign_of_container(environ: Mapping[str, str], exists: Callable[[str], bool]) -> str | None:
    """Return what says that this process is in a container, where tasks stay; None outside."""
    named = environ.get("FDL_IN_CONTAINER")
    if named:
        return None if named == "0" else f"FDL_IN_CONTAINER={named}"
    return next((file for file in ("/.dockerenv", "/run/.containerenv") if exists(file)), None)


def surprise(invocation: Invocation, environ: Mapping[str, str]) -> str | None:
    """Return a note where a task runs elsewhere than its manifest says and nobody said so.

    A container that sets FDL_IN_CONTAINER has said so. Tasks that a task calls say nothing again.
    """
    passed_over = invocation.passed_over
    if passed_over is None or environ.get("FDL_IN_CONTAINER") or environ.get("FDL_CALLS"):
        return None
    return passed_over.note(invocation.task)


def _folder(found: Found, environ: Mapping[str, str]) -> str:
    own = text(found.task, "cwd")
    for task in reversed(found.parents):
        own = own or text(task, "cwd")
    if own is None:
        return found.folder
    own = fill_in(own, environ, "cwd")
    return own if own.startswith("/") else f"{found.folder}/{own}"


def _changes(
    stored: Stored,
    found: Found,
    environ: Mapping[str, str],
    exists: Callable[[str], bool],
    *,
    native: bool,
) -> tuple[Change, ...]:
    changes: dict[str, Change] = {}
    if native:
        for change in _venv(stored, environ, exists):
            changes[change.name] = change
    levels: list[tuple[Tree, tuple[str, ...]]] = [(stored.tree, ("env",))]
    for depth, task in enumerate((*found.parents, found.task), 1):
        path = tuple(part for name in found.names[:depth] for part in ("commands", name))
        levels.append((task, (*path, "env")))
    for tree, place in levels:
        for name, value in table(tree, "env").items():
            filled = fill_in(_scalar(value), environ, f"env.{name}")
            changes[name] = Change(name, filled, ".".join((*place, name)))
    for name, value in _own(stored, found).items():
        changes[name] = Change(name, value, "fdl")
    return tuple(changes.values())


def _own(stored: Stored, found: Found) -> dict[str, str]:
    own = {"FDL_TASK": " ".join(found.names), "FDL_ROOT": stored.root}
    if stored.environment is not None:
        own["FDL_ENV"] = stored.environment
    return own


def _scalar(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _venv(
    stored: Stored, environ: Mapping[str, str], exists: Callable[[str], bool]
) -> tuple[Change, ...]:
    named = stored.tree.get("venv")
    if named is False:
        return ()
    name = named if isinstance(named, str) else ".venv"
    folder = name if name.startswith("/") else f"{stored.root}/{name}"
    if not exists(f"{folder}/bin"):
        return _other_python(environ, exists)
    path = environ.get("PATH", _USUAL_PATH)
    first = path.split(":")[0]
    joined = path if first == f"{folder}/bin" else f"{folder}/bin:{path}"
    return (
        Change("PATH", joined, f"the environment `{name}`"),
        Change("VIRTUAL_ENV", folder, f"the environment `{name}`"),
    )


def _other_python(environ: Mapping[str, str], exists: Callable[[str], bool]) -> tuple[Change, ...]:
    """Return the change of PATH for a project without an environment, in the order of every command."""
    path = environ.get("PATH", _USUAL_PATH)
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        folder = environ.get(variable)
        if folder and exists(f"{folder}/bin"):
            if f"{folder}/bin" in path.split(":"):
                return ()
            return (
                Change("PATH", f"{folder}/bin:{path}", f"the active environment ({variable})"),
            )
    own = os.path.dirname(sys.executable)
    # Last: tasks of a project that needs no environment keep the programs that they have.
    if own in path.split(":") or not exists(own):
        return ()
    return (Change("PATH", f"{path}:{own}", "the Python of fdl itself"),)


def required(stored: Stored, found: Found) -> tuple[str, ...]:
    """Return the packages that a task needs: those of the project, of tasks above it, its own."""
    names: dict[str, None] = {}
    for tree in (stored.tree, *found.parents, found.task):
        listed: Value = tree.get("requires")
        for name in listed if isinstance(listed, list) else ():
            names[str(name)] = None
    return tuple(names)
