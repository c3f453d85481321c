"""A file of models, loaded as the original that cases are looked for in."""

from __future__ import annotations

from pathlib import Path

from flodl_verify.sandbox.isolated_import import Side, open_sides


def opened(folder: Path, text: str) -> Side:
    """Write a file of models to a folder, and load it."""
    file = folder / "models.py"
    file.write_text(text, encoding="utf-8")
    original, _ = open_sides(file, file, ())
    original.load()
    return original
