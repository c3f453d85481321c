"""The list of commands for `fdl --help`, known without importing any of them."""

from typing import Final, NamedTuple, final


@final
class CommandEntry(NamedTuple):
    """One word after `fdl`: the module that defines it and one line about it.

    `alias_of` names the command that this one is another word for.
    """

    name: str
    module: str
    summary: str
    section: str
    alias_of: str = ""


# The order here is the order of `fdl --help`.
COMMANDS: Final[tuple[CommandEntry, ...]] = (
    CommandEntry("init", "fdl_cli.commands.init", "make a training project", "Work"),
    CommandEntry("add", "fdl_cli.commands.add", "add a part to a project: docker, ci ...", "Work"),
    CommandEntry(
        "port", "fdl_cli.commands.port", "turn PyTorch code into flow graphs, and prove it", "Work"
    ),
    CommandEntry("graph", "fdl_cli.commands.graph", "draw the flow graph of a model", "Work"),
    CommandEntry("monitor", "fdl_cli.commands.monitor", "show runs in the browser, live", "Work"),
    CommandEntry(
        "checkpoint",
        "fdl_cli.commands.checkpoint",
        "look into checkpoints, check, migrate",
        "Work",
    ),
    CommandEntry("run", "fdl_cli.commands.run", "run a task of fdl.yml", "Tasks"),
    CommandEntry("tasks", "fdl_cli.commands.tasks", "list the tasks of the project", "Tasks"),
    CommandEntry("why", "fdl_cli.commands.why", "explain what a task would run", "Tasks"),
    CommandEntry("runs", "fdl_cli.commands.runs", "list what was run, and how it ended", "Tasks"),
    CommandEntry("rerun", "fdl_cli.commands.rerun", "run a recorded run again", "Tasks"),
    CommandEntry("schema", "fdl_cli.commands.schema", "the options of entries", "Tasks"),
    CommandEntry("config", "fdl_cli.commands.config", "show the merged manifest", "Tasks"),
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
        "completions", "fdl_cli.commands.completions", "print a shell's completion script", "Help"
    ),
    CommandEntry(
        "autocomplete", "fdl_cli.commands.autocomplete", "turn on completion in a shell", "Help"
    ),
    CommandEntry("help", "fdl_cli.commands.help", "explain a topic, such as exit-codes", "Help"),
)


def find(name: str) -> CommandEntry | None:
    """Return the entry of a command, or nothing; abbreviations are never accepted."""
    for entry in COMMANDS:
        if entry.name == name:
            return entry
    return None
