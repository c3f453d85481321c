"""The options that every command has, and the hand-written reader for those before its name."""

from typing import Final, Literal, NamedTuple, final

from fdl_cli.errors import UsageError
from fdl_cli.manifest.words import TASK_SWITCHES

ColorWord = Literal["auto", "always", "never"]
_COLOR_WORDS: Final[dict[str, ColorWord]] = {
    "auto": "auto",
    "always": "always",
    "never": "never",
}


@final
class GlobalOptions(NamedTuple):
    """The form of the output: the same meaning before and after the command's name."""

    json: bool = False
    verbose: int = 0
    quiet: bool = False
    color: ColorWord = "auto"
    no_input: bool = False

    @property
    def verbosity(self) -> int:
        """Return -1 for quiet, else how often `-v` was given."""
        return -1 if self.quiet else self.verbose

    def merged(self, later: "GlobalOptions") -> "GlobalOptions":
        """Return both sets together; the later option on the command line wins."""
        return GlobalOptions(
            json=self.json or later.json,
            verbose=max(self.verbose, later.verbose),
            quiet=self.quiet or later.quiet,
            color=self.color if later.color == "auto" else later.color,
            no_input=self.no_input or later.no_input,
        )


@final
class Leading(NamedTuple):
    """The words before the command's name, and everything from it on.

    `task` are options for the task runner, which also come before a task's name.
    """

    options: GlobalOptions
    help: bool
    version: bool
    rest: tuple[str, ...]
    task: tuple[str, ...] = ()


_SWITCHES: Final[dict[str, GlobalOptions]] = {
    "--json": GlobalOptions(json=True),
    "-v": GlobalOptions(verbose=1),
    "--verbose": GlobalOptions(verbose=1),
    "-vv": GlobalOptions(verbose=2),
    "-vvv": GlobalOptions(verbose=3),
    "-q": GlobalOptions(quiet=True),
    "--quiet": GlobalOptions(quiet=True),
    "--ansi": GlobalOptions(color="always"),
    "--no-ansi": GlobalOptions(color="never"),
    "--no-input": GlobalOptions(no_input=True),
}


def read_leading(arguments: tuple[str, ...]) -> Leading:
    """Read the options before the first word; the rest is never looked at.

    Raises:
        UsageError: an option is unknown here.
    """
    options = GlobalOptions()
    wants_help = wants_version = False
    task: list[str] = []
    position = 0
    while position < len(arguments) and arguments[position].startswith("-"):
        word = arguments[position]
        position += 1
        if word in ("-h", "--help"):
            wants_help = True
        elif word in ("-V", "--version"):
            wants_version = True
        elif word == "--color" or word.startswith("--color="):
            value, position = _color_value(word, arguments, position)
            options = options.merged(GlobalOptions(color=value))
        elif word in _SWITCHES:
            options = options.merged(_SWITCHES[word])
        elif word in TASK_SWITCHES or word.startswith("--env="):
            task.append(word)
        elif word == "--env":
            task += arguments[position - 1 : position + 1]
            position += 1
        else:
            raise _unknown(word)
    return Leading(options, wants_help, wants_version, arguments[position:], tuple(task))


def asks_for_json(arguments: tuple[str, ...]) -> bool:
    """Return True if `--json` occurs anywhere before `--`; used when parsing itself failed."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return "--json" in arguments[:end]


def _color_value(word: str, arguments: tuple[str, ...], position: int) -> tuple[ColorWord, int]:
    if "=" in word:
        text = word.partition("=")[2]
    elif position < len(arguments):
        text = arguments[position]
        position += 1
    else:
        text = ""
    if text not in _COLOR_WORDS:
        raise UsageError(
            error_id="option-value",
            message=f"`--color` takes auto, always or never, not `{text}`",
            hint="write `--color never`",
        )
    return _COLOR_WORDS[text], position


def _unknown(word: str) -> UsageError:
    import difflib

    known = [*_SWITCHES, *TASK_SWITCHES, "--env", "--help", "--version", "--color"]
    near = difflib.get_close_matches(word, known, n=1)
    return UsageError(
        error_id="option-unknown",
        message=f"there is no option `{word}` before the name of a command or task",
        hint=f"did you mean `{near[0]}`?" if near else "see `fdl --help`",
    )
