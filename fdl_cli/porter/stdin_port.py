"""The port of a program from standard input, as if it lay in the current folder.

Example: `fdl port - < model.py > ported.py` proves the port and prints it; the report goes to stderr.
Imports find the files of the current folder: a temporary folder holds links to them beside the program.
"""

import codecs
import io
import os
import tempfile
import tokenize
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Final

from fdl_cli.errors import FdlError, Notice, UsageError
from fdl_cli.porter.ir.port_data import PortData
from fdl_cli.porter.parse.reader import decode
from fdl_cli.porter.port_tree import port_tree
from fdl_cli.porter.tree_request import TreeRequest

STDIN: Final = "<stdin>"
_SOURCE: Final = "stdin.py"
_TARGET: Final = "stdin_flodl.py"


def port_stdin(
    data: bytes, request: TreeRequest, cwd: Path, note: Callable[[str], None]
) -> tuple[PortData, tuple[Notice, ...]]:
    """Port a program; its text, ported or as it was, is `files[0].text` where no file is written.

    Raises:
        UsageError: the program is not UTF-8, or the options want a file that is not there.
    """
    _require_utf8(data)
    if request.in_place:
        raise UsageError(
            error_id="port-stdin-in-place",
            message="`--in-place` needs a file, and the program comes from standard input",
            hint="`fdl port - < model.py > ported.py` prints the port",
        )
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder).resolve()
        _link_neighbours(cwd, top)
        source = top / _SOURCE
        source.write_bytes(data)
        printed = request.output is None and request.write
        target = request.output or top / _TARGET
        inner = replace(request, paths=(source,), output=target)
        try:
            ported, notices = port_tree(inner, lambda text: note(_named(text, top)))
        except FdlError as problem:
            problem.message = _named(problem.message, top)
            problem.file = _named(problem.file, top)
            raise
        (file,) = ported.files
        if printed:
            made = target.read_bytes() if file.output is not None else data
            file = replace(
                file,
                output=None,
                text=None if file.error else decode(made),
                summary=tuple(line.removesuffix(f" -> {target}") for line in file.summary),
            )
            ported = replace(ported, files=(file,))
    return _named(ported, top), _named(notices, top)


def _require_utf8(data: bytes) -> None:
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        data.decode(encoding)
    except (SyntaxError, UnicodeDecodeError):
        return  # the port names the line
    if codecs.lookup(encoding).name not in {"utf-8", "utf-8-sig", "ascii"}:
        raise UsageError(
            error_id="port-stdin-encoding",
            message=f"standard input is {encoding}, and the port would be printed as UTF-8",
            hint="give the file's name in the place of `-`",
        )


def _link_neighbours(cwd: Path, top: Path) -> None:
    """Link what an import may find in the current folder."""
    for item in os.scandir(cwd):
        if not item.name.startswith(".") and item.name not in (_SOURCE, _TARGET):
            (top / item.name).symlink_to(Path(item.path).absolute())


def _named(value: Any, top: Path) -> Any:
    """Return a value in which the temporary file is `<stdin>` and its folder the current one."""
    if isinstance(value, str):
        return value.replace(str(top / _SOURCE), STDIN).replace(f"{top}{os.sep}", "")
    if isinstance(value, Path):
        return Path(_named(str(value), top))
    if isinstance(value, tuple):
        return tuple(_named(item, top) for item in value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(
            value, **{each.name: _named(getattr(value, each.name), top) for each in fields(value)}
        )
    return value
