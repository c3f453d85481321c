"""Find the files of a project's manifest and read them; on the path of `fdl <task>`."""

import os

from fdl_cli.manifest.model import MANIFEST, Layer


def find_root(folder: str) -> str | None:
    """Return the nearest folder at or above this one that holds `fdl.yml`."""
    while True:
        if os.path.isfile(f"{folder}/{MANIFEST}"):
            return folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent


def in_project() -> bool:
    """Say whether the working folder belongs to a project."""
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
