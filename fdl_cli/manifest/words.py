"""Parser of `fdl [FLAGS] [OVERLAY] TASK [SUBTASK ...] [ARGUMENTS] [-- ARGUMENTS]`.

On the path of `fdl <task>`. Nothing after `--` is ever looked at; nothing after the task's name
is, where the task takes its arguments without dashes.
"""

from typing import Final, NamedTuple, final

from fdl_cli.manifest.model import Flags, Trouble

_SWITCHES: Final = {
    "-n": Flags(dry_run=True),
    "--dry-run": Flags(dry_run=True),
    "-h": Flags(help=True),
    "--help": Flags(help=True),
    "--no-append": Flags(append=False),
    "--native": Flags(place="native"),
    "--docker": Flags(place="docker"),
    "--wait": Flags(wait=True),
    "-y": Flags(yes=True),
    "--yes": Flags(yes=True),
}
TASK_SWITCHES: Final = tuple(_SWITCHES)


@final
class Words(NamedTuple):
    """A task's name, the words before `--`, and those after it (None where there is no `--`)."""

    before: tuple[str, ...]
    after: tuple[str, ...] | None

    @property
    def all(self) -> tuple[str, ...]:
        """Return every argument; the first `--` itself is not one."""
        return (*self.before, *(self.after or ()))


def divide(words: tuple[str, ...]) -> Words:
    """Split at the first `--`."""
    if "--" not in words:
        return Words(words, None)
    middle = words.index("--")
    return Words(words[:middle], words[middle + 1 :])


def read_flags(words: tuple[str, ...]) -> tuple[Flags, tuple[str, ...]]:
    """Take the runner's own flags from the words; the others are returned in their order."""
    flags = Flags()
    rest: list[str] = []
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if word in _SWITCHES:
            flags = flags.merged(_SWITCHES[word])
        elif word == "--env":
            if position == len(words):
                raise Trouble("usage", "`--env` needs a name", "write `fdl --env NAME TASK`")
            flags = flags.merged(Flags(environment=words[position]))
            position += 1
        elif word.startswith("--env="):
            flags = flags.merged(Flags(environment=word[6:]))
        else:
            rest.append(word)
    return flags, tuple(rest)
