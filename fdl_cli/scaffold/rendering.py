"""Rendering of the templates of a project's parts into the exact text of its files."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final, final

from fdl_cli import __version__
from fdl_cli.assets import assets
from fdl_cli.errors import EnvironmentLackingError
from fdl_cli.scaffold.answers import Answers
from fdl_cli.scaffold.metadata import (
    CI_PYTHONS,
    LICENSE_TEXTS,
    author_table,
    holder_of,
    is_older,
)

if TYPE_CHECKING:
    import jinja2

# The Python of an image, unless the project needs a newer one.
IMAGE_PYTHON: Final = "3.12"
PACKAGE_MARK: Final = "__package__"
# A text without them is its own rendering; to compile it takes as long as to compile another.
_MARKS: Final = ("{{", "{%", "{#")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectFile:
    """One file of a project: its path, its text, and whether it may be run."""

    path: str
    text: str
    executable: bool = False


def render(answers: Answers, cache: Path | None = None) -> tuple[ProjectFile, ...]:
    """Return all files of a project, by path; the same answers always give the same text.

    `cache` is the folder in which compiled templates are kept from run to run.

    Raises:
        EnvironmentLackingError: the templates of this installation are damaged.
    """
    import jinja2

    from fdl_cli.scaffold.compiled import CompiledTemplates

    templates = assets("templates")
    root = templates / "project"
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([root, templates]),
        bytecode_cache=None if cache is None else CompiledTemplates(cache / "templates"),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )
    values = _values(answers)
    found: dict[str, ProjectFile] = {}
    try:
        for part in answers.parts:
            for path, source in _templates(root / part):
                name = path.replace(PACKAGE_MARK, answers.package)
                text = _rendered(environment, f"{part}/{path}", source, values)
                found[name] = ProjectFile(path=name, text=text)
        if answers.license in LICENSE_TEXTS:
            path = f"licenses/{LICENSE_TEXTS[answers.license]}"
            text = _rendered(environment, path, templates / path, values)
            found["LICENSE"] = ProjectFile(path="LICENSE", text=text)
    except (OSError, jinja2.TemplateError) as problem:
        raise EnvironmentLackingError(
            error_id="template-broken",
            message=f"a template of this installation cannot be rendered: {problem}",
            hint="reinstall fdl: `python -m pip install --force-reinstall 'flodl[cli]'`",
            file=str(root),
        ) from problem
    return tuple(found[name] for name in sorted(found))


def _rendered(
    environment: "jinja2.Environment", name: str, source: Path, values: dict[str, object]
) -> str:
    text = source.read_text(encoding="utf-8")
    if any(mark in text for mark in _MARKS):
        return environment.get_template(name).render(values)
    return text


def _templates(folder: Path) -> Iterator[tuple[str, Path]]:
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is missing")
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield PurePosixPath(path.relative_to(folder)).as_posix(), path


def _values(answers: Answers) -> dict[str, object]:
    major, minor = __version__.split(".")[:2]
    return {
        "name": answers.name,
        "package": answers.package,
        "docker": "docker" in answers.parts,
        "with_hf": "hf" in answers.parts,
        "ci": "ci" in answers.parts,
        "ported": answers.ported,
        "author": author_table(answers.author) if answers.author else "",
        "license": answers.license,
        "holder": holder_of(answers.author, answers.name),
        "python": answers.python,
        "image": answers.python if is_older(IMAGE_PYTHON, answers.python) else IMAGE_PYTHON,
        "pythons": [each for each in CI_PYTHONS if not is_older(each, answers.python)]
        or [answers.python],
        "flodl_version": f"{major}.{minor}",
        # Before 1.0 a minor version may break; after it, a major one.
        "flodl_next": f"{major}.{int(minor) + 1}" if major == "0" else str(int(major) + 1),
    }
