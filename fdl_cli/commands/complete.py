"""Answer to a shell at TAB: commands, tasks, options, values; it imports next to nothing."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from fdl_cli import __version__
from fdl_cli.apiref.quick import quick_cache
from fdl_cli.commands.registry import CURRENT, find, first_word, take_mode
from fdl_cli.completion.engine import (
    Candidate,
    CommandFacts,
    Completion,
    OptionFacts,
    complete_command,
    facts_from,
    matching,
)
from fdl_cli.completion.protocol import answer_text, read_question

_COLORS = ("auto", "always", "never")
_GLOBAL = (
    OptionFacts(("--help", "-h"), "show help", False, (), False, False),
    OptionFacts(("--version",), "show the version", False, (), False, False),
    OptionFacts(("--json",), "print one JSON document", False, (), False, False),
    OptionFacts(("--verbose", "-v"), "say more", False, (), False, True),
    OptionFacts(("--quiet", "-q"), "only data and errors", False, (), False, False),
    OptionFacts(("--color",), "when to use colour", True, _COLORS, False, False),
    OptionFacts(("--ansi", "--no-ansi"), "colour or none", False, (), False, False),
    OptionFacts(("--no-input",), "never ask a question", False, (), False, False),
    OptionFacts(("--env",), "the overlay fdl.<name>.yml", True, (), False, False),
)
_TASK_COMMANDS = ("run", "why")


def answer(shell: str, words: Sequence[str], environ: Mapping[str, str]) -> str:
    """Return the lines for a shell."""
    question = read_question(shell, words)
    completion = matching(_complete(question.words, question.current, environ), question.current)
    return answer_text(shell, completion)


def _complete(words: tuple[str, ...], current: str, environ: Mapping[str, str]) -> Completion:
    start = first_word(words)
    if start is None:
        facts = CommandFacts(_GLOBAL, ())
        found = complete_command(facts, words, current)
        if found.wanted == "--env":
            return found._replace(candidates=_overlays())
        return found if found.candidates else Completion(candidates=_first_words(environ))
    name, rest = words[start], words[start + 1 :]
    if find(name) is None:
        return _complete_task(words[start:], current, environ)
    mode, others = take_mode(name, rest)
    if mode is not None:
        return _complete_builtin(mode.name, others, current, environ)
    if name in _TASK_COMMANDS and not any(not word.startswith("-") for word in rest):
        if not current.startswith("-"):
            return Completion(candidates=_tasks(environ))
    elif name == "run":
        return _complete_task(rest, current, environ)
    return _complete_builtin(name, rest, current, environ)


def _complete_builtin(
    name: str, rest: tuple[str, ...], current: str, environ: Mapping[str, str]
) -> Completion:
    document = surface(environ)[name]
    path = name
    if "commands" in document:
        if not rest:
            inner = document["commands"].items()
            return Completion(candidates=tuple(Candidate(n, d["summary"]) for n, d in inner))
        if rest[0] not in document["commands"]:
            return Completion()
        path = f"{name} {rest[0]}"
        document, rest = document["commands"][rest[0]], rest[1:]
    found = complete_command(facts_from(document), rest, current)
    if found.wanted and not found.files:
        return found._replace(candidates=_values(path, found.wanted, environ))
    return found


def _values(path: str, wanted: str, environ: Mapping[str, str]) -> tuple[Candidate, ...]:
    """Return values that are known only here: names of the reference, topics, skills, overlays."""
    if path == "api-ref" and wanted == "name":
        from fdl_cli.apiref.quick import read_stored

        folder = quick_cache(environ)
        stored = None if folder is None else read_stored(folder)
        texts = {} if stored is None else stored["texts"]
        return tuple(Candidate(name) for name in texts if not name.startswith("flodl."))
    if path == "help":
        topics = [Candidate("exit-codes", "the meaning of each exit code")]
        return (*topics, *(Candidate(entry.name, entry.summary) for entry in CURRENT))
    if wanted == "--env":
        return _overlays()
    if path.startswith("skill ") and wanted == "name":
        return (Candidate("flodl-port", "port PyTorch code to flodl"),)
    if path.startswith("skill ") and wanted == "--for":
        return tuple(Candidate(tool) for tool in ("agents", "claude", "cursor"))
    return ()


def _complete_task(words: tuple[str, ...], current: str, environ: Mapping[str, str]) -> Completion:
    from fdl_cli.manifest.entry_arguments import remembered_schema
    from fdl_cli.manifest.resolve import find_task, table, text
    from fdl_cli.manifest.store import project_here

    stored = project_here(environ)
    found = None if stored is None else find_task(stored.tree, stored.root, words)
    if stored is None or found is None:
        return Completion(files=True)
    inner = tuple(Candidate(name) for name in table(found.task, "commands"))
    rest = words[len(found.names) :]
    forwarded = found.entry is not None or text(found.task, "forward") == "auto"
    if found.entry is None and "--" in rest:
        rest, forwarded = rest[rest.index("--") + 1 :], True
    # Of a `run` task, it is the schema that the last `--help` has read.
    schema = remembered_schema(stored, found, environ)[1] if forwarded else None
    if schema is None:
        return Completion(candidates=inner, files=True)
    facts = CommandFacts(
        tuple(_option(item) for item in schema.options),
        tuple(_option(item) for item in schema.arguments),
    )
    completion = complete_command(facts, rest, current)
    if completion.candidates or current.startswith("-"):
        return completion
    return completion._replace(candidates=inner, files=True)


def _option(item: Any) -> OptionFacts:
    names = (*item.spellings, *item.negated) or (item.name,)
    takes = item.type != "flag"
    return OptionFacts(names, item.summary, takes, item.choices, takes, item.repeats)


def _first_words(environ: Mapping[str, str]) -> tuple[Candidate, ...]:
    builtin = tuple(Candidate(entry.name, entry.summary) for entry in CURRENT)
    return (*(each for each in _tasks(environ) if find(each.value) is None), *builtin)


def _tasks(environ: Mapping[str, str]) -> tuple[Candidate, ...]:
    from fdl_cli.manifest.discover import in_project

    if not in_project():
        return ()
    from fdl_cli.manifest.listing import task_rows

    rows = task_rows(environ)
    return tuple(Candidate(name, summary) for name, summary in rows if name != "fdl.yml")


def _overlays() -> tuple[Candidate, ...]:
    from fdl_cli.manifest.discover import find_root

    root = find_root(os.getcwd())
    names = os.listdir(root) if root is not None else []
    found = [name[4:-4] for name in names if name.startswith("fdl.") and name.endswith(".yml")]
    return tuple(Candidate(name) for name in sorted(found) if name and name != "local")


def surface(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the options of all commands: remembered, or collected once and remembered."""
    import json

    folder = quick_cache(environ)
    state = _surface_state()
    path = "" if folder is None else os.path.join(folder, "completion", "surface.json")
    try:
        with open(path, encoding="utf-8") as stream:
            document = json.load(stream)
        if document["state"] == state:
            commands: dict[str, Any] = document["commands"]
            return commands
    except (OSError, ValueError, KeyError):
        pass
    from fdl_cli.commands.surface import collect, remember

    commands = collect()
    if path:
        remember(path, {"state": state, "commands": commands})
    return commands


def _surface_state() -> str:
    folder = os.path.dirname(os.path.abspath(__file__))
    with os.scandir(folder) as entries:
        facts = [entry.stat() for entry in entries if entry.name.endswith(".py")]
    newest = max(item.st_mtime_ns for item in facts)
    return f"{__version__} {newest} {len(facts)} {sum(item.st_size for item in facts)}"
