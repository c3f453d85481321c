"""Renames of modules and classes, by a table of old and new names.

A row `module OLD NEW` moves `flodl/graph/plans.py` to `flodl/graph/plan_cache.py`, and rewrites each import
and path that names it.  A row `class MODULE.OLD NEW` renames the class where it is defined, and in each file
that imports it.
A row `word FOLDER:OLD NEW` renames a variable, function or attribute in the files of a folder.

Usage: `python .ci/renames/apply.py [TABLE]`, in a clean checkout.
"""

import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
# Models, results and changelogs keep the text that they were made with.
LEFT = (
    ".ci/renames/",
    "benchmarks/results/",
    "tests/data/",
    "tests/porter/cases/",
    "fdl_cli/porter/knowledge/",
)


def git(*words: str) -> list[str]:
    """Return the lines that git prints."""
    argv = ["git", "-C", str(ROOT), *words]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.splitlines()


def read_rows(table: Path) -> dict[str, dict[str, str]]:
    """Return the new names by their old names, for each kind of row."""
    rows: dict[str, dict[str, str]] = {"module": {}, "class": {}, "word": {}}
    for line in table.read_text(encoding="utf-8").splitlines():
        kind, old, new = line.split("\t")
        rows[kind][old] = new
    return rows


def rename_class(text: str, *, module: str, old: str, new: str, defines: bool) -> str:
    """Rename a class in a file that defines or imports it."""
    imports = rf"from {re.escape(module)} import (?:\([^)]*?|[^\n(]*?)\b{old}\b"
    if defines or re.search(imports, text):
        return re.sub(rf"(?<![\w.]){old}\b", new, text)
    return text


def rename_module(text: str, old: str, new: str) -> str:
    """Rewrite the dotted name of a module, its path, and its name where it is imported from its package."""
    text = re.sub(rf"(?<![\w.]){re.escape(old)}\b(?!\.py\b)", new, text)
    path, target = old.replace(".", "/"), new.replace(".", "/")
    text = re.sub(rf"(?<!\w){re.escape(path)}\b", target, text)
    package, _, name = old.rpartition(".")
    home, _, renamed = new.rpartition(".")
    if not home:  # it has become a package at the top, which no other one brings
        return text
    if home != package:
        text = re.sub(
            rf"^([ \t]*)from {re.escape(package)} import ([^(\n]*\b{name}\b[^\n]*)$",
            lambda line: split_import(line, package, name, home),
            text,
            flags=re.MULTILINE,
        )
        package = home
    found = re.search(rf"from {re.escape(package)} import (\([^)]*\)|[^\n]*)", text)
    if found is None or re.search(rf"\b{name}\b", found[1]) is None:
        return text
    if re.search(rf"\b{name} as ", found[1]):
        names = re.sub(rf"\b{name} as ", f"{renamed} as ", found[1])
        return text.replace(found[1], names, 1)
    return re.sub(rf"(?<![\w.\"'`]){name}\b(?!\s*=)", renamed, text)


def split_import(line: re.Match[str], package: str, name: str, home: str) -> str:
    """Return an import of several modules as two, where one of them has moved to another package."""
    names = line[2].split(", ")
    moved = [each for each in names if each.split(" as ")[0] == name]
    rest = [each for each in names if each not in moved]
    lines = [(home, moved), (package, rest)]
    return "\n".join(f"{line[1]}from {p} import {', '.join(n)}" for p, n in lines if n)


def rename_in(text: str, name: str, rows: dict[str, dict[str, str]]) -> str:
    """Return the text of a file with all new names."""
    for dotted, new in rows["class"].items():
        module, old = dotted.rsplit(".", 1)
        defines = name == module.replace(".", "/") + ".py"
        text = rename_class(text, module=module, old=old, new=new, defines=defines)
    for old, new in sorted(rows["module"].items(), reverse=True):
        text = rename_module(text, old, new)
    for place, new in rows["word"].items():
        folder, old = place.split(":")
        if name.startswith(folder) and name.endswith((".py", ".patch")):
            text = re.sub(rf"\b{old}\b", new, text)
    return text


def move(old: Path, new: Path) -> None:
    """Move a file or folder that git knows, if it is there."""
    if git("ls-files", str(old)):
        (ROOT / new).parent.mkdir(parents=True, exist_ok=True)
        git("mv", str(old), str(new))


def main(table: Path) -> None:
    """Rename everything in the checkout."""
    rows = read_rows(table)
    for name in git("ls-files"):
        file = ROOT / name
        if name.startswith(LEFT) or file.suffix == ".lock" or not file.is_file():
            continue
        try:
            before = file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        text = rename_in(before, name, rows)
        if text != before:
            file.write_text(text, encoding="utf-8")
    for old, new in rows["module"].items():
        for suffix in (".py", ""):
            move(Path(old.replace(".", "/") + suffix), Path(new.replace(".", "/") + suffix))


main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "table.tsv")
