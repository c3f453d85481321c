"""Search for the files of a project's manifest, and their text; on the path of `fdl <task>`."""

import os

from fdl_cli.manifest.model import MANIFEST, Layer

# Names that people give to a manifest and that are not read, and copies to start from.
_OTHER_NAMES = ("fdl.yaml", "fdl.json")
_EXAMPLES = ("fdl.yml.example", "fdl.yml.dist", "fdl.yaml.example", "fdl.json.example")


def find_root(folder: str) -> str | None:
    """Return the nearest folder at or above this one that holds `fdl.yml`."""
    while True:
        if os.path.isfile(f"{folder}/{MANIFEST}"):
            return folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent


def other_manifest_hint(folder: str) -> str | None:
    """Return the hint where a manifest has another name than `fdl.yml`; nothing where none does."""
    start = folder
    while True:
        for name in (*_OTHER_NAMES, *_EXAMPLES):
            if os.path.isfile(f"{folder}/{name}"):
                from shlex import quote

                word = "cp" if name in _EXAMPLES else "mv"
                near = "" if folder == start else f"{folder}/"
                return f"`{word} {quote(near + name)} {quote(near + MANIFEST)}`: only `{MANIFEST}` is read"
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent


def in_project() -> bool:
    """Return True if the working folder belongs to a project."""
    try:
        return find_root(os.getcwd()) is not None
    except FileNotFoundError:
        return False


def read_layer(path: str) -> Layer:
    """Read one file; a missing one is an answer too.

    Raises:
        OSError: the file exists and cannot be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        return Layer(path, None)
    try:
        pieces = []
        while piece := os.read(descriptor, 1 << 16):
            pieces.append(piece)
    finally:
        os.close(descriptor)
    return Layer(path, b"".join(pieces))
