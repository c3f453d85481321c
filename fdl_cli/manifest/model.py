"""The values of the task runner: places in files, manifests, problems and plans.

On the path of `fdl <task>`: named tuples, because importing dataclasses costs more than the rest.
"""

from typing import NamedTuple, final

# YAML values for running: numbers stay the text that the author wrote (`1e-3`, `1.10`).
Value = None | bool | str | list["Value"] | dict[str, "Value"]
Tree = dict[str, Value]

MANIFEST = "fdl.yml"
LOCAL = "fdl.local.yml"
# The keys of a task that hold options for its entry; in one task, a later one wins.
OPTION_SECTIONS = ("training", "output", "options")


def overlay_name(environment: str) -> str:
    """Return the file name of an environment's overlay."""
    return f"fdl.{environment}.yml"


@final
class Layer(NamedTuple):
    """One file that was looked at; its text is None where there is no such file."""

    path: str
    text: bytes | None


@final
class Stored(NamedTuple):
    """The parts of a manifest that running needs: the merged tree, and a digest of all its layers."""

    root: str
    environment: str | None
    tree: Tree
    digest: str


@final
class Change(NamedTuple):
    """One environment variable that a task gets (or loses, where the value is None)."""

    name: str
    value: str | None
    reason: str


@final
class Flags(NamedTuple):
    """The options of the runner itself, not of the task."""

    environment: str | None = None
    dry_run: bool = False
    help: bool = False
    append: bool = True
    place: str | None = None
    wait: bool = False
    yes: bool = False

    def merged(self, later: "Flags") -> "Flags":
        """Return both together; the later option on the command line wins."""
        return Flags(
            environment=later.environment or self.environment,
            dry_run=self.dry_run or later.dry_run,
            help=self.help or later.help,
            append=self.append and later.append,
            place=later.place or self.place,
            wait=self.wait or later.wait,
            yes=self.yes or later.yes,
        )


@final
class PassedOver(NamedTuple):
    """A service in which a task does not run, because `sign` says that this is a container.

    Example:
        >>> PassedOver("app", "/.dockerenv").reason
        'not in the service `app`: /.dockerenv says that this is a container already'
    """

    service: str
    sign: str

    @property
    def reason(self) -> str:
        """Return why the task runs here, as the end of a sentence."""
        said = f"{self.sign} says that this is a container already"
        return f"not in the service `{self.service}`: {said}"

    def note(self, task: tuple[str, ...]) -> str:
        """Return the line for people whose task runs elsewhere than its manifest says."""
        name = " ".join(task)
        return f"`{name}` runs here, {self.reason}; `fdl run --docker {name}` asks for the service"


@final
class Invocation(NamedTuple):
    """One task, ready to run: the exact program and arguments, folder, and environment changes.

    `service` is the Docker service it runs in, or None for this machine. `confirm` is a question
    to be answered first. `passed_over` is a service that the task names and does not run in.
    """

    task: tuple[str, ...]
    argv: tuple[str, ...]
    folder: str
    changes: tuple[Change, ...]
    service: str | None
    confirm: str | None
    digest: str
    passed_over: PassedOver | None = None


@final
class Trouble(Exception):  # noqa: N818 - a value on its way to the command that words it
    """The reason why no task can be run; the command layer turns it into the error that people see."""

    def __init__(self, kind: str, message: str, hint: str, path: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.hint = hint
        self.path = path
