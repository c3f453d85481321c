"""The largest content that a compressed checkpoint may unpack to."""

from __future__ import annotations

from typing import Final

from flodl.errors import CheckpointError

# Weights hardly compress: random floats by a tenth, half-precision values in 32 bits to a quarter.
# zlib can expand a file 1032-fold: four megabytes would fill four gigabytes of memory.
_RATIO: Final = 64
_FLOOR: Final = 64 << 20  # below this size even a file of zeros is unpacked


def most_unpacked(packed: int) -> int:
    """Return the number of bytes that a compressed file of a size may unpack to."""
    return max(_FLOOR, _RATIO * packed)


def too_large(announced: int | None, packed: int, path: str | None) -> CheckpointError:
    """Return the error for a file that unpacks to more; `announced` is the size in its header."""
    size = f"{announced:,}" if announced else f"more than {most_unpacked(packed):,}"
    return CheckpointError(
        f"{packed:,} compressed bytes unpack to {size} bytes, and at most {most_unpacked(packed):,} are "
        "read; if you trust the file, unpack it with `gunzip` and load the result",
        path=path,
    )
