"""A folder of wheels for another machine, which then needs no network."""

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from fdl_cli.context import Context
from fdl_cli.errors import FdlError, Notice, UsageError
from fdl_cli.net.artefact import Patience
from fdl_cli.net.download import fetch_all
from fdl_cli.net.sizes import with_sizes
from fdl_cli.net.store import Store
from fdl_cli.system.facts import OsFacts, PythonFacts, SystemFacts
from fdl_cli.system.python_env import Environment
from fdl_cli.torch_setup import index as indexes
from fdl_cli.torch_setup.choice.catalogue import PlatformKey, load
from fdl_cli.torch_setup.choice.choose import choose
from fdl_cli.torch_setup.choice.constraints import TorchChoice
from fdl_cli.torch_setup.index import IndexView
from fdl_cli.torch_setup.install.pip_tool import Pip, configured_links, find_pip, resolve_torch
from fdl_cli.torch_setup.install.progress import DownloadProgress
from fdl_cli.torch_setup.setup_data import SetupRequest
from fdl_cli.torch_setup.setup_plan import find_source, untagged_variants

# The newest glibc floor that wheels of torch have, and all older ones.
_LINUX_FLOORS: Final = ("2_28", "2_27", "2_24", "2_17", "2_12", "2_5")
_LEGACY: Final = ("manylinux2014", "manylinux2010", "manylinux1")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The machine that the wheels are for."""

    platform: str
    python: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class WheelhouseData:
    """The answer of `download --to`."""

    torch: str
    variant: str
    why: str
    folder: str
    files: tuple[str, ...]
    bytes: int
    install: str
    notices: tuple[Notice, ...]


_SYSTEMS: Final[dict[str, OsFacts]] = {
    "linux_x86_64": OsFacts(platform="linux", machine="x86_64", libc="glibc", libc_version="2.28"),
    "linux_aarch64": OsFacts(
        platform="linux", machine="aarch64", libc="glibc", libc_version="2.28"
    ),
    "win_amd64": OsFacts(platform="windows", machine="x86_64"),
    "win_arm64": OsFacts(platform="windows", machine="arm64"),
    "macosx_arm64": OsFacts(platform="macos", machine="arm64", macos_version="14.0"),
}
_KEYS: Final[dict[str, PlatformKey]] = {
    "linux_x86_64": "linux_x86_64",
    "linux_aarch64": "linux_aarch64",
    "win_amd64": "windows_amd64",
    "win_arm64": "windows_arm64",
    "macosx_arm64": "macos_arm64",
}


def fill_wheelhouse(
    context: Context, request: SetupRequest, target: Target, folder: Path
) -> WheelhouseData:
    """Choose for the target, resolve for it, fetch, and copy the wheels into a folder.

    Raises:
        FdlError: the target is unknown, nothing fits it, or a file is not available.
    """
    system = _SYSTEMS.get(target.platform)
    if system is None:
        raise UsageError(
            error_id="platform-unknown",
            message=f"there are no wheels of torch for `{target.platform}`",
            hint=f"use one of {', '.join(sorted(_SYSTEMS))}",
        )
    key = _KEYS[target.platform]
    catalogue = load()
    cache = request.cache_dir or context.directories.cache
    here = Environment(folder=context.cwd / ".venv", kind="missing", why="only to resolve")
    pip = find_pip(here)
    view = _source(request, here, key, cache, pip, target)
    facts = SystemFacts(os=system, python=PythonFacts(version=target.python))
    choice = choose(facts, request.wishes, catalogue, view.held)
    # pip resolves for another platform only with `--target`; a dry run never writes there.
    options = (*_options(choice, view, target), "--target", str(folder))
    needed = resolve_torch(pip, _requirement(choice, view), options, context.console)
    artefacts = with_sizes([item.artefact for item in needed], Patience(), request.proxy)
    with DownloadProgress(context.console, "wheels") as progress:
        fetched = fetch_all(artefacts, Store(cache), progress=progress, proxy=request.proxy)
    folder.mkdir(parents=True, exist_ok=True)
    for item in fetched:
        _copy(item.path, folder / item.artefact.name)
    _write_sums(folder)
    names = tuple(sorted(item.artefact.name for item in fetched))
    return WheelhouseData(
        torch=choice.torch,
        variant=choice.variant,
        why=choice.why,
        folder=str(folder),
        files=names,
        bytes=sum((folder / name).stat().st_size for name in names),
        install=f"fdl setup -y --find-links {folder.name}",
        notices=view.notices,
    )


def _source(
    request: SetupRequest,
    here: Environment,
    key: PlatformKey,
    cache: Path,
    pip: Pip,
    target: Target,
) -> IndexView:
    """Return the wheels for the target, whose files pip would not consider for us."""
    catalogue = load()
    if request.find_links or request.index_url or request.mirror:
        return find_source(request, here, key, catalogue, cache, python=target.python)
    try:
        return indexes.read_live(
            indexes.OFFICIAL, key, catalogue.builds[key], cache, Patience(), request.proxy
        )
    except FdlError as problem:
        links = configured_links(pip, "torch", offline=_target_options(target))
        held = indexes.held_files(links, key, untagged_variants(catalogue, key))
        notice = indexes.fallback_notice(indexes.OFFICIAL, problem)
        return IndexView(
            kind="configured", address=None, held=held, taken_at=None, notices=(notice,)
        )


def _requirement(choice: TorchChoice, view: IndexView) -> str:
    tagged = any(
        item.tagged and (item.version, item.variant) == (choice.torch, choice.variant)
        for item in view.held or ()
    )
    return f"torch==={choice.torch}" + (f"+{choice.variant}" if tagged else "")


def _options(choice: TorchChoice, view: IndexView, target: Target) -> tuple[str, ...]:
    address = view.address_of(choice.variant)
    extra = () if address is None else ("--extra-index-url", address)
    return (*extra, *_target_options(target))


def _target_options(target: Target) -> tuple[str, ...]:
    number = target.python.rstrip("t")
    abi = "cp" + target.python.replace(".", "")
    platforms = _platform_tags(target.platform)
    return (
        *(word for tag in platforms for word in ("--platform", tag)),
        "--python-version", number, "--implementation", "cp",
        "--abi", abi, "--abi", "abi3", "--abi", "none",
    )  # fmt: skip


def _platform_tags(platform: str) -> tuple[str, ...]:
    system, _, machine = platform.partition("_")
    if system == "linux":
        new = tuple(f"manylinux_{floor}_{machine}" for floor in _LINUX_FLOORS)
        old = tuple(f"{name}_{machine}" for name in _LEGACY)
        return (*new, *old, f"linux_{machine}")
    if system == "macosx":
        return tuple(f"macosx_{major}_0_{machine}" for major in (14, 13, 12, 11))
    return (platform,)


def _copy(source: Path, target: Path) -> None:
    if target.exists():
        target.unlink()
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copy2(source, target)


def _write_sums(folder: Path) -> None:
    """Write SHA256SUMS, so that the other machine can check the files."""
    lines = []
    for wheel in sorted(folder.glob("*.whl")):
        with wheel.open("rb") as file:
            lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {wheel.name}\n")
    (folder / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")
