"""Query of a program's options: `--fdl-schema`, or its argparse or typer parser, once per change."""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, final

import fdl_cli.entry_schema as asker
from fdl_cli.errors import FdlError
from fdl_cli.manifest.entry_arguments import remembered_schema, write_schema
from fdl_cli.manifest.entry_files import entry_command, entry_file, is_python
from fdl_cli.manifest.execute import task_environment
from fdl_cli.manifest.model import Flags, Invocation, Stored, Trouble
from fdl_cli.manifest.resolve import Found, resolve, text
from fdl_cli.manifest.schema import Schema, read_schema

PATIENCE_S: Final = 30.0
_PARSERS: Final = ("argparse", "typer", "click")
# A program that calls none of these would not stop before its work.
_READS_ARGUMENTS: Final = re.compile(
    r"\.parse_(known_)?args\(|\b(typer\.(Typer|run)|click\.(command|group))\b"
)


@final
class Answer(NamedTuple):
    """The answer of an entry: its document, or the reason why there is none."""

    document: Mapping[str, Any] | None
    reason: str


def entry_schema(stored: Stored, found: Found, environ: Mapping[str, str]) -> Schema | None:
    """Return the schema of a task's entry, from memory or by asking; None if it has none."""
    known, schema = remembered_schema(stored, found, environ)
    if known:
        return schema
    answer = ask(stored, found, environ)
    write_schema(stored, found, answer.document, answer.reason, environ)
    return None if answer.document is None else read_schema(answer.document)


def run_schema(
    stored: Stored, found: Found, environ: Mapping[str, str]
) -> tuple[Schema | None, str]:
    """Return the options of a `run` task that is a Python program of the project, or why it told none.

    The manifest does not call the program an entry, so it is only started if its text shows that it
    stops where it reads its arguments. It is asked each time: the defaults may come from any file, and a
    setup may cure a failure. The names of the options are remembered, for the next TAB.
    """
    file = entry_file(found)
    if text(found.task, "forward") == "never" or found.task.get("schema") is False:
        return None, ""
    if file is None or not is_python(found) or not _READS_ARGUMENTS.search(_text(Path(file))):
        return None, ""
    try:
        answer = ask(stored, found, environ)
    except Trouble as trouble:  # a variable that the manifest needs is not set
        return None, trouble.message
    if answer.document is None:
        return None, answer.reason
    write_schema(stored, found, answer.document, "", environ)
    return read_schema(answer.document), ""


def ask(stored: Stored, found: Found, environ: Mapping[str, str]) -> Answer:
    """Run the entry's program so far that it tells its options; it does no work.

    A program is only started if its text shows that it will answer and not begin to train.
    """
    command = entry_command(found)
    file = entry_file(found)
    if command is None or file is None:
        return Answer(None, "it is not a program in this project")
    text = _text(Path(file))
    if "fdl-schema" in text or "answer_schema" in text:
        words = (*command, "--fdl-schema")
    elif is_python(found) and any(name in text for name in _PARSERS):
        words = _asking(command)
    else:
        return Answer(None, "the program knows neither --fdl-schema nor argparse nor typer")
    return _run(words, stored, found, environ)


def _text(file: Path) -> str:
    # A package's `__main__.py` mostly delegates to a module beside it.
    files = sorted(file.parent.glob("*.py")) if file.name == "__main__.py" else [file]
    return "".join(path.read_text(encoding="utf-8", errors="replace") for path in files)


def _asking(command: tuple[str, ...]) -> tuple[str, ...]:
    position = 1
    while position < len(command) and command[position].startswith("-"):
        if command[position] == "-m":
            break
        position += 1
    return (*command[:position], str(Path(asker.__file__)), *command[position:])


def _run(
    words: tuple[str, ...], stored: Stored, found: Found, environ: Mapping[str, str]
) -> Answer:
    from fdl_cli.system.process import run

    # On this machine even for a task that runs in Docker: no container is started for a question.
    native = resolve(stored, found, Flags(place="native"), (), environ, os.path.exists)
    plan = Invocation(found.names, words, native.folder, native.changes, None, None, native.digest)
    environment = task_environment(plan, environ)
    try:
        done = run(words, cwd=Path(plan.folder), env=environment, timeout=PATIENCE_S, check=False)
    except FdlError as error:
        return Answer(None, error.message)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        last = (done.stderr.strip() or "no output").splitlines()[-1]
        return Answer(None, f"asking the program failed (exit code {done.returncode}): {last}")
    return _read(lines[-1])


def _read(line: str) -> Answer:
    try:
        document = json.loads(line)
        read_schema(document)
    except (ValueError, AttributeError, TypeError) as problem:
        return Answer(None, f"the answer to --fdl-schema is not a schema: {problem}")
    return Answer(document, "")
