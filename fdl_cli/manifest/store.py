"""Store of merged manifests between runs, so that `fdl <task>` need not parse YAML again.

On the path of `fdl <task>`. An entry is used only if every file it came from still has the very
same text, and every file that was absent still is: no clock decides.
"""

import marshal
import os
import zlib
from collections.abc import Mapping
from typing import Any, Final

from fdl_cli.folders import user_folder
from fdl_cli.manifest.discover import find_root, read_layer
from fdl_cli.manifest.model import Layer, Stored, Tree

FORMAT: Final = 2


def entry_path(kind: str, key: str, environ: Mapping[str, str]) -> str:
    """Return where an entry is kept; two keys may share a file, which only costs time."""
    folder = user_folder("cache", environ)
    return f"{folder}/{kind}/{zlib.crc32(key.encode(errors='surrogateescape')):08x}.bin"


def read_entry(path: str) -> Any:
    """Return the contents of an entry, or nothing if it is absent, damaged or unreadable."""
    try:
        text = read_layer(path).text
        return None if text is None else marshal.loads(text)
    except (OSError, EOFError, ValueError, TypeError):
        return None


def write_entry(path: str, value: Any) -> bool:
    """Replace an entry at once; say whether it was possible."""
    folder = os.path.dirname(path)
    temporary = f"{path}.{os.getpid()}"
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(marshal.dumps(value))
        os.replace(temporary, path)
    except OSError:
        # A cache that cannot be written costs time and changes nothing else.
        return False
    return True


def keep(stored: Stored, layers: tuple[Layer, ...], environ: Mapping[str, str]) -> None:
    """Remember a manifest that was loaded and found valid."""
    key = f"{stored.root}\n{stored.environment}"
    files = tuple((layer.path, layer.text) for layer in layers)
    value = (FORMAT, stored.root, stored.environment, files, stored.digest, stored.tree)
    write_entry(entry_path("manifests", key, environ), value)


def recall(root: str, environment: str | None, environ: Mapping[str, str]) -> Stored | None:
    """Return a manifest that is known to be valid, if none of its files changed."""
    path = entry_path("manifests", f"{root}\n{environment}", environ)
    value = read_entry(path)
    if not isinstance(value, tuple) or value[:3] != (FORMAT, root, environment):
        return None
    files, digest, tree = value[3:]
    try:
        if any(read_layer(path).text != text for path, text in files):
            return None
    except OSError:
        return None
    kept: Tree = tree
    return Stored(root, environment, kept, digest)


def project_here(environ: Mapping[str, str]) -> Stored | None:
    """Return this folder's manifest if it is remembered; nothing is parsed for it."""
    if os.name != "posix":
        return None
    try:
        root = find_root(os.getcwd())
    except FileNotFoundError:
        return None
    if root is None:
        return None
    return recall(root, environ.get("FDL_ENV") or None, environ)
