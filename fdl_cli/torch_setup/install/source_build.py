"""A build of torch from source: its requirements, whether they are met, and its commands.

Only needed where no published build has machine code for all GPUs of a machine.
"""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, final

from fdl_cli.errors import EnvironmentLackingError, FdlError, UsageError
from fdl_cli.system.facts import SystemFacts

Echo = Callable[[str], None]
Way = Literal["native", "docker"]

REPOSITORY: Final = "https://github.com/pytorch/pytorch"
# Measured by those who do it: a full CUDA build takes this much, whatever the machine.
DISK_BYTES: Final = 60_000_000_000
RAM_PER_JOB_BYTES: Final = 4_000_000_000
HOURS_PER_CORE: Final = 40.0
BUILD_SECONDS: Final = 24 * 3600.0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One thing that the build needs, and whether it is here."""

    name: str
    present: bool
    detail: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SourceBuild:
    """The plan: the requirements, the cost, the commands in their order."""

    torch: str
    way: Way
    arch_list: str
    jobs: int
    hours: float
    requirements: tuple[Requirement, ...]
    commands: tuple[tuple[str, ...], ...]
    environment: tuple[tuple[str, str], ...]
    wheel_folder: str

    @property
    def possible(self) -> bool:
        """Return True if everything is here."""
        return all(item.present for item in self.requirements)


def plan_source_build(
    facts: SystemFacts,
    *,
    torch: str,
    way: Way,
    folder: Path,
    arch: str | None,
    python: str,
) -> SourceBuild:
    """Describe the needs and commands of a source build for the GPUs of this machine.

    Raises:
        UsageError: there is no GPU to build for, and none was named.
    """
    caps = sorted({gpu.compute_cap for gpu in facts.nvidia.gpus if gpu.compute_cap is not None})
    archs = arch or ";".join(f"{major}.{minor}" for major, minor in caps)
    if not archs:
        raise UsageError(
            error_id="arch-missing",
            message="there is no NVIDIA GPU here, so nothing says what to build for",
            hint="name the compute capabilities: `fdl libtorch build --arch '6.1;12.0'`",
        )
    memory = facts.host.ram_limit_bytes or facts.host.ram_bytes or RAM_PER_JOB_BYTES
    cores = os.cpu_count() or 1
    jobs = max(1, min(cores, memory // RAM_PER_JOB_BYTES))
    source = folder / f"pytorch-{torch}"
    settings = (
        ("TORCH_CUDA_ARCH_LIST", archs),
        ("MAX_JOBS", str(jobs)),
        ("USE_CUDA", "1"),
        ("BUILD_TEST", "0"),
        ("PYTORCH_BUILD_VERSION", torch),
        ("PYTORCH_BUILD_NUMBER", "1"),
    )
    return SourceBuild(
        torch=torch,
        way=way,
        arch_list=archs,
        jobs=jobs,
        hours=round(HOURS_PER_CORE / jobs, 1),
        requirements=_requirements(facts, way),
        commands=_native(torch, source, python)
        if way == "native"
        else _docker(torch, source, settings),
        environment=settings,
        wheel_folder=str(source / "dist"),
    )


def run_source_build(plan: SourceBuild, echo: Echo) -> Path:
    """Run the commands of a plan; their output goes to the terminal. Return the wheel.

    Raises:
        EnvironmentLackingError: something that the build needs is not here.
        FdlError: a command failed.
    """
    from fdl_cli.system.process import run

    missing = tuple(
        f"{item.name}: {item.detail}" for item in plan.requirements if not item.present
    )
    if missing:
        raise EnvironmentLackingError(
            error_id="build-tools-missing",
            message=f"a {plan.way} build of torch {plan.torch} is not possible here",
            hint="`fdl libtorch build --dry-run` lists what is needed; "
            "or build in a container: `--docker`",
            causes=missing,
        )
    settings = {**os.environ, **dict(plan.environment)}
    source = Path(plan.wheel_folder).parent
    for number, command in enumerate(plan.commands):
        if number == 0 and source.is_dir():
            continue  # the sources are here from an earlier run
        run(command, env=settings, timeout=BUILD_SECONDS, capture=False, echo=echo)
    return _wheel(Path(plan.wheel_folder))


def _wheel(folder: Path) -> Path:
    wheels = sorted(folder.glob("torch-*.whl"), key=lambda path: path.stat().st_mtime)
    if not wheels:
        raise _no_wheel(folder)
    return wheels[-1]


def _no_wheel(folder: Path) -> FdlError:
    return EnvironmentLackingError(
        error_id="build-without-wheel",
        message=f"the build ended well but left no wheel in {folder}",
        hint="look at the output of the last command",
    )


def _requirements(facts: SystemFacts, way: Way) -> tuple[Requirement, ...]:
    free = facts.host.disk_free_bytes or 0
    disk = Requirement(
        name="disk",
        present=free >= DISK_BYTES,
        detail=f"{free / 1e9:.0f} GB free, {DISK_BYTES / 1e9:.0f} GB needed",
    )
    programs = (
        (("docker", "the image brings compiler and CUDA"),)
        if way == "docker"
        else (
            ("git", "fetches the sources and their submodules"),
            ("cmake", "3.27 or newer"),
            ("ninja", "otherwise the build takes many times as long"),
            ("g++", "11 or newer"),
            ("nvcc", "the CUDA toolkit, in the version that the build shall have"),
        )
    )
    return (
        *(
            Requirement(
                name=name,
                present=shutil.which(name) is not None,
                detail=f"{shutil.which(name) or 'not on PATH'}: {what}",
            )
            for name, what in programs
        ),
        disk,
    )


def _native(torch: str, source: Path, python: str) -> tuple[tuple[str, ...], ...]:
    clone = (
        "git", "clone", "--depth", "1", "--recurse-submodules", "--shallow-submodules",
        "--branch", f"v{torch}", REPOSITORY, str(source),
    )  # fmt: skip
    build = (
        python, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-v",
        "--wheel-dir", str(source / "dist"), str(source),
    )  # fmt: skip
    needs = (python, "-m", "pip", "install", "-r", str(source / "requirements.txt"))
    return clone, needs, build


def _docker(
    torch: str, source: Path, settings: tuple[tuple[str, str], ...]
) -> tuple[tuple[str, ...], ...]:
    clone = _native(torch, source, "python3")[0]
    inside = (
        "cd /pytorch && pip install -r requirements.txt && "
        "pip wheel --no-deps --no-build-isolation -v --wheel-dir dist ."
    )
    passed = tuple(word for key, value in settings for word in ("--env", f"{key}={value}"))
    build = (
        "docker", "run", "--rm", *passed, "--volume", f"{source}:/pytorch",
        f"pytorch/pytorch:{torch}-cuda13.0-cudnn9-devel",
        "bash", "-c",
        inside,
    )  # fmt: skip
    return clone, build
