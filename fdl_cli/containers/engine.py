"""Interface of a container engine, and the requests that it gets."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, final

Say = Callable[[str], None]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ImageBuild:
    """One image to build; it is built again only if something in its context changed.

    `network` is the network mode of the build steps, None for the engine's default.
    """

    tag: str
    context: Path
    dockerfile: Path
    target: str | None
    args: tuple[tuple[str, str], ...]
    network: str | None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A folder of this machine, or a named volume, at a path in the container."""

    source: str
    target: str
    read_only: bool

    @property
    def is_folder(self) -> bool:
        """Return True if the source is a folder and not a volume's name."""
        return self.source.startswith("/")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRun:
    """One command to run in a fresh container, which is removed at its end.

    `user` is UID:GID. `init` is None to use an init process where the engine has one. `tty` says
    whether both ends are a terminal.
    """

    image: str
    argv: tuple[str, ...]
    entrypoint: tuple[str, ...]
    folder: str
    environment: tuple[tuple[str, str], ...]
    mounts: tuple[Mount, ...]
    ports: tuple[str, ...]
    user: str
    shm_size: str | None
    init: bool | None
    gpus: bool
    network: str | None
    tty: bool
    labels: tuple[tuple[str, str], ...]


class ContainerEngine(Protocol):
    """An engine that builds images and runs containers."""

    def ensure_image(self, build: ImageBuild, say: Say) -> bool:
        """Build the image if it is missing or out of date; say whether it was built."""

    def require_image(self, image: str, say: Say) -> None:
        """Fetch an image that is not here yet."""

    def run(self, request: ContainerRun) -> int:
        """Run a command to its end with this process's streams; return its exit code."""
