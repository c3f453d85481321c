"""The list of commands: what `fdl --help` shows, known without importing any of them."""

from typing import Final, NamedTuple, final


@final
class CommandEntry(NamedTuple):
    """One word after `fdl`: the module that defines it and one line about it."""

    name: str
    module: str
    summary: str
    section: str


# The order here is the order of `fdl --help`.
COMMANDS: Final[tuple[CommandEntry, ...]] = (
    CommandEntry(
        "port", "fdl_cli.commands.port", "turn PyTorch code into flow graphs, and prove it", "Work"
    ),
    CommandEntry("help", "fdl_cli.commands.help", "explain a topic, such as exit-codes", "Help"),
)


def find(name: str) -> CommandEntry | None:
    """Return the entry of a command, or nothing; abbreviations are never accepted."""
    for entry in COMMANDS:
        if entry.name == name:
            return entry
    return None
