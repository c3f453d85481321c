"""Checks of the names in documents: identifiers, keywords, defaults, errors, codes and versions."""

import ast
import builtins
import functools
import importlib
import re
import tomllib
from pathlib import Path

import torch

from fdl_cli import __version__
from fdl_cli.errors import EXIT_CODES
from fdl_cli.porter.knowledge.reasons import REASONS
from tests.docs.code_facts import PACKAGES, read_code
from tests.docs.reading import (
    ROOT,
    blocks,
    documents,
    name_of,
    prose,
    read,
    spans,
    tables,
    written,
)

CODE = (*PACKAGES, "examples", "benchmarks", "templates", ".ci", "docs/_build")
TORCH = (
    "torch", "torch.nn", "torch.nn.functional", "torch.Tensor", "torch.optim", "torch.optim.lr_scheduler",
    "torch.utils.data", "torch.distributed", "torch.cuda", "torch.amp", "torch.jit", "torch.fx",
    "torch.export", "torch.compiler", "torch.autograd", "torch.nn.Module", "torch.nn.utils", "torch.nn.init",
    "torch.backends.cudnn", "torch.nn.utils.parametrizations", "torch.cuda.CUDAGraph", "torch.nn.attention",
    "torch.func", "torch.random", "statistics", "torch.multiprocessing",
    "torch.optim.Optimizer", "torch.fx.GraphModule",
)  # fmt: skip
# Read as text: one has parameters that no `dir` shows, the other needs a package that may be missing.
TORCH_SOURCES = ("optim/lr_scheduler.py", "utils/tensorboard/writer.py")
TEXTS = (".py", ".toml", ".yml", ".jinja", ".html", ".js", ".json", "")
# A name that can be told from an English word: it has a capital inside, an underscore, or a call.
NAME = re.compile(
    r"(?<![\w/$<-])(?:[a-z]\w*_\w+|[A-Z]\w*[a-z]\w*[A-Z]\w*|[A-Z]+_\w+)\b(?![/:-]|\.py)"
    r"|(?<=\.)[a-z_]\w+(?=\()|\b[a-z_]\w+(?=\()"
)


@functools.cache
def vocabulary():
    """Return every word of the code, of torch and of Python."""
    found = set(dir(builtins)) | {"__call__"}
    texts = [
        ROOT / name
        for name in ("pyproject.toml", "Dockerfile", "fdl", "fdl.yml", "tests/conftest.py")
    ]
    for folder in CODE:
        texts += [p for p in (ROOT / folder).rglob("*") if p.suffix in TEXTS and p.is_file()]
    for path in texts:
        found |= set(re.findall(r"\w+", read(path)))
    found |= {
        word for path in (ROOT / "tests").rglob("*") for word in re.findall(r"\w+", path.name)
    }
    for name in TORCH:
        found |= set(dir(named(name)))
    for name in TORCH_SOURCES:
        found |= set(re.findall(r"\w+", read(Path(torch.__file__).parent / name)))
    return frozenset(found)


def named(name):
    """Return a module, or an attribute of one, by its dotted name."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        module, _, attribute = name.rpartition(".")
        return vars(named(module))[attribute]


def unknown_names(root):
    """Find identifiers in code spans that neither the code nor torch nor the page's blocks have."""
    found = []
    for path in written(root):
        own = set(re.findall(r"\w+", " ".join(block.body for block in blocks(path))))
        found += [
            f"{name_of(root, path)}:{line}: {word} in `{span}`"
            for line, span in spans(path)
            for word in NAME.findall(span)
            if word not in own and word not in vocabulary() and not word.startswith("Foo")
        ]
    return found


def calls_in(path):
    """Yield (line, call, span, whether it begins a row) of each call in the code spans of a page."""
    firsts = {(line, cells[0]) for line, cells in tables(path)}
    for line, span in spans(path):
        try:
            tree = ast.parse(span.lstrip("."), mode="eval")
        except SyntaxError:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and node.keywords:
                is_signature = node is tree.body and (line, f"`{span}`") in firsts
                yield line, node, span, is_signature


def wrong_keywords(root):
    """Find calls in code spans with a keyword that nothing of that name has, or a wrong default.

    The first cell of a row shows a signature, so that its values are the defaults.
    """
    found = []
    for path in written(root):
        if path.stem == "pytorch-map":  # its tests run each row
            continue
        for line, call, span, is_signature in calls_in(path):
            known = read_code().signatures.get(ast.unparse(call.func).rpartition(".")[2], ())
            for keyword in call.keywords:
                if known and not fits(keyword, known, is_signature):
                    text = f"{keyword.arg}={ast.unparse(keyword.value)} in `{span}`"
                    found.append(f"{name_of(root, path)}:{line}: {text}")
    return found


def fits(keyword, known, is_signature):
    """Return True if one of the signatures has a keyword and, where it shows a default, that default."""
    value = ast.unparse(keyword.value)
    having = [names for names in known if keyword.arg in names]
    if any("**" in names for names in known) or keyword.arg is None:
        return True
    if is_signature and isinstance(keyword.value, ast.Constant) and value != "...":
        return any(names[keyword.arg] in (value, "None") for names in having)
    return bool(having)


def defaults_of(text):
    """Return the defaults of each parameter of the classes that a text names."""
    found = {}
    for name in set(re.findall(r"\b[A-Z]\w+", text)):
        for parameters in read_code().signatures.get(name, ()):
            for each, default in parameters.items():
                found.setdefault(each, set()).add(default)
    return found


def wrong_defaults(root):
    """Find `name=value` in a sentence about defaults that no class which the page names has as a default."""
    found = []
    for path in written(root):
        text, defaults = prose(path), defaults_of(read(path))
        for each in re.finditer(r"(?:[^.|]|\.(?=\w))*\bdefaults?\b(?:[^.|]|\.(?=\w))*", text):
            for name, value in re.findall(r"`(\w+)=([^`,]+)`", each[0]):
                known = defaults.get(name, set())
                if known and not {value, value.replace('"', "'"), "None"} & known:
                    line = text.count("\n", 0, each.start()) + 1
                    found.append(f"{name_of(root, path)}:{line}: {name}={value} is no default")
    return found


def invented_errors(root):
    """Find errors in blocks whose id or text no code of the tool can make."""
    found = []
    for path in written(root):
        for block in blocks(path):
            shown = re.findall(
                r"^(?:\[exit \d+\] )?error\[([\w-]+)\]: (.+)$", block.body, re.MULTILINE
            )
            for error_id, message in shown:
                plain = re.sub(r"^[\w./]+:\d+:\d+: ", "", message)
                if error_id not in read_code().texts or not can_say(plain):
                    found.append(
                        f"{name_of(root, path)}:{block.line}: error[{error_id}]: {message}"
                    )
    return found


def can_say(message):
    """Return True if a text of the code, with values in its places, can be the message."""
    if message in read_code().texts:
        return True
    return any(
        re.fullmatch(".+".join(re.escape(part) for part in parts), message, re.DOTALL)
        for parts in read_code().templates
        if all(part in message for part in parts)
    )


def unknown_codes(root):
    """Find codes of the porter without a reason, and rows of exit codes that fdl does not have."""
    found = []
    codes = {item.code: (item.name, item.meaning) for item in EXIT_CODES}
    for path in documents(root):
        found += [
            f"{name_of(root, path)}: {code}"
            for code in re.findall(r"\bFDL\d{3}\b", read(path))
            if code not in REASONS
        ]
    page = root / "docs" / "reference" / "commands.md"
    section = read(page).partition("## Exit codes\n")[2].partition("\n## ")[0]
    rows = [
        line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")
    ][1:]
    shown = {code: (name, meaning) for code, name, meaning in rows}
    for code in sorted({*codes} | {*shown}):
        if codes.get(code) != shown.get(code):
            found.append(f"docs/reference/commands.md: exit code {code}")
    return found


def unknown_variables(root):
    """Find environment variables of the project that no code reads."""
    return [
        f"{name_of(root, path)}: {word}"
        for path in documents(root)
        for word in re.findall(r"\b(?:FDL|FLODL)_[A-Z_]+\b", read(path))
        if word not in vocabulary()
    ]


def wrong_versions(root):
    """Find versions of Python and of the project that are not those of `pyproject.toml`."""
    project = tomllib.loads(read(ROOT / "pyproject.toml"))["project"]
    least = project["requires-python"].removeprefix(">=")
    found = []
    for path in written(root):
        text = read(path)
        found += [
            f"{name_of(root, path)}: {each}"
            for each in re.findall(r"(?:Python )?\b3\.\d+ or newer", text)
            if each.removeprefix("Python ") != f"{least} or newer"
        ]
        found += [
            f"{name_of(root, path)}: {each}"
            for each in re.findall(r"(?:[Vv]ersion|flodl) (\d+\.\d+\.\d+)\b", prose(path))
            if each != __version__
        ]
    return found


def wrong_imports(root):
    """Find imports from the packages, in any Python block, of names that they do not have."""
    found = []
    for path in documents(root):
        for block in blocks(path):
            if not block.kind.startswith("py"):
                continue
            for module, name in imported(block.body):
                if not has(module, name):
                    found.append(
                        f"{name_of(root, path)}:{block.line}: from {module} import {name}"
                    )
    return found


def imported(text):
    """Yield (module, name) of each import from one of the packages."""
    try:
        tree = ast.parse(text)
    except SyntaxError:  # a fragment of a generated page
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in PACKAGES:
            yield from ((node.module, alias.name) for alias in node.names)


def has(module, name):
    try:
        exec(f"from {module} import {name}", {})
    except ImportError:
        return False
    return True
