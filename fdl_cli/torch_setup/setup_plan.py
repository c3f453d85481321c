"""Plan of `fdl setup`: facts and wishes in, choice and actions out; nothing is changed."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, final

from fdl_cli.context import Context
from fdl_cli.errors import ConflictError, FdlError, Notice, UsageError
from fdl_cli.net.artefact import Patience
from fdl_cli.system.collect import collect
from fdl_cli.system.facts import PythonFacts, SystemFacts
from fdl_cli.system.python_env import Environment, find_environment, read_interpreter, read_python
from fdl_cli.torch_setup import index as indexes
from fdl_cli.torch_setup.choice.catalogue import Catalogue, PlatformKey, load
from fdl_cli.torch_setup.choice.constraints import Constraints, TorchChoice
from fdl_cli.torch_setup.choice.errors import require_platform
from fdl_cli.torch_setup.choice.installable import choose_installable
from fdl_cli.torch_setup.choice.notices import BLOCKING, warn
from fdl_cli.torch_setup.index import IndexView
from fdl_cli.torch_setup.install.builds import KeptBuild, build_name, read_build
from fdl_cli.torch_setup.install.installed import (
    InstalledTorch,
    read_installed,
    read_record,
    site_packages,
)
from fdl_cli.torch_setup.install.pip_tool import Pip, configured_links, find_pip
from fdl_cli.torch_setup.project_files import FileEdit, local_edit, pin_edits
from fdl_cli.torch_setup.setup_data import Action, SetupRequest
from fdl_cli.torch_setup.snapshot import Snapshot, save_snapshot

STORE: Final = "libtorch"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SetupPlan:
    """Everything that is decided; `up_to_date` says that there is nothing to do."""

    facts: SystemFacts
    environment: Environment
    root: Path
    store: Path
    cache: Path
    view: IndexView
    choice: TorchChoice
    installed: InstalledTorch | None
    kept: KeptBuild | None
    edits: tuple[FileEdit, ...]
    up_to_date: bool
    notices: tuple[Notice, ...]

    @property
    def name(self) -> str:
        """Return the name of the build that is to be used."""
        return build_name(self.choice.torch, self.choice.variant, self.facts.python.version)

    def actions(self) -> tuple[Action, ...]:
        """Return the steps, in their order."""
        if self.up_to_date:
            return ()
        found: list[Action] = []
        if self.kept is None and not self._is_adopted():
            found += [
                Action(kind="resolve", detail=f"torch=={self.choice.name} and what it needs"),
                Action(kind="download", detail=f"into {self.cache}"),
                Action(kind="unpack", detail=str(self.store / self.name)),
            ]
        if self.environment.kind == "missing":
            found.append(Action(kind="create-environment", detail=str(self.environment.folder)))
        found.append(Action(kind="prove", detail="kernels on every device, in a child process"))
        if not self._is_adopted():
            found.append(Action(kind="switch", detail=str(self.environment.folder)))
        found += [
            Action(kind="write-file", detail=str(edit.path)) for edit in self.edits if edit.changes
        ]
        return tuple(found)

    def _is_adopted(self) -> bool:
        return self.installed is not None and self.installed.name == self.choice.name


def make_plan(context: Context, request: SetupRequest) -> SetupPlan:
    """Collect the facts, read the available builds, and choose.

    Raises:
        FdlError: nothing fits, a wish cannot be met, or there is no source of packages.
    """
    root = context.project_root or context.cwd
    environment = find_environment(
        request.env, tuple(dict.fromkeys((root, context.cwd))), context.environ
    )
    facts = collect(context.environ, root, _python_of(environment, request.python))
    key = require_platform(facts.os, facts.python)
    catalogue = load()
    cache = request.cache_dir or context.directories.cache
    view = find_source(request, environment, key, catalogue, cache, python=facts.python.version)
    choice = choose_installable(facts, request.wishes, catalogue, view.held)
    if view.kind == "table":
        choice = without_index(choice, catalogue)
    installed = read_installed(environment)
    choice, kept_notices = _spare_gpu_build(choice, installed, request.wishes)
    address = view.public_address_of(choice.variant)
    edits = (
        local_edit(root, choice.variant),
        *pin_edits(
            root,
            choice.torch,
            choice.variant,
            address,
            labelled=_is_labelled(choice, environment, view),
        ),
    )
    store = find_store(context, local=request.local)
    name = build_name(choice.torch, choice.variant, facts.python.version)
    done = _is_done(environment, installed, choice) and not any(edit.changes for edit in edits)
    return SetupPlan(
        facts=facts, environment=environment, root=root, store=store, cache=cache, view=view,
        choice=choice, installed=installed, kept=read_build(store / name), edits=edits,
        up_to_date=done, notices=(*view.notices, *kept_notices),
    )  # fmt: skip


def _is_labelled(choice: TorchChoice, environment: Environment, view: IndexView) -> bool:
    """Return True if the version that pip knows carries the variant: that of a wheel on PyPI does not."""
    for folder in site_packages(environment):
        if (folder / f"torch-{choice.torch}+{choice.variant}.dist-info").is_dir():
            return True
        if (folder / f"torch-{choice.torch}.dist-info").is_dir():
            return False
    found = [
        item.tagged
        for item in view.held or ()
        if (item.version, item.variant) == (choice.torch, choice.variant)
    ]
    return any(found) or not found


def without_index(choice: TorchChoice, catalogue: Catalogue) -> TorchChoice:
    """Return a choice that rests on the bundled table alone: it may have been withdrawn since."""
    unread = warn("index_unreachable", catalogue.as_of)
    return replace(choice, warnings=(*choice.warnings, unread), verified=False)


def _python_of(environment: Environment, python: Path | None) -> PythonFacts:
    """Return the interpreter to install for; `--python` is only for a new environment."""
    if python is None:
        return read_python(environment)
    if environment.kind != "missing":
        raise ConflictError(
            error_id="environment-exists",
            message=f"`--python` is for a new environment, and {environment.folder} exists",
            hint="remove it first, or name another with `--env DIR`",
        )
    return read_interpreter(python)


def find_store(context: Context, *, local: bool = False) -> Path:
    """Return where builds are kept: the project's `libtorch/` if there is one, else shared."""
    folder = (context.project_root or context.cwd) / STORE
    if local or folder.is_dir():
        return folder
    return context.directories.data / STORE


def find_source(
    request: SetupRequest,
    environment: Environment,
    key: PlatformKey,
    catalogue: Catalogue,
    cache: Path,
    *,
    python: str,
) -> IndexView:
    """Return the available builds: a wheelhouse, a named index, the official one, or pip's own.

    Raises:
        FdlError: a named source cannot be read.
    """
    if request.find_links or request.offline:
        return _wheels(request, key, catalogue, cache)
    base = (request.index_url or request.mirror or indexes.OFFICIAL).rstrip("/")
    fresh = indexes.read_kept(base, key, cache) or (
        None if request.index_url else indexes.read_kept("pip", key, cache, python=python)
    )
    if fresh is not None and _may_hold(fresh, request.wishes):
        return fresh
    try:
        return indexes.read_live(
            base, key, catalogue.builds[key], cache, Patience(), request.proxy
        )
    except FdlError as problem:
        if request.index_url is not None or request.mirror is not None:
            raise
        pip = find_pip(environment, request.python)
        return _configured(pip, key, catalogue, cache, problem, python)


def _may_hold(view: IndexView, wishes: Constraints) -> bool:
    """Return True if a kept reading is enough: a wished version may be newer than the reading."""
    return wishes.torch is None or any(
        f"{item.version}.".startswith(f"{wishes.torch}.") for item in view.held or ()
    )


def _configured(
    pip: Pip,
    key: PlatformKey,
    catalogue: Catalogue,
    cache: Path,
    problem: FdlError,
    python: str,
) -> IndexView:
    try:
        links = configured_links(pip, "torch")
    except FdlError:
        # No source at all: the table still makes a plan, which says what it rests on.
        return IndexView(
            kind="table",
            address=f"{indexes.OFFICIAL}/{{variant}}",
            held=None,
            taken_at=None,
        )
    held = indexes.held_files(links, key, untagged_variants(catalogue, key))
    import time

    taken = time.time()
    source = indexes.configured_source(key, python)
    save_snapshot(cache, Snapshot(source=source, address=None, taken_at=taken, held=held))
    return IndexView(
        kind="configured", address=None, held=held, taken_at=taken,
        notices=(indexes.fallback_notice(indexes.OFFICIAL, problem),),
    )  # fmt: skip


def _wheels(
    request: SetupRequest, key: PlatformKey, catalogue: Catalogue, cache: Path
) -> IndexView:
    """Return the contents of wheelhouses and the cache: with `--offline` these are the index."""
    from fdl_cli.net.simple_index import IndexLink

    folders = [*request.find_links, *(cache / "files").glob("*")]
    for folder in request.find_links:
        if not folder.is_dir():
            raise UsageError(
                error_id="wheelhouse-missing",
                message=f"`{folder}` is no folder of wheels",
                hint="fill one with `fdl libtorch download --to DIR`",
            )
    links = tuple(
        IndexLink(name=path.name, url=path.as_uri(), sha256=None, size=None, yanked=False)
        for folder in folders
        for path in folder.absolute().glob("torch-*.whl")
    )
    held = indexes.held_files(links, key, untagged_variants(catalogue, key))
    return IndexView(kind="wheels", address=None, held=held, taken_at=None)


def untagged_variants(catalogue: Catalogue, key: PlatformKey) -> dict[str, str]:
    """Return the variant of PyPI's files, whose names do not tell it, by minor version."""
    if not key.startswith("linux"):
        return {".".join(map(str, build.minor)): "cpu" for build in catalogue.builds[key]}
    found = {
        ".".join(map(str, build.minor)): build.variant
        for build in catalogue.builds["linux_x86_64"]
        if build.default
    }
    if key == "linux_aarch64":
        held = {(build.minor, build.variant) for build in catalogue.builds[key]}
        return {
            minor: variant if (tuple(map(int, minor.split("."))), variant) in held else "cpu"
            for minor, variant in found.items()
        }
    return found


def _spare_gpu_build(
    choice: TorchChoice, installed: InstalledTorch | None, wishes: Constraints
) -> tuple[TorchChoice, tuple[Notice, ...]]:
    """Keep a GPU build that is there when only the driver is broken, missing or hidden."""
    if (
        installed is None
        or installed.variant == "cpu"
        or choice.variant != "cpu"
        or not wishes.automatic
        or not BLOCKING & set(choice.codes)
    ):
        return choice, ()
    spared = replace(
        choice,
        torch=installed.version,
        variant=installed.variant,
        why=f"{installed.name} is installed and stays: {choice.why}",
    )
    notice = Notice(
        id="gpu-build-kept",
        message=f"{installed.name} stays, although no GPU works here now",
        hint="ask for the CPU build with `fdl setup --cpu`",
    )
    return spared, (notice,)


def _is_done(
    environment: Environment, installed: InstalledTorch | None, choice: TorchChoice
) -> bool:
    record = read_record(environment) or {}
    proof = record.get("proof") or {}
    return (
        installed is not None
        and installed.name == choice.name
        and record.get("name") == choice.name
        and isinstance(proof, dict)
        and not proof.get("problems", ["unknown"])
    )
