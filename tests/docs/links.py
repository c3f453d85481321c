"""Checks of where documents lead: links, anchors, paths, the menu, and lists of files."""

import functools
import os
import re

import yaml

from docs._build.percent import read_tutorial
from fdl_cli.apiref.llms import llms_text
from fdl_cli.apiref.storage import build_here
from tests.docs.reading import anchors, documents, name_of, prose, read, spans

REPOSITORY = "https://github.com/flodl/flodl/blob/main/"
# Folders of the checkout that a path in prose may begin with.
TOP = (
    "docs", "tests", "flodl", "fdl_cli", "flodl_verify", "benchmarks", "examples", "templates", "skills",
)  # fmt: skip

# Pages that the builder of the site writes; the tests of the site follow their links.
MADE = (
    "reference/api/",
    "reference/codes",
    "reference/errors",
    "reference/options",
    "reference/schemas",
    "project/changelog",
    "benchmarks/results",
)


def tutorials(root):
    return sorted((root / "docs" / "tutorials").glob("[0-9][0-9]_*.py"))


def linked(path):
    """Return the addresses that a page links to, without those in code."""
    text = re.sub(r"`[^`\n]*`", "", prose(path))  # `[a, b][k](x)` is no link
    return re.findall(r"\]\(([^)\s]+)[^)]*\)", text)


def is_made(root, place):
    """Return True for a page that the builder of the site writes."""
    return os.path.normpath(place).startswith(tuple(str(root / "docs" / each) for each in MADE))


def dead_links(root):
    """Find links to files that do not exist, or to headings that a page does not have."""
    found = []
    for path in (*documents(root), *tutorials(root)):
        for address in linked(path):
            target, _, anchor = address.removeprefix(REPOSITORY).partition("#")
            place = root / target if address.startswith(REPOSITORY) else path.parent / target
            place = place if target else path
            if "://" in target or target.startswith("mailto:"):
                continue
            known = place.exists() and (not anchor or anchor in anchors(place))
            if not known and not is_made(root, place):
                found.append(f"{name_of(root, path)}: {address}")
    return found


def dead_paths(root):
    """Find paths in code spans that begin with a folder of the project and lead nowhere."""
    found = []
    for path in documents(root):
        for line, span in spans(path):
            words = re.findall(r"(?<![\w/.$~<>-])(?:[\w.]+/)+[\w.-]*", span)
            page = f"{name_of(root, path)}:{line}"
            found += [f"{page}: {word}" for word in words if not leads(root, path, word)]
    return found


def leads(root, page, word):
    """Return True if a path is that of a file, or none of this project, or has a place for a name."""
    named = word.rstrip(".")
    if re.search(r"\bfoo\b|test_foo|NN_", named):
        return True
    if named.partition("/")[0] in TOP:
        return (root / named).exists()
    # Two pages name modules by the end of their paths.
    inner = page.stem in ("runtime", "architecture") and named.endswith(".py")
    return not inner or any(path.endswith(f"/{named}") for path in modules(root))


@functools.cache
def modules(root):
    """Return the paths of all modules of the packages."""
    return tuple(
        path.as_posix()
        for package in ("flodl", "fdl_cli", "flodl_verify")
        for path in (root / package).resolve().rglob("*.py")
    )


def in_menu(entries):
    """Yield the files that the menu of the site names."""
    for entry in entries:
        if isinstance(entry, str):
            yield entry
        else:
            (value,) = entry.values()
            yield from in_menu([value] if isinstance(value, str) else value)


def wrong_menu(root):
    """Find pages without a place in the menu, places without a page, and pages with two places."""
    named = list(in_menu(yaml.safe_load(read(root / "mkdocs.yml"))["nav"]))
    pages = {name_of(root / "docs", path) for path in (root / "docs").rglob("*.md")}
    pages |= {f"tutorials/{path.stem}.md" for path in tutorials(root)}
    mine = {path for path in named if not path.startswith(MADE)}
    found = [f"mkdocs.yml: {path} has no place in the menu" for path in sorted(pages - mine)]
    found += [f"mkdocs.yml: {path} is no page" for path in sorted(mine - pages)]
    return found + [f"mkdocs.yml: {path} twice" for path in set(named) if named.count(path) > 1]


def wrong_lists(root):
    """Find tutorials, examples and benchmarks that their lists leave out or name wrongly."""
    page = read(root / "docs" / "tutorials" / "index.md")
    rows = re.findall(r"^\| \[(.*?)\]\((.*?)\)", page, re.MULTILINE)
    listed = {target: title for title, target in rows}
    titles = {path.name: read_tutorial(path).title for path in tutorials(root)}
    found = differences("docs/tutorials/index.md", listed.items(), titles.items())
    examples = {path.name for path in (root / "examples").glob("*.py")}
    examples = {name for name in examples if not name.endswith("_flodl.py")}
    named = re.findall(
        r"^\| \[(\w+\.py)\]\(\1\)", read(root / "examples" / "README.md"), re.MULTILINE
    )
    found += differences("examples/README.md", named, examples)
    programs = {path.name for path in (root / "benchmarks").glob("*.py")}
    named = re.findall(r"`python benchmarks/(\w+\.py)", read(root / "benchmarks" / "README.md"))
    return found + differences("benchmarks/README.md", named, programs)


def differences(page, named, real):
    return [f"{page}: {each}" for each in sorted({*named} ^ {*real}, key=str)]


def wrong_guides(root):
    """Find guides in `llms.txt` that are no documents."""
    paths = re.findall(r"/blob/main/(docs/[^)#]+)\)", llms_text(build_here()))
    return [f"llms.txt: {path}" for path in paths if not (root / path).is_file()] or (
        [] if paths else ["llms.txt: no guide"]
    )
