"""Stage of the site: a copy of the documents in which every link leads to a page or to the repository."""

import os
import re
import shutil
from pathlib import Path
from typing import Final

from docs._build.pages import notebook_of, page_links, page_of
from docs._build.percent import read_tutorial
from docs._build.running import ROOT, run_all

DOCS: Final = ROOT / "docs"
REPOSITORY: Final = "https://github.com/flodl/flodl/blob/main"
LINK: Final = re.compile(r"\]\((?P<target>[^)#\s]+)(?P<rest>[^)]*)\)")
# The tests read more words after the language, such as `setup`; a site takes them for text.
OPENING: Final = re.compile(r"^(?P<language>```\w+) (?P<words>[\w ]+)$", re.MULTILINE)
SIDES: Final = {"torch": "PyTorch", "flodl": "flodl"}
CODE: Final = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def stage(target: Path) -> None:
    """Write all sources of the site, tutorials with outputs included, into an empty folder."""
    shutil.rmtree(target, ignore_errors=True)
    for source in documents():
        place = target / source.relative_to(DOCS)
        place.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".md":
            text = source.read_text(encoding="utf-8")
            place.write_text(site_links(text, source), encoding="utf-8")
        else:
            shutil.copy(source, place)
    stage_tutorials(target / "tutorials")


def documents() -> list[Path]:
    """Return what the site shows of docs: all of it but the builder and the tutorials' sources."""
    folders = {"_build", "tutorials"}
    files = [path for path in sorted(DOCS.rglob("*")) if path.is_file()]
    return [path for path in files if path.relative_to(DOCS).parts[0] not in folders] + [
        DOCS / "tutorials" / "index.md"
    ]


def site_links(text: str, source: Path) -> str:
    """Rewrite the links of a document, but not what looks like one in code."""
    text = OPENING.sub(_opening, text)
    parts: list[str] = []
    position = 0
    for code in CODE.finditer(text):
        parts += [_links(text[position : code.start()], source), code[0]]
        position = code.end()
    return "".join([*parts, _links(text[position:], source)])


def _opening(found: re.Match[str]) -> str:
    """Return the first line of a code block; of a pair of programs, each is titled."""
    title = SIDES.get(found["words"])
    return f'{found["language"]} title="{title}"' if title else found["language"]


def _links(text: str, source: Path) -> str:
    def rewritten(found: re.Match[str]) -> str:
        return f"]({_address(found['target'], source)}{found['rest']})"

    return page_links(LINK.sub(rewritten, text))


def _address(target: str, source: Path) -> str:
    if "://" in target:
        return target
    path = Path(os.path.normpath(source.parent / target))
    if path.is_relative_to(DOCS):
        return target
    return f"{REPOSITORY}/{path.relative_to(ROOT).as_posix()}"


def stage_tutorials(target: Path) -> None:
    """Run the tutorials; write page, pictures, notebook and source of each."""
    target.mkdir(parents=True, exist_ok=True)
    paths = tutorial_files()
    for path, outputs in zip(paths, run_all(paths), strict=True):
        tutorial = read_tutorial(path)
        page, pictures = page_of(tutorial, outputs)
        (target / f"{path.stem}.md").write_text(page, encoding="utf-8")
        (target / f"{path.stem}.ipynb").write_text(notebook_of(tutorial), encoding="utf-8")
        shutil.copy(path, target)
        for name, picture in pictures.items():
            (target / name).write_text(picture, encoding="utf-8")


def tutorial_files() -> list[Path]:
    """Return the sources of the tutorials, in the order in which they are read."""
    return sorted((DOCS / "tutorials").glob("[0-9][0-9]_*.py"))
