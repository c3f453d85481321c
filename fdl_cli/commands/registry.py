"""The list of commands for `fdl --help`, known without importing any of them.

A command may have modes: options that make it another command, with a module of its own.

    fdl runs --again a1b2      the entry `rerun`, whose `today` is "runs --again"
    fdl rerun a1b2             the same; the word still works and is not listed
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, final


@final
class CommandEntry(NamedTuple):
    """One word after `fdl`: the module that defines it and one line about it.

    `today` is set for a word that is not listed any more: the words that mean the same.
    """

    name: str
    module: str
    summary: str
    section: str
    today: str = ""


# The order here is the order of `fdl --help`.
COMMANDS: Final[tuple[CommandEntry, ...]] = (
    CommandEntry("init", "fdl_cli.commands.init", "make a training project", "Work"),
    CommandEntry("add", "fdl_cli.commands.add", "add a part to a project: docker, ci ...", "Work"),
    CommandEntry(
        "port", "fdl_cli.commands.port", "turn PyTorch code into flow graphs, and prove it", "Work"
    ),
    CommandEntry("graph", "fdl_cli.commands.graph", "draw the flow graph of a model", "Work"),
    CommandEntry(
        "launch", "fdl_cli.commands.launch", "train in several processes, one model", "Work"
    ),
    CommandEntry("monitor", "fdl_cli.commands.monitor", "show runs in the browser, live", "Work"),
    CommandEntry(
        "checkpoint",
        "fdl_cli.commands.checkpoint",
        "look into checkpoints, check, migrate",
        "Work",
    ),
    CommandEntry("run", "fdl_cli.commands.run", "run a task of fdl.yml", "Tasks"),
    CommandEntry(
        "tasks", "fdl_cli.commands.tasks", "list the tasks of the project", "Tasks", "run --list"
    ),
    CommandEntry("why", "fdl_cli.commands.why", "explain what a task would run", "Tasks"),
    CommandEntry("runs", "fdl_cli.commands.runs", "list what was run, and how it ended", "Tasks"),
    CommandEntry(
        "rerun", "fdl_cli.commands.rerun", "run a recorded run again", "Tasks", "runs --again"
    ),
    CommandEntry(
        "schema", "fdl_cli.commands.schema", "the options of entries", "Tasks", "run --options"
    ),
    CommandEntry(
        "config", "fdl_cli.commands.config", "show the merged manifest", "Tasks", "why --manifest"
    ),
    CommandEntry(
        "setup", "fdl_cli.commands.setup", "install the torch that fits this machine", "Machine"
    ),
    CommandEntry(
        "libtorch", "fdl_cli.commands.torch_env", "keep several torch builds, switch", "Machine"
    ),
    CommandEntry(
        "torch", "fdl_cli.commands.torch_env", "the same as libtorch", "Machine", "libtorch"
    ),
    CommandEntry(
        "diagnose", "fdl_cli.commands.diagnose", "check Python, torch, GPUs, Docker", "Machine"
    ),
    CommandEntry(
        "install", "fdl_cli.commands.install", "make fdl a command in every shell", "Machine"
    ),
    CommandEntry(
        "api-ref", "fdl_cli.commands.api_ref", "explain a name of flodl, or a PyTorch one", "Help"
    ),
    CommandEntry("skill", "fdl_cli.commands.skill", "teach coding assistants to use fdl", "Help"),
    CommandEntry(
        "completions",
        "fdl_cli.commands.completions",
        "print a shell's completion script",
        "Help",
        "install --print-completion",
    ),
    CommandEntry(
        "autocomplete",
        "fdl_cli.commands.autocomplete",
        "turn on completion in a shell",
        "Help",
        "install --completion",
    ),
    CommandEntry("help", "fdl_cli.commands.help", "explain a topic, such as exit-codes", "Help"),
)


CURRENT: Final[tuple[CommandEntry, ...]] = tuple(each for each in COMMANDS if not each.today)
# The last line of `fdl --help` names `fdl help`, which is no row of the list.
LISTED: Final[tuple[CommandEntry, ...]] = tuple(each for each in CURRENT if each.name != "help")


def find(name: str) -> CommandEntry | None:
    """Return the entry of a command, or nothing; abbreviations are never accepted."""
    for entry in COMMANDS:
        if entry.name == name:
            return entry
    return None


def modes_of(name: str) -> tuple[CommandEntry, ...]:
    """Return the entries that are modes of a command, in their order.

    Example:
        >>> [mode.today for mode in modes_of("runs")]
        ['runs --again']
    """
    return tuple(each for each in COMMANDS if each.today.startswith(f"{name} "))


def take_mode(name: str, words: Sequence[str]) -> tuple[CommandEntry | None, tuple[str, ...]]:
    """Return the mode that the words of a command select, and the words without its option.

    Words after `--` are never looked at.

    Example:
        >>> mode, rest = take_mode("runs", ("a1", "--again", "-n"))
        >>> mode.name, rest
        ('rerun', ('a1', '-n'))
        >>> take_mode("runs", ("--", "--again"))
        (None, ('--', '--again'))
    """
    end = words.index("--") if "--" in words else len(words)
    for mode in modes_of(name):
        option = mode.today.rpartition(" ")[2]
        if option in words[:end]:
            at = words.index(option)
            return mode, (*words[:at], *words[at + 1 :])
    return None, tuple(words)


def first_word(words: Sequence[str]) -> int | None:
    """Return the position of the first word that is no option and no option's value.

    Example:
        >>> first_word(("--color", "never", "train"))
        2
    """
    waiting = False
    for index, word in enumerate(words):
        if waiting:
            waiting = False
        elif word.startswith("-"):
            waiting = word in ("--color", "--env")
        else:
            return index
    return None
