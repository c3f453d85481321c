"""The files of a build context as the engine will see them, and a digest of them."""

import hashlib
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fdl_cli.containers.engine import ImageBuild

LARGE_BYTES: Final = 200_000_000


def context_files(build: ImageBuild) -> tuple[str, ...]:
    """Return the files that the image may be made from, relative to the context, sorted.

    These are the ones that `.dockerignore` leaves; without `COPY` and `ADD`, the Dockerfile alone.
    """
    if not _copies(build.dockerfile):
        return (str(build.dockerfile.relative_to(build.context)),)
    from docker.utils.build import exclude_paths

    # The Dockerfile's own ignore file wins over the context's, as docker has it.
    own = build.dockerfile.with_name(build.dockerfile.name + ".dockerignore")
    ignore = own if own.is_file() else build.context / ".dockerignore"
    patterns = list(_patterns(ignore)) if ignore.is_file() else []
    dockerfile = str(build.dockerfile.relative_to(build.context))
    return tuple(sorted(exclude_paths(str(build.context), patterns, dockerfile=dockerfile)))


def context_digest(build: ImageBuild) -> tuple[str, int]:
    """Return a digest of everything that the image is built from, and the size in bytes.

    Times do not count, so that a fresh checkout of the same commit has the same digest.
    """
    total = hashlib.sha256()
    size = 0
    settings = (build.target, build.args, build.network, build.dockerfile.name)
    total.update(repr(settings).encode())
    for name in context_files(build):
        path = build.context / name
        status = path.lstat()
        total.update(f"{name}\0{stat.S_IFMT(status.st_mode)}\0{status.st_mode & 0o111}\0".encode())
        if path.is_symlink():
            total.update(str(path.readlink()).encode())
        elif stat.S_ISREG(status.st_mode):
            size += status.st_size
            with path.open("rb") as file:
                total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest(), size


def needs_buildkit(dockerfile: Path) -> bool:
    """Return True if a Dockerfile uses features that only BuildKit understands.

    Before: `RUN --mount=type=cache,target=/root/.cache pip install torch`
    """
    return any(
        any(flag in line for flag in ("--mount=", "--link", "--chmod=", "--parents", "<<"))
        for line in _instructions(dockerfile)
    )


def _copies(dockerfile: Path) -> bool:
    # Also `RUN --mount=type=bind` reads the context.
    words = ("COPY ", "ADD ", "ONBUILD ", "--MOUNT=")
    return any(word in line.upper() for line in _instructions(dockerfile) for word in words)


def _instructions(dockerfile: Path) -> Iterator[str]:
    for line in dockerfile.read_text(encoding="utf-8").splitlines():
        text = line.strip()
        if text and not text.startswith("#"):
            yield text


def _patterns(ignore: Path) -> Iterator[str]:
    for line in ignore.read_text(encoding="utf-8").splitlines():
        text = line.strip()
        if text and not text.startswith("#"):
            yield text
