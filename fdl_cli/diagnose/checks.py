"""The checks of `fdl diagnose`: each reads the inspection and names the problem and its remedy."""

from collections.abc import Callable, Iterator
from typing import Final

from fdl_cli.diagnose.check import Check, check
from fdl_cli.diagnose.inspection import Inspection
from fdl_cli.errors import EnvironmentLackingError
from fdl_cli.torch_setup.choice import compat
from fdl_cli.torch_setup.choice.catalogue import Build, load, platform_key
from fdl_cli.torch_setup.choice.errors import require_platform
from fdl_cli.torch_setup.choice.nvidia_choice import driver_problem
from fdl_cli.torch_setup.choice.visibility import hides_all

GIB: Final = 1024**3
# torch's data loaders hand batches over in shared memory; docker gives 64 MiB by default.
SMALL_SHM: Final = 256 * 1024**2
SMALL_DISK: Final = 10 * GIB
SMALL_RAM: Final = 4 * GIB
FEW_FILES: Final = 1024


def run_checks(seen: Inspection) -> tuple[Check, ...]:
    """Answer every question, in the order in which people read them."""
    return tuple(item for question in QUESTIONS for item in question(seen))


def _python(seen: Inspection) -> Iterator[Check]:
    python = seen.facts.python
    try:
        require_platform(seen.facts.os, python)
    except EnvironmentLackingError as problem:
        yield check("py.version", "error", problem.message, problem.hint, python=python.version)
    else:
        yield check(
            "py.version", "ok", f"Python {python.version}, {python.implementation}",
            python=python.version, executable=python.executable,
        )  # fmt: skip
    folder = str(seen.environment.folder)
    if seen.environment.kind == "missing":
        yield check(
            "py.venv", "warning", f"there is no environment at {folder}", "`fdl setup`",
            fixable=True, folder=folder,
        )  # fmt: skip
    else:
        kind, why = seen.environment.kind, seen.environment.why
        yield check("py.venv", "ok", f"{folder} ({kind}): {why}", folder=folder, kind=kind)


def _torch(seen: Inspection) -> Iterator[Check]:
    installed = seen.installed
    if installed is None:
        yield check(
            "torch.present", "error", "torch is not installed", "`fdl setup`", fixable=True
        )
        return
    yield check(
        "torch.present", "ok", f"torch {installed.name}", torch=installed.version,
        variant=installed.variant, folder=installed.folder,
    )  # fmt: skip
    yield _drift(seen)
    yield _coverage(seen)


def _drift(seen: Inspection) -> Check:
    assert seen.installed is not None
    have = seen.installed.name
    recorded = (seen.record or {}).get("name")
    wanted = seen.wanted_variant
    if recorded is not None and recorded != have:
        return check(
            "torch.variant-drift", "error", f"{recorded} was set up, {have} is installed now",
            "`fdl setup`, and let `uv sync` and pip keep it (torch-constraints.txt)",
            fixable=True, chosen=str(recorded), installed=have,
        )  # fmt: skip
    if wanted is not None and wanted != seen.installed.variant:
        return check(
            "torch.variant-drift", "error",
            f"fdl.local.yml says {wanted}, {have} is installed",
            "`fdl setup`", fixable=True, chosen=wanted, installed=have,
        )  # fmt: skip
    if recorded is None and wanted is None:
        return check(
            "torch.variant-drift", "info", f"{have} was not set up by fdl",
            "`fdl setup`", chosen=None, installed=have,
        )  # fmt: skip
    return check(
        "torch.variant-drift", "ok", "what was chosen is what is installed",
        chosen=str(recorded or wanted), installed=have,
    )  # fmt: skip


def _coverage(seen: Inspection) -> Check:
    """Return True if the installed build has machine code for every GPU."""
    gpus = seen.facts.nvidia.gpus
    installed = seen.installed
    assert installed is not None
    if not gpus:
        return check("torch.arch-covers-gpu", "info", "there is no NVIDIA GPU to cover")
    if installed.variant == "cpu":
        return check(
            "torch.arch-covers-gpu", "warning",
            f"{installed.name} is a CPU build, and there is {gpus[0].name}", "`fdl setup`",
            fixable=True,
        )  # fmt: skip
    build = _known_build(seen)
    if build is None or build.cuda is None:
        return check(
            "torch.arch-covers-gpu", "info", f"the table does not know {installed.name}",
            "`fdl libtorch verify` runs a kernel on every GPU",
        )  # fmt: skip
    table = load()
    missing = [
        f"{gpu.name} ({gpu.compute_cap[0]}.{gpu.compute_cap[1]})"
        for gpu in gpus
        if gpu.compute_cap is not None
        and not compat.has_machine_code(build, gpu.compute_cap, table)
    ]
    if missing:
        return check(
            "torch.arch-covers-gpu", "error",
            f"{installed.name} has no machine code for {', '.join(missing)}", "`fdl setup`",
            fixable=True,
        )  # fmt: skip
    return check("torch.arch-covers-gpu", "ok", f"{installed.name} has machine code for all GPUs")


def _known_build(seen: Inspection) -> Build | None:
    key = platform_key(seen.facts.os)
    assert seen.installed is not None
    name = seen.installed.name
    builds = () if key is None else load().builds[key]
    return next((build for build in builds if build.name == name), None)


def _gpu(seen: Inspection) -> Iterator[Check]:
    facts = seen.facts
    problems = driver_problem(facts)
    for problem in problems:
        yield check(
            "gpu.driver", "error", problem.message, problem.hint, status=facts.nvidia.status
        )
    names = [gpu.name for gpu in facts.nvidia.gpus]
    names += [gpu.gfx for gpu in facts.amd.gpus] + [gpu.family for gpu in facts.intel.gpus]
    if names:
        cuda = facts.nvidia.cuda
        spoken = f"; driver {facts.nvidia.driver}" if facts.nvidia.driver else ""
        spoken += f", CUDA {cuda[0]}.{cuda[1]}" if cuda else ""
        yield check("gpu.driver", "ok", ", ".join(names) + spoken, gpus=len(names))
    elif not problems:
        yield check("gpu.driver", "info", "no GPU was found", gpus=0)
    yield from _gpu_runtime(seen)


def _gpu_runtime(seen: Inspection) -> Iterator[Check]:
    hidden = seen.facts.variable("CUDA_VISIBLE_DEVICES")
    count = len(seen.facts.nvidia.gpus)
    if hidden is not None and count and hides_all(hidden, count):
        yield check(
            "gpu.runtime", "warning", f'CUDA_VISIBLE_DEVICES="{hidden}" hides all GPUs',
            "`unset CUDA_VISIBLE_DEVICES`",
        )  # fmt: skip
    elif seen.facts.amd.access is False:
        yield check(
            "gpu.runtime", "error", "/dev/kfd may not be opened by this user",
            "`sudo usermod -aG render,video $USER`, then log in again",
        )  # fmt: skip
    else:
        yield check("gpu.runtime", "ok", "nothing hides or blocks a GPU")


def _docker(seen: Inspection) -> Iterator[Check]:
    docker = seen.docker
    if docker.cli is None:
        yield check("docker.cli", "info", "the docker program is not on PATH")
    else:
        yield check("docker.cli", "ok", docker.cli, path=docker.cli)
    match docker.status:
        case "ok":
            yield check("docker.daemon", "ok", f"engine {docker.version}", version=docker.version)
            yield check("docker.permission", "ok", "the socket may be used")
        case "no_permission":
            yield check("docker.daemon", "info", "an engine listens")
            yield check(
                "docker.permission", "warning", f"{docker.socket} may not be opened",
                "`sudo usermod -aG docker $USER`, then log in again",
            )  # fmt: skip
        case "absent" | "not_asked":
            yield check("docker.daemon", "info", f"no engine at {docker.socket or 'DOCKER_HOST'}")
        case "no_daemon" | "timeout":
            yield check(
                "docker.daemon", "warning", f"nothing answers at {docker.socket}",
                "`sudo systemctl start docker`",
            )  # fmt: skip
    if docker.status == "ok":
        yield from _docker_parts(seen)


def _docker_parts(seen: Inspection) -> Iterator[Check]:
    docker = seen.docker
    compose = "compose v2 is there" if docker.compose else "compose v2 is not installed"
    yield check("docker.compose", "ok" if docker.compose else "info", compose)
    if docker.nvidia:
        yield check("docker.nvidia", "ok", "containers can use NVIDIA GPUs")
    elif seen.facts.nvidia.gpus:
        yield check(
            "docker.nvidia", "warning", "the engine has no NVIDIA runtime",
            "install nvidia-container-toolkit and `sudo nvidia-ctk runtime configure`",
        )  # fmt: skip
    else:
        yield check(
            "docker.nvidia", "info", "the engine has no NVIDIA runtime, and no GPU is here"
        )


def _host(seen: Inspection) -> Iterator[Check]:
    host = seen.facts.host
    if host.shm_bytes is not None:
        small = host.shm_bytes < SMALL_SHM
        yield check(
            "host.shm", "warning" if small else "ok", f"/dev/shm has {_size(host.shm_bytes)}",
            "start the container with `--shm-size=2g`" if small else "", bytes=host.shm_bytes,
        )  # fmt: skip
    if host.disk_free_bytes is not None:
        small = host.disk_free_bytes < SMALL_DISK
        yield check(
            "host.disk", "warning" if small else "ok", f"{_size(host.disk_free_bytes)} free",
            "a CUDA build of torch needs about 10 GB: free some" if small else "",
            free_bytes=host.disk_free_bytes,
        )  # fmt: skip
    memory = host.ram_limit_bytes or host.ram_bytes
    if memory is not None:
        small = memory < SMALL_RAM
        yield check(
            "host.ram", "warning" if small else "ok", f"{_size(memory)} of memory",
            "raise the container's memory limit" if small else "", bytes=memory,
        )  # fmt: skip
    yield from _limits(seen)


def _limits(seen: Inspection) -> Iterator[Check]:
    host = seen.facts.host
    if host.cpu_quota is not None and host.cpus is not None and host.cpu_quota < host.cpus:
        yield check(
            "host.cgroup-cpu", "warning",
            f"{host.cpus} processors are visible, {host.cpu_quota:g} may be used",
            f"set `OMP_NUM_THREADS={max(1, int(host.cpu_quota))}` for training",
            cpus=host.cpus, quota=host.cpu_quota,
        )  # fmt: skip
    elif host.cpus is not None:
        yield check("host.cgroup-cpu", "ok", f"{host.cpus} processors", cpus=host.cpus)
    if host.open_files is not None:
        few = host.open_files < FEW_FILES
        yield check(
            "host.ulimit", "warning" if few else "ok", f"{host.open_files} open files allowed",
            f"`ulimit -n {4 * FEW_FILES}`" if few else "", open_files=host.open_files,
        )  # fmt: skip


def _net(seen: Inspection) -> Iterator[Check]:
    age = seen.snapshot_age_s
    if age is None:
        yield check("net.index", "info", "the torch index was never read here (not asked now)")
    else:
        hours = age / 3600
        yield check("net.index", "ok", f"the torch index was read {hours:.1f} h ago", age_s=age)


def _project(seen: Inspection) -> Iterator[Check]:
    if seen.project is None:
        yield check("project.manifest", "info", "no fdl.yml here or above", "`fdl init`")
        return
    yield check("project.manifest", "ok", str(seen.project / "fdl.yml"), path=str(seen.project))
    lock = next(
        (name for name in ("uv.lock", "pylock.toml") if (seen.project / name).is_file()), None
    )
    if lock is None:
        yield check("project.lock", "info", "the project has no lock file", "`uv lock`")
    else:
        yield check("project.lock", "ok", lock, file=lock)


QUESTIONS: Final[tuple[Callable[[Inspection], Iterator[Check]], ...]] = (
    _python, _torch, _gpu, _docker, _host, _net, _project,
)  # fmt: skip


def _size(number: int) -> str:
    return f"{number / GIB:.1f} GiB" if number >= GIB else f"{number // 1024**2} MiB"
