"""Options of every command, collected once in the form that completion reads."""

import contextlib
import json
from pathlib import Path
from typing import Any

from fdl_cli.commands.command import Command, CommandGroup
from fdl_cli.commands.execution import load
from fdl_cli.commands.parsing import parameter_facts
from fdl_cli.commands.registry import COMMANDS, modes_of
from fdl_cli.system.atomic import write_whole


def collect() -> dict[str, Any]:
    """Return the options and arguments of all commands, as plain lists."""
    found: dict[str, Any] = {}
    for entry in COMMANDS:
        loaded = load(entry)
        if isinstance(loaded, CommandGroup):
            inner = {
                word: {**_facts(command), "summary": loaded.summaries[word]}
                for word, command in loaded.commands.items()
            }
            found[entry.name] = {"commands": inner}
        else:
            facts = _facts(loaded)
            for mode in modes_of(entry.name):
                option = mode.today.rpartition(" ")[2]
                facts["options"].append([[option], mode.summary, False, [], False, False])
            found[entry.name] = facts
    return found


def remember(path: str, document: dict[str, Any]) -> None:
    """Store the table; a folder that cannot be written only costs time."""
    with contextlib.suppress(OSError):
        write_whole(Path(path), json.dumps(document, separators=(",", ":")).encode())


def _facts(command: Command[Any, Any]) -> dict[str, Any]:
    facts = parameter_facts(command.parse)
    return {
        "options": [list(item[1:]) for item in facts if item[0]],
        "arguments": [list(item[1:]) for item in facts if not item[0]],
    }
