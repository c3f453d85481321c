"""Acquisition of a build: resolve, check the disk, download, unpack, prove; then it is kept whole."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, final

from fdl_cli.console import Console
from fdl_cli.errors import EnvironmentLackingError, OperationFailedError
from fdl_cli.net.artefact import Artefact, Patience
from fdl_cli.net.download import fetch_all, local_path
from fdl_cli.net.locks import locked
from fdl_cli.net.sizes import with_sizes
from fdl_cli.net.store import Store
from fdl_cli.torch_setup.choice.catalogue import load
from fdl_cli.torch_setup.choice.installable import AMD_DOCS, is_plain
from fdl_cli.torch_setup.index import OFFICIAL
from fdl_cli.torch_setup.install.builds import (
    KeptBuild,
    read_build,
    tree_bytes,
    unfinished,
    write_build,
)
from fdl_cli.torch_setup.install.pip_tool import Needed, Pip, resolve_torch
from fdl_cli.torch_setup.install.progress import DownloadProgress
from fdl_cli.torch_setup.install.site_packages import normal_name
from fdl_cli.torch_setup.install.wheel_tree import packages_folder, unpack_all
from fdl_cli.torch_setup.setup_data import SetupRequest
from fdl_cli.torch_setup.setup_plan import SetupPlan
from fdl_cli.torch_setup.smoke_test import prove
from fdl_cli.torch_setup.smoke_test_result import Expectation, Proof

SECOND_HOST: Final = "https://download-r2.pytorch.org/whl"
LOCK_SECONDS: Final = 3600.0
GB: Final = 1e9
# Unpacked size by download size, measured on the CPU wheels and on CUDA wheels with libraries.
_SMALL: Final = 1_000_000_000
_SMALL_FACTOR: Final = 4.0
_LARGE_FACTOR: Final = 2.0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Closure:
    """All files of an installation, with sizes where they can be known."""

    files: tuple[Needed, ...]

    @property
    def artefacts(self) -> tuple[Artefact, ...]:
        """Return the files to fetch."""
        return tuple(item.artefact for item in self.files)


def find_closure(plan: SetupPlan, request: SetupRequest, pip: Pip, console: Console) -> Closure:
    """Let pip resolve the chosen build, and query the sizes of the files."""
    require_plain_layout(plan)
    if plan.view.kind == "table":
        raise EnvironmentLackingError(
            error_id="no-package-source",
            message=f"{plan.choice.name} cannot be fetched: neither download.pytorch.org nor "
            "an index that pip is configured with can be read",
            hint="check the network and HTTPS_PROXY; or bring wheels: `fdl libtorch download "
            "--to DIR` elsewhere, then `fdl setup --find-links DIR`",
        )
    with _package_options(plan, request) as options:
        needed = tuple(
            replace(item, artefact=_without_link(item.artefact))
            for item in resolve_torch(pip, requirement_of(plan), options, console)
        )
    if not any(normal_name(item.project) == "torch" for item in needed):
        raise OperationFailedError(
            error_id="resolve-without-torch",
            message="pip's answer holds no torch",
            hint="see `fdl setup -v` for the command that was run",
        )
    sized = with_sizes(
        [_with_other_hosts(item.artefact, request) for item in needed], Patience(), request.proxy
    )
    return Closure(
        files=tuple(
            replace(item, artefact=artefact) for item, artefact in zip(needed, sized, strict=True)
        )
    )


def requirement_of(plan: SetupPlan) -> str:
    """Return the requirements for pip; PyPI's own wheels carry no variant in their version."""
    choice = plan.choice
    held = plan.view.held or ()
    tagged = any(
        item.tagged and (item.version, item.variant) == (choice.torch, choice.variant)
        for item in held
    )
    # `===` means exactly this text: `==2.13.0` would also take 2.13.0+cpu.
    return f"torch==={choice.torch}+{choice.variant}" if tagged else f"torch==={choice.torch}"


def acquire(
    plan: SetupPlan, request: SetupRequest, pip: Pip, console: Console
) -> tuple[KeptBuild, Proof | None]:
    """Return the build of a plan, from the store or made now; the proof only if made now.

    Raises:
        FdlError: something is missing or does not hold; no environment was touched.
    """
    final = plan.store / plan.name
    lock = plan.store / f".lock-{plan.name}"
    with locked(lock, wait_seconds=LOCK_SECONDS, say=console.note):
        kept = read_build(final)
        if kept is not None:
            return kept, None
        closure = find_closure(plan, request, pip, console)
        store = Store(plan.cache)
        require_space(closure, store, plan)
        with DownloadProgress(console, "torch") as progress:
            fetched = fetch_all(closure.artefacts, store, progress=progress, proxy=request.proxy)
        return _make(plan, [item.path for item in fetched], pip, console)


def require_space(closure: Closure, store: Store, plan: SetupPlan) -> None:
    """Refuse before the first byte when a disk is too small.

    Raises:
        EnvironmentLackingError: the message has the numbers.
    """
    missing = sum(
        item.size or 0
        for item in closure.artefacts
        if local_path(item) is None and not store.finished(item).is_file()
    )
    packed = sum(item.size or 0 for item in closure.artefacts)
    unpacked = packed * (_SMALL_FACTOR if packed < _SMALL else _LARGE_FACTOR)
    wanted = {store.folder: missing * 1.1, plan.store: unpacked * 1.1}
    if _device(store.folder) == _device(plan.store):
        wanted = {plan.store: (missing + unpacked) * 1.1}
    for folder, need in wanted.items():
        free = shutil.disk_usage(_existing(folder)).free
        if free < need:
            raise EnvironmentLackingError(
                error_id="disk-too-small",
                message=f"{folder} has {free / GB:.1f} GB free, and {need / GB:.1f} GB are needed",
                hint="free some space, or use another disk: `--cache-dir DIR` for the downloads, "
                "FLODL_HOME for everything",
            )


def require_plain_layout(plan: SetupPlan) -> None:
    """Refuse a build whose packages must be compiled by probing GPUs at installation."""
    if not is_plain(plan.choice.variant, load()):
        raise EnvironmentLackingError(
            error_id="rocm-needs-its-own-index",
            message=f"the {plan.choice.variant} wheels need packages of repo.amd.com without "
            "checksums, one of which probes the GPU while it is built; fdl does not fetch them",
            hint=f"install {plan.choice.name} as {AMD_DOCS} says, then `fdl setup` keeps it; "
            "without a variant `fdl setup` takes what it can install here",
        )


def _make(
    plan: SetupPlan, wheels: Sequence[Path], pip: Pip, console: Console
) -> tuple[KeptBuild, Proof]:
    """Unpack and prove beside the store's builds; only a proved build gets its name."""
    draft = unfinished(plan.store, plan.name)
    try:
        console.note(f"unpacking {len(wheels)} packages")
        python = plan.facts.python.version
        dists = unpack_all(wheels, draft / "tree", python)
        packages = draft / "tree" / packages_folder(python)
        console.note("proving: import, kernels on every device")
        proof = prove(pip.interpreter, expectation_of(plan), packages=packages)
        require_proof(proof)
        build = KeptBuild(
            name=plan.name,
            torch=plan.choice.torch,
            variant=plan.choice.variant,
            python=python,
            folder=str(draft),
            source=plan.view.public_address_of(plan.choice.variant) or plan.view.kind,
            bytes=tree_bytes(draft / "tree"),
            proved=now(),
            sm=plan.choice.sm,
            dists=dists,
        )
        write_build(build)
        final = plan.store / plan.name
        shutil.rmtree(final, ignore_errors=True)
        draft.rename(final)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return replace(build, folder=str(final)), proof


def expectation_of(plan: SetupPlan) -> Expectation:
    """Return the expectations of a plan that the proof must meet."""
    choice = plan.choice
    hidden = "gpu_hidden_by_env" in choice.codes or "requested_not_verified_here" in choice.codes
    gpus = None if hidden or choice.variant == "cpu" or not choice.covers else 1
    return Expectation(torch=choice.torch, variant=choice.variant, sm=choice.sm, gpus=gpus)


def require_proof(proof: Proof) -> None:
    """Raise unless a proof holds.

    Raises:
        OperationFailedError: with every problem as a cause.
    """
    if not proof.ok:
        raise OperationFailedError(
            error_id="proof-failed",
            message="the new torch does not work here, so the environment stays as it was",
            hint="`fdl diagnose` looks for the reason; another build: `fdl setup --variant ...`",
            causes=proof.problems,
        )


def now() -> str:
    """Return the time as text."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@contextmanager
def _package_options(plan: SetupPlan, request: SetupRequest) -> Iterator[tuple[str, ...]]:
    """Yield where pip looks: beside its own configuration, or only in folders when offline."""
    if plan.view.kind == "wheels":
        with TemporaryDirectory(prefix="fdl-wheels-") as folder:
            _gather_wheels(Path(folder), request, plan.cache)
            yield ("--no-index", "--find-links", folder)
        return
    address = plan.view.address_of(plan.choice.variant)
    # Other packages on the torch index are old copies; pip takes the newer ones from PyPI.
    yield () if address is None else ("--extra-index-url", address)


def _gather_wheels(folder: Path, request: SetupRequest, cache: Path) -> None:
    for source in (*request.find_links, *(cache / "files").glob("*")):
        for wheel in source.absolute().glob("*.whl"):
            link = folder / wheel.name
            if not link.exists():
                link.symlink_to(wheel)


def _without_link(artefact: Artefact) -> Artefact:
    """Name the wheel itself, not the link that was only there for pip."""
    path = local_path(artefact)
    return artefact if path is None else replace(artefact, urls=(path.resolve().as_uri(),))


def _with_other_hosts(artefact: Artefact, request: SetupRequest) -> Artefact:
    """Add the addresses that serve the same bytes: the second host, and a mirror first."""
    urls = list(artefact.urls)
    for url in artefact.urls:
        for host, other in ((OFFICIAL, SECOND_HOST), (SECOND_HOST, OFFICIAL)):
            if url.startswith(host):
                rest = url.removeprefix(host)
                urls.append(other + rest)
                if request.mirror is not None:
                    urls.insert(0, request.mirror.rstrip("/") + rest)
    return replace(artefact, urls=tuple(dict.fromkeys(urls)))


def _existing(folder: Path) -> Path:
    return next(place for place in (folder, *folder.parents) if place.exists())


def _device(folder: Path) -> int:
    return _existing(folder).stat().st_dev
