"""The process that compiles a step: `python -m flodl.step`, the job comes in on standard input."""

from __future__ import annotations

import os
import sys

from flodl.step.artifact import build


def main() -> None:
    """Compile with low priority, so that the training it is for goes on undisturbed."""
    os.nice(5)
    build(sys.stdin.buffer.read())


if __name__ == "__main__":
    main()
