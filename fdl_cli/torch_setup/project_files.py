"""Record of the choice where the next `uv sync` or `pip install` keeps it.

`fdl.local.yml` belongs to one machine and is not committed; `pyproject.toml` gets an explicit
index for the torch packages; a project without `[tool.uv]` gets a constraints file for pip.
"""

import os
import re
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

LOCAL: Final = "fdl.local.yml"
CONSTRAINTS: Final = "torch-constraints.txt"
INDEX_NAME: Final = "pytorch-fdl"
MARK_BEGIN: Final = "# >>> torch build chosen by `fdl setup`: edits here are overwritten"
MARK_END: Final = "# <<< torch build chosen by `fdl setup`"

_LOCAL_TORCH = re.compile(r"^torch[ \t]*:[ \t]*[\"']?([\w.+]+)[\"']?[ \t]*(?:#.*)?$", re.MULTILINE)
_BLOCK = re.compile(
    rf"\n*^{re.escape(MARK_BEGIN)}$.*?^{re.escape(MARK_END)}$\n?", re.MULTILINE | re.DOTALL
)
_SOURCES = re.compile(r"^\[tool\.uv\.sources\]\s*$", re.MULTILINE)
_OWN_SOURCE = re.compile(r"torch\s*=")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FileEdit:
    """A file as it shall be; `before` is None when it does not exist yet."""

    path: Path
    before: str | None
    after: str

    @property
    def changes(self) -> bool:
        """Return True if writing would change anything."""
        return self.before != self.after


def read_local_variant(root: Path) -> str | None:
    """Return the variant that `fdl.local.yml` records."""
    found = _LOCAL_TORCH.search(_read(root / LOCAL) or "")
    return found.group(1) if found else None


def local_edit(root: Path, variant: str) -> FileEdit:
    """Return `fdl.local.yml` with this variant; everything else in it stays."""
    path = root / LOCAL
    before = _read(path)
    line = f"torch: {variant}"
    if before is None:
        after = f"# Settings of this machine; not for version control.\n{line}\n"
    elif _LOCAL_TORCH.search(before):
        after = _LOCAL_TORCH.sub(line, before, count=1)
    else:
        after = before + ("" if before.endswith("\n") or not before else "\n") + line + "\n"
    return FileEdit(path=path, before=before, after=after)


def pin_edits(
    root: Path, torch: str, variant: str, index: str | None, *, labelled: bool = True
) -> Iterator[FileEdit]:
    """Yield the edits that make a later sync or install keep this build.

    `index` is the address of an index that holds the build; without one only the version is
    kept, because the build came from the indexes that pip is configured with. `labelled` says whether
    the version that pip knows carries the variant: that of a wheel on PyPI does not.
    """
    project = root / "pyproject.toml"
    before = _read(project)
    if before is not None and index is not None:
        yield FileEdit(path=project, before=before, after=pin_uv(before, index))
    path = root / CONSTRAINTS
    lines = [
        "# The torch build for this machine, chosen by `fdl setup`.",
        f"# Use it with: pip install -c {CONSTRAINTS} ...",
    ]
    lines += [f"--extra-index-url {index}"] if index is not None else []
    lines.append(f"torch=={torch}+{variant}" if labelled else f"torch=={torch}")
    yield FileEdit(path=path, before=_read(path), after="\n".join(lines) + "\n")


def pin_uv(text: str, index: str) -> str:
    """Return `pyproject.toml` with an explicit index for torch, replacing an earlier one."""
    text = _BLOCK.sub("\n", text)
    source = f'torch = {{ index = "{INDEX_NAME}" }}'
    table = f'[[tool.uv.index]]\nname = "{INDEX_NAME}"\nurl = "{index}"\nexplicit = true\n'
    heading = _SOURCES.search(text)
    if heading is None:
        block = f"{MARK_BEGIN}\n[tool.uv.sources]\n{source}\n\n{table}{MARK_END}\n"
        return text.rstrip("\n") + "\n\n" + block
    # A table may occur only once: the project's own sources keep their place.
    body_start = heading.end() + 1
    following = re.search(r"^\[", text[body_start:], re.MULTILINE)
    body_end = body_start + following.start() if following else len(text)
    body = _without_torch(text[body_start:body_end])
    text = text[:body_start] + source + "\n" + body + text[body_end:]
    return text.rstrip("\n") + f"\n\n{MARK_BEGIN}\n{table}{MARK_END}\n"


def _without_torch(body: str) -> str:
    """Return a table of sources without that of torch, whose value may take several lines."""
    lines = body.splitlines(keepends=True)
    kept: list[str] = []
    while lines:
        line = lines.pop(0)
        if not _OWN_SOURCE.match(line):
            kept.append(line)
            continue
        while lines and not _is_whole(line):
            line += lines.pop(0)
    return "".join(kept)


def _is_whole(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


def write(edit: FileEdit) -> None:
    """Write a file beside its place and rename it, so that it is whole at every moment."""
    write_atomically(edit.path, edit.after.encode())


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file's content in one step; its mode is kept."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(path.stat().st_mode & 0o777 if path.exists() else 0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
