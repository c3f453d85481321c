"""The values of `fdl setup`: command line, request, answer."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, final

from fdl_cli.system.facts import SystemFacts
from fdl_cli.torch_setup.choice.constraints import Constraints
from fdl_cli.torch_setup.smoke_test_result import Proof

ActionKind = Literal[
    "create-environment", "resolve", "download", "unpack", "prove", "switch", "write-file",
    "install-project", "lock",
]  # fmt: skip


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SetupRequest:
    """The request to `fdl setup`, besides the wishes."""

    wishes: Constraints
    env: Path | None = None
    python: Path | None = None
    index_url: str | None = None
    mirror: str | None = None
    proxy: str | None = None
    offline: bool = False
    find_links: tuple[Path, ...] = ()
    cache_dir: Path | None = None
    local: bool = False
    lock: bool = False


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One step that would touch the world."""

    kind: ActionKind
    detail: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SetupOptions:
    """The command line of `fdl setup`."""

    yes: bool = False
    dry_run: bool = False
    torch: str | None = None
    variant: str | None = None
    cpu: bool = False
    cuda: str | None = None
    gpu: tuple[str, ...] = ()
    gpu_target: str | None = None
    driver_target: str | None = None
    strict: bool = False
    env: Path | None = None
    python: Path | None = None
    index_url: str | None = None
    mirror: str | None = None
    proxy: str | None = None
    offline: bool = False
    find_links: tuple[Path, ...] = ()
    cache_dir: Path | None = None
    local: bool = False
    lock: bool = False
    facts: Path | None = None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceData:
    """The choice as JSON has it: `warnings` are codes, their texts are in the envelope."""

    torch: str
    variant: str
    warnings: tuple[str, ...]
    why: str
    covers: tuple[str, ...]
    left_out: tuple[str, ...]
    sm: tuple[str, ...]
    certainty: str
    verified: bool


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FileData:
    """One file of the installation."""

    name: str
    version: str
    bytes: int | None
    sha256: str | None
    cached: bool


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class VersionChange:
    """One package of a lock file; a version is null where the file does not name the package."""

    name: str
    before: str | None
    after: str | None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LockData:
    """The lock file that `--lock` wrote, how many packages it names, and what changed."""

    path: str
    count: int
    changed: tuple[VersionChange, ...]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SetupData:
    """Everything about one setup; a part that was not requested is empty or null."""

    choice: ChoiceData
    facts: SystemFacts
    environment: str | None
    index: str
    files: tuple[FileData, ...]
    download_bytes: int | None
    actions: tuple[Action, ...]
    dry_run: bool
    changed: bool
    build: str | None
    written: tuple[str, ...]
    proof: Proof | None
    lock: LockData | None = None
