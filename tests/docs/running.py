"""Checks that run documents: the blocks of a page, the cells of a tutorial, and console transcripts."""

import contextlib
import importlib.metadata
import io
import itertools
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from docs._build.pages import page_of
from docs._build.percent import read_tutorial
from docs._build.running import run_tutorial
from tests.docs.reading import ROOT, blocks, name_of, read
from tests.hugging_face import transformers

# A time differs in each run, so it cannot be shown.
MEASURED = re.compile(r"\b\d[\d.]*(?:ms|s)\b")


def wrong_blocks(root, path):
    """Run the Python blocks of a page from top to bottom; find those that fail or print something else.

    A block of text that follows a block of Python is its output, so it must be printed, and what is printed
    must be shown.
    """
    namespace = {"__name__": "__main__"}
    text, page = read(path), name_of(root, path)
    found = blocks(path)
    problems = []
    for index, block in enumerate(found):
        if block.kind != "python":
            continue
        try:
            printed = run_block(block, page, namespace)
        except Exception as error:
            return [*problems, f"{page}:{block.line}: {type(error).__name__}: {error}"]
        after = found[index + 1] if index + 1 < len(found) else None
        is_next = after and not text[block.end : after.start].strip()
        is_output = after and after.kind == "text" and (is_next or printed)
        shown = after.body.strip() if after and is_output else ""
        if shown != printed.strip() and not (MEASURED.search(printed) and not shown):
            problems.append(f"{page}:{block.line}: prints {printed.strip()!r} and shows {shown!r}")
    return problems


def run_block(block, page, namespace):
    """Run one block, and return what it printed."""
    # Padding puts the document's own line numbers into a traceback.
    code = compile("\n" * block.line + block.body, page, "exec")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, namespace)
    return printed.getvalue()


def missing_for(path):
    """Return the libraries that a page needs, by `<!-- needs: NAME -->`, and that are not here."""
    # Another test may have left a module of that name; what an installer recorded is really here.
    return [name for name in needed_by(path) if name not in installed_names()]


def needed_by(path):
    return re.findall(r"^<!-- needs: (\w+) -->$", read(path), re.MULTILINE)


def installed_names():
    return {each.name.lower().replace("-", "_") for each in importlib.metadata.distributions()}


def wrong_page(root, path):
    """Run a page in an empty folder, with the random numbers of a new process."""
    if "transformers" in needed_by(path):
        transformers()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        torch.manual_seed(0)
        return wrong_blocks(root, path)


def shown_in(page):
    """Return the outputs of a page, without the text and the code between them."""
    found = re.findall(r"^```text\n.*?^```$|^!\[.*?\]\(.*?\)$", page, re.MULTILINE | re.DOTALL)
    return "\n\n".join(found) + "\n"


def wrong_tutorial(root, path):
    """Run a tutorial, and find that it shows something else than what is stored."""
    page, _ = page_of(read_tutorial(path), run_tutorial(path))
    stored = root / "tests" / "docs" / "shown" / f"{path.stem}.md"
    if shown_in(page) == read(stored):
        return []
    return [f"{name_of(root, path)}: shows something else than {name_of(root, stored)}"]


def sessions(path):
    """Return (command, output) of each command in the console blocks of a page."""
    bodies = [block.body for block in blocks(path) if block.kind == "console"]
    parts = [part for body in bodies for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]]
    return [(part.partition("\n")[0], part.partition("\n")[2]) for part in parts]


def shown_project(path, folder):
    """Write the files that a page shows below a line that begins with their names, and return their names."""
    text, written = read(path), []
    for block in blocks(path):
        before = text[: block.start].rstrip().rpartition("\n")[2]
        named = re.match(r"`([\w.]+\.(?:yml|py))`, ", before)
        if block.kind in ("yaml", "py") and named is not None:
            (folder / named[1]).write_text(block.body, encoding="utf-8")
            written.append(named[1])
    return written


def wrong_transcript(root, path):
    """Run the commands of a page about tasks in the project that it shows, and find other output."""
    with tempfile.TemporaryDirectory() as name:
        project = Path(name).resolve()
        written = shown_project(path, project)
        tools = project / "tools"
        tools.mkdir()
        program = tools / "fdl"
        program.write_text(
            f'#!/bin/sh\nexec {sys.executable} -P -m fdl_cli "$@"\n', encoding="utf-8"
        )
        program.chmod(0o755)
        environ = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "FDL_IN_CONTAINER": "0"}
        found = sessions(path)
        # A page whose project or commands are not found would pass.
        least = 7 if path.name == "tasks.md" else 5
        missing = f"{name_of(root, path)}: {written}, {len(found)} commands"
        problems = [] if len(written) >= 3 and len(found) >= least else [missing]
        for command, printed in found:
            done = subprocess.run(
                command, shell=True, cwd=project, env=environ, capture_output=True, text=True,
                check=False, timeout=60,
            )  # fmt: skip
            # `would run in FOLDER:` is a message; everything else is shown.
            told = re.sub(r"^would run.*\n", "", done.stderr, flags=re.MULTILINE)
            if (told + done.stdout).replace(f"{project}/", "") != printed:
                problems.append(f"{name_of(root, path)}: {command}: {told + done.stdout}")
        return problems


def wrong_port(root, path):
    """Port the script of the page about a first port, and find other output, or another port."""
    found = blocks(path)
    script, port = (each.body for each in found if each.kind == "python")
    problems = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        (folder / "net.py").write_text(script, encoding="utf-8")
        for each, after in itertools.pairwise(found):
            if (each.kind, after.kind) != ("sh", "text"):
                continue
            words = [sys.executable, "-m", "fdl_cli", *each.body.split()[1:]]
            done = subprocess.run(
                words, cwd=folder, capture_output=True, text=True, check=False, env=environment()
            )
            if done.returncode or done.stdout.replace(f"{folder}/", "") != after.body:
                problems.append(f"{name_of(root, path)}: {each.body}{done.stdout}{done.stderr}")
        made = read(folder / "net_flodl.py")
        if port not in made or not made.endswith(script[script.index("if __name__") :]):
            problems.append(f"{name_of(root, path)}: the port is another one")
    return problems


def wrong_help(root, path):
    """Run the mistyped command of the page about commands, and find another message."""
    with tempfile.TemporaryDirectory() as folder:  # in a project, it might be a task
        done = subprocess.run(
            [sys.executable, "-m", "fdl_cli", "prot"],
            cwd=folder, capture_output=True, text=True, check=False, env=environment(),
        )  # fmt: skip
    shown = f"```text\n{done.stderr}```" in read(path)
    return [] if shown else [f"{name_of(root, path)}: {done.stderr}"]


def environment():
    return {**os.environ, "PYTHONPATH": str(ROOT)}
