"""Parts of a project: its name, its mode and its components."""

import keyword
import re
import sys
from dataclasses import dataclass, replace
from typing import Final, Literal, final

from fdl_cli.errors import UsageError
from fdl_cli.scaffold.metadata import PYTHONS

Mode = Literal["native", "docker"]
Part = Literal["base", "guide", "ci", "docker", "devcontainer", "hf", "pre-commit"]

# The order in which parts are laid over each other.
PARTS: Final[tuple[Part, ...]] = (
    "base", "guide", "ci", "docker", "devcontainer", "hf", "pre-commit",
)  # fmt: skip
LONGEST_NAME: Final = 40
_NAME = re.compile(r"[a-zA-Z]([a-zA-Z0-9._-]*[a-zA-Z0-9])?")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """Everything that decides the text of a project's files; `python` is the oldest that it runs on."""

    name: str
    parts: tuple[Part, ...]
    ported: str = ""
    author: str = ""
    license: str = ""
    python: str = PYTHONS[0]

    @property
    def package(self) -> str:
        """Return the name of the import package.

        Example:
            >>> Answers(name="My-Proj", parts=("base",)).package
            'my_proj'
        """
        return re.sub(r"[-.]+", "_", self.name).lower()

    @property
    def mode(self) -> Mode:
        """Return where the tasks run."""
        return "docker" if "docker" in self.parts else "native"


def make_answers(
    name: str,
    *,
    docker: bool = False,
    with_hf: bool = False,
    bare: bool = False,
    pre_commit: bool = False,
    ported: str = "",
) -> Answers:
    """Check the name and collect the parts.

    Raises:
        UsageError: the name cannot be that of a project and a Python package.
    """
    _check_name(name)
    wanted = {"base"} | (set() if bare else {"guide", "ci"})
    if docker:
        wanted |= {"docker"} | (set() if bare else {"devcontainer"})
    if with_hf:
        wanted.add("hf")
    if pre_commit:
        wanted.add("pre-commit")
    return Answers(name=name, parts=tuple(part for part in PARTS if part in wanted), ported=ported)


def with_part(answers: Answers, part: Part) -> Answers:
    """Return the answers of the same project with one part more."""
    wanted = {*answers.parts, part} | ({"docker"} if part == "devcontainer" else set())
    parts = tuple(item for item in PARTS if item in wanted)
    return replace(answers, parts=parts)


def slug(name: str) -> str:
    """Return the nearest name with the letters that a project may have; a good name stays as it is.

    Example:
        >>> slug("My Proj"), slug("3D \u00dcnet!"), slug("My_Proj"), slug("json")
        ('my-proj', 'project-3d-unet', 'My_Proj', 'json')
    """
    if _NAME.fullmatch(name):
        return name
    import unicodedata

    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    words = re.sub(r"[^a-zA-Z0-9._-]+", "-", plain).strip("-._").lower()
    return f"project-{words}" if words[:1].isdigit() else words or name


def _check_name(name: str) -> None:
    package = Answers(name=name, parts=()).package
    reason = ""
    hint = "try `fdl init my-proj`"
    if not _NAME.fullmatch(name) or not package.isidentifier():
        reason = "it must start with a letter and hold letters, digits, `-`, `_` and `.`"
    elif len(name) > LONGEST_NAME:
        reason = f"it has more than {LONGEST_NAME} characters"
    elif keyword.iskeyword(package):
        reason = "it is a word of Python's grammar"
        hint = f"try `fdl init {name}-project`"
    elif package in sys.stdlib_module_names or package in ("flodl", "fdl_cli", "torch", "tests"):
        reason = f"a package `{package}` exists already and would be hidden"
        hint = f"try `fdl init {name}-project`"
    if reason:
        raise UsageError(
            error_id="project-name",
            message=f"`{name}` cannot be the name of a project: {reason}",
            hint=hint,
        )
