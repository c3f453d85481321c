"""Keys that a manifest may have, and rules for their values; every violation is found."""

import difflib
from collections.abc import Iterator, Mapping
from typing import Final, Literal, NamedTuple, assert_never, final

from fdl_cli.manifest.reading.document import Leaf, Node, Problem, Table

Kind = Literal[
    "text", "flag", "words", "texts", "scalars", "options", "tasks", "services", "build", "forward",
    "venv",
]  # fmt: skip


@final
class Key(NamedTuple):
    """One key of the manifest: its kind of value, and one line about it."""

    kind: Kind
    summary: str


PROJECT_KEYS: Final[Mapping[str, Key]] = {
    "description": Key("text", "one line about the project"),
    "commands": Key("tasks", "the tasks, by name"),
    "env": Key("scalars", "environment variables for every task"),
    "venv": Key("venv", "the virtual environment of the tasks, or false"),
    "requires": Key("texts", "packages that tasks need; where one is missing, fdl sets up first"),
    "services": Key("services", "Docker services, where there is no compose file"),
    "torch": Key("text", "the torch build that `fdl setup` chose, such as cpu or cu128"),
    "inherit-from": Key("text", "in an overlay: the overlay that lies below it"),
}
TASK_KEYS: Final[Mapping[str, Key]] = {
    "description": Key("text", "one line about the task"),
    "group": Key("text", "the heading it is listed under"),
    "hidden": Key("flag", "leave it out of lists"),
    "confirm": Key("text", "a question to answer first"),
    "run": Key("words", "a shell line, or a list: a program and its arguments"),
    "append": Key("words", "what follows the user's arguments; `--no-append` drops it"),
    "forward": Key("forward", "after-dashes, auto or never: which arguments are passed on"),
    "path": Key("text", "a folder whose own fdl.yml describes the task"),
    "entry": Key("words", "a program that takes options; it may answer `--fdl-schema`"),
    "options": Key("options", "options for the entry"),
    "training": Key("options", "options for the entry about the training: epochs, seed, lr ..."),
    "output": Key(
        "options", "options for the entry about its results: `dir` is `--output-dir` ..."
    ),
    "commands": Key("tasks", "presets of the entry, or further tasks"),
    "schema": Key("flag", "false: never ask the program for its options"),
    "docker": Key("text", "the service it runs in"),
    "cwd": Key("text", "the folder it runs in, from the manifest's folder"),
    "requires": Key("texts", "packages that it needs besides"),
    "needs": Key("texts", "tasks that run before it, such as data or `train quick`"),
    "env": Key("scalars", "environment variables"),
}
# The manifest in the folder of a `path:` task describes that task and nothing else.
CHILD_KEYS: Final[Mapping[str, Key]] = {
    name: key for name, key in TASK_KEYS.items() if name != "path"
} | {"inherit-from": PROJECT_KEYS["inherit-from"]}
SERVICE_KEYS: Final[Mapping[str, Key]] = {
    "image": Key("text", "the image, or the name of what `build` makes"),
    "build": Key("build", "a folder, or context, dockerfile, target, args"),
    "environment": Key("scalars", "environment variables"),
    "volumes": Key("texts", "FOLDER:PATH[:ro], or a named volume"),
    "working_dir": Key("text", "the folder inside; `/workspace` holds the project"),
    "user": Key("text", "UID:GID; without it, the caller's"),
    "shm_size": Key("text", "shared memory, such as 2gb"),
    "init": Key("flag", "run an init process"),
    "gpus": Key("text", "auto, all or none"),
    "network_mode": Key("text", "such as host or none"),
    "ports": Key("texts", "HOST:CONTAINER"),
    "entrypoint": Key("words", "replaces the image's entry point"),
}
BUILD_KEYS: Final[Mapping[str, Key]] = {
    "context": Key("text", "the folder that is sent to the engine"),
    "dockerfile": Key("text", "the Dockerfile, from the context"),
    "target": Key("text", "the stage"),
    "args": Key("scalars", "build arguments"),
    "network": Key("text", "the network of the build steps, such as host"),
}
FORWARD_WORDS: Final = ("after-dashes", "auto", "never")


def find_key_problems(table: Table, keys: Mapping[str, Key]) -> Iterator[Problem]:
    """Yield unknown keys and values of the wrong kind, at every depth."""
    for name, node in table.entries.items():
        key = keys.get(name)
        if key is None:
            near = difflib.get_close_matches(name, list(keys), n=1)
            known = ", ".join(f"`{item}`" for item in keys)
            hint = f"did you mean `{near[0]}`?" if near else f"known here: {known}"
            yield Problem(node.place, f"unknown key `{name}`", hint)
        elif not _is_null(node):
            yield from _value_problems(name, node, key.kind)


def _value_problems(name: str, node: Node, kind: Kind) -> Iterator[Problem]:
    match kind:
        case "tasks" | "services":
            yield from _table_problems(name, node, kind)
        case "scalars" | "options":
            yield from _mapping_problems(name, node, lists=kind == "options")
        case "build" if isinstance(node, Table):
            yield from find_key_problems(node, BUILD_KEYS)
        case "flag":
            if not (isinstance(node, Leaf) and isinstance(node.value, bool)):
                yield Problem(node.place, f"`{name}` must be true or false", f"`{name}: true`")
        case "venv" if isinstance(node, Leaf) and node.value is False:
            return
        case "words" | "texts":
            yield from _words_problems(name, node, text_too=kind == "words")
        case "forward":
            yield from _text_problems(name, node)
            yield from _forward_problems(node)
        case "text" | "venv" | "build":
            yield from _text_problems(name, node)
        case _:
            assert_never(kind)


def _forward_problems(node: Node) -> Iterator[Problem]:
    if isinstance(node, Leaf) and node.text not in FORWARD_WORDS:
        near = difflib.get_close_matches(str(node.text), FORWARD_WORDS, n=1)
        hint = f"did you mean `{near[0]}`?" if near else f"one of: {', '.join(FORWARD_WORDS)}"
        yield Problem(node.place, f"`forward` cannot be `{node.text}`", hint)


def _text_problems(name: str, node: Node) -> Iterator[Problem]:
    if isinstance(node, Table) or isinstance(node.value, tuple):
        yield Problem(node.place, f"`{name}` must be text", f"write `{name}: ...` on one line")
    elif isinstance(node.value, bool):
        hint = f'put quotes around it: `{name}: "{node.text}"`'
        yield Problem(node.place, f"`{name}` must be text, not {node.text}", hint)
    elif "\0" in str(node.text):
        yield Problem(node.place, f"`{name}` holds a NUL character", "remove it")


def _words_problems(name: str, node: Node, *, text_too: bool) -> Iterator[Problem]:
    if isinstance(node, Table):
        yield Problem(node.place, f"`{name}` must be a list", f"write `{name}: [...]`")
    elif not isinstance(node.value, tuple):
        if text_too:
            yield from _text_problems(name, node)
        else:
            yield Problem(node.place, f"`{name}` must be a list", f"`{name}: [{node.text}]`")
    elif not node.value and text_too:
        yield Problem(node.place, f"`{name}` is an empty list", "name a program")
    elif any(item is None or isinstance(item, bool) for item in node.value):
        hint = 'put quotes around it: ["true"]'
        yield Problem(node.place, f"`{name}` holds a value that is no text", hint)


def _mapping_problems(name: str, node: Node, *, lists: bool) -> Iterator[Problem]:
    if not isinstance(node, Table):
        yield Problem(node.place, f"`{name}` must be a mapping", f"write `{name}: {{KEY: value}}`")
        return
    for key, value in node.entries.items():
        if isinstance(value, Table) or (isinstance(value.value, tuple) and not lists):
            yield Problem(value.place, f"`{name}.{key}` must be one value", "write it as text")
        elif not lists and ("=" in key or not key):
            yield Problem(value.place, f"`{key}` cannot be a variable's name", "rename it")


def _table_problems(name: str, node: Node, kind: Kind) -> Iterator[Problem]:
    if not isinstance(node, Table):
        yield Problem(node.place, f"`{name}` must be a mapping", f"write `{name}:` and indent")
        return
    keys = TASK_KEYS if kind == "tasks" else SERVICE_KEYS
    word = "task" if kind == "tasks" else "service"
    for inner, value in node.entries.items():
        if isinstance(value, Table):
            yield from find_key_problems(value, keys)
        elif not _is_null(value):
            hint = f"write `{inner}:` and, indented below it, `run: ...`"
            yield Problem(value.place, f"the {word} `{inner}` must be a mapping", hint)


def _is_null(node: Node) -> bool:
    return isinstance(node, Leaf) and node.value is None
