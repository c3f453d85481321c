"""Execution of a setup plan: get the build, put it into the environment, record the proof."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, final

from fdl_cli.console import Console
from fdl_cli.errors import EnvironmentLackingError, Notice
from fdl_cli.net.locks import locked
from fdl_cli.system.python_env import Environment
from fdl_cli.torch_setup.install.acquire import (
    acquire,
    expectation_of,
    now,
    require_plain_layout,
    require_proof,
)
from fdl_cli.torch_setup.install.builds import KeptBuild
from fdl_cli.torch_setup.install.installed import RECORD_NAME, read_installed, read_record
from fdl_cli.torch_setup.install.new_environment import create_environment
from fdl_cli.torch_setup.install.pip_tool import find_pip
from fdl_cli.torch_setup.install.site_packages import read_site
from fdl_cli.torch_setup.install.switch import finish_interrupted, prepare, switch
from fdl_cli.torch_setup.install.wheel_tree import packages_folder
from fdl_cli.torch_setup.project_files import write, write_atomically
from fdl_cli.torch_setup.setup_data import SetupRequest
from fdl_cli.torch_setup.setup_plan import SetupPlan
from fdl_cli.torch_setup.smoke_test import prove
from fdl_cli.torch_setup.smoke_test_result import Proof

SCHEMA: Final = "fdl.torch-record/1"
LOCK_SECONDS: Final = 600.0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SetupOutcome:
    """The result of a setup: whether anything changed, the proof, and where things are."""

    changed: bool
    proof: Proof | None
    build: str | None
    written: tuple[str, ...]
    notices: tuple[Notice, ...]


def run_setup(plan: SetupPlan, request: SetupRequest, console: Console) -> SetupOutcome:
    """Carry out the plan; at every moment the environment has the old torch or the new one.

    Raises:
        FdlError: a step failed; the environment is as it was before.
    """
    if plan.environment.kind != "missing":
        finish_interrupted(plan.environment.folder)
    if plan.up_to_date:
        return SetupOutcome(changed=False, proof=None, build=None, written=(), notices=())
    require_writable(plan.root)
    require_writable(plan.environment.folder)
    if plan.installed is not None and plan.installed.name == plan.choice.name:
        return _adopt(plan, console)
    require_plain_layout(plan)
    pip = find_pip(plan.environment, request.python)
    build, proof = acquire(plan, request, pip, console)
    environment = plan.environment
    if environment.kind == "missing":
        environment = create_environment(environment, pip=pip, echo=console.echo)
    if proof is None:
        packages = build.tree / packages_folder(build.python)
        proof = prove(environment.interpreter, expectation_of(plan), packages=packages)
        require_proof(proof)
    notices = put_into(build, environment, console)
    written = _write_record_and_pins(plan, environment, build, proof)
    return SetupOutcome(
        changed=True, proof=proof, build=build.name, written=written, notices=notices
    )


def require_writable(folder: Path) -> None:
    """Check a folder, or the nearest one above it that exists, before anything is downloaded.

    Raises:
        EnvironmentLackingError: it is not writable.
    """
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not os.access(folder, os.W_OK | os.X_OK):
        raise EnvironmentLackingError(
            error_id="place-not-usable",
            message=f"cannot write to `{folder}`, so nothing was downloaded",
            hint=f"look at its permissions: `ls -ld {folder}`; `--env DIR` names another environment",
        )


def put_into(build: KeptBuild, environment: Environment, console: Console) -> tuple[Notice, ...]:
    """Exchange the torch of an environment for a kept build."""
    lock = environment.folder / "fdl-switch.lock"
    with locked(lock, wait_seconds=LOCK_SECONDS, say=console.note):
        switch(
            build, environment.folder, environment.interpreter, previous=_active_build(environment)
        )
    return _companions(build, environment)


def write_record(
    environment: Environment, build: KeptBuild | None, name: str, proof: Proof, source: str
) -> None:
    """Write the installed and proved build beside the environment."""
    record: Mapping[str, Any] = {
        "schema": SCHEMA,
        "name": name,
        "build": None if build is None else build.name,
        "folder": None if build is None else build.folder,
        "source": source,
        "at": now(),
        "proof": asdict(proof),
    }
    path = environment.folder / RECORD_NAME
    write_atomically(path, (json.dumps(record, indent=1) + "\n").encode())


def prepare_in(build: KeptBuild, environment: Environment, console: Console) -> None:
    """Link a build into an environment ahead of time, so that switching to it is instant."""
    lock = environment.folder / "fdl-switch.lock"
    with locked(lock, wait_seconds=LOCK_SECONDS, say=console.note):
        prepare(build, environment.folder, environment.interpreter)


def _active_build(environment: Environment) -> str | None:
    """Return the build that the environment holds, unless torch was changed since."""
    record = read_record(environment) or {}
    installed = read_installed(environment)
    if installed is None or record.get("name") != installed.name or not record.get("build"):
        return None
    return str(record["build"])


def _adopt(plan: SetupPlan, console: Console) -> SetupOutcome:
    """Prove and record a torch that is already the right one, whoever installed it."""
    console.note(f"{plan.choice.name} is installed already; proving it")
    proof = prove(plan.environment.interpreter, expectation_of(plan))
    require_proof(proof)
    written = _write_record_and_pins(plan, plan.environment, None, proof)
    return SetupOutcome(changed=True, proof=proof, build=None, written=written, notices=())


def _write_record_and_pins(
    plan: SetupPlan, environment: Environment, build: KeptBuild | None, proof: Proof
) -> tuple[str, ...]:
    source = plan.view.public_address_of(plan.choice.variant) or plan.view.kind
    write_record(environment, build, plan.choice.name, proof, source)
    written: list[Path] = [environment.folder / RECORD_NAME]
    for edit in plan.edits:
        if edit.changes:
            write(edit)
            written.append(edit.path)
    return tuple(str(path) for path in written)


def _companions(build: KeptBuild, environment: Environment) -> tuple[Notice, ...]:
    """Warn of packages that are built for one minor version of torch and are now wrong."""
    site = read_site(environment.folder / packages_folder(build.python))
    installed = read_installed(environment)
    minor = int(build.torch.split(".")[1])
    found: list[Notice] = []
    vision = site.get("torchvision")
    # torchvision's minor version is torch's plus 15.
    if (
        installed is not None
        and vision is not None
        and not vision.version.startswith(f"0.{minor + 15}.")
    ):
        found.append(
            Notice(
                id="torchvision-mismatch",
                message=f"torchvision {vision.version} does not belong to torch {build.torch}",
                hint=f'`pip install "torchvision==0.{minor + 15}.*" -c torch-constraints.txt`',
            )
        )
    return tuple(found)
