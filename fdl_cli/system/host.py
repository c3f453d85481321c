"""Facts of the machine itself: system, C library, container, WSL, Jetson, memory, limits."""

import os
import platform
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from fdl_cli.system.facts import HostFacts, Libc, OsFacts, Platform

_MACHINES: Final = {
    "amd64": "x86_64",
    "x86-64": "x86_64",
    "x64": "x86_64",
    "arm64": "aarch64",
    "armv8": "aarch64",
}
_PLATFORMS: Final[dict[str, Platform]] = {"linux": "linux", "win32": "windows", "darwin": "macos"}
_CONTAINER_FILES: Final = (("/.dockerenv", "docker"), ("/run/.containerenv", "podman"))
_CONTAINER_VARIABLES: Final = (
    ("KUBERNETES_SERVICE_HOST", "kubernetes"),
    ("APPTAINER_NAME", "apptainer"),
    ("SINGULARITY_NAME", "singularity"),
    ("FDL_IN_CONTAINER", "container"),
)
# cgroup v1 and v2 say "no limit" with a number close to 2**63.
_NO_LIMIT: Final = 1 << 60


def normal_machine(machine: str, system: Platform) -> str:
    """Return one name per processor family: `x86_64`, and `arm64` on macOS and Windows.

    Example:
        >>> normal_machine("AMD64", "windows"), normal_machine("arm64", "linux")
        ('x86_64', 'aarch64')
    """
    name = _MACHINES.get(machine.lower(), machine.lower())
    return "arm64" if name == "aarch64" and system != "linux" else name


def read_os(environ: Mapping[str, str], root: Path = Path("/")) -> OsFacts:
    """Read the kind of this system; `root` lets tests show another file system."""
    system = _PLATFORMS.get(sys.platform, "linux")
    machine = normal_machine(platform.machine(), system)
    libc, libc_version = _read_libc(root) if system == "linux" else (None, None)
    kernel = platform.release()
    return OsFacts(
        platform=system,
        machine=machine,
        native_machine=_native_machine(environ, system, machine),
        libc=libc,
        libc_version=libc_version,
        macos_version=platform.mac_ver()[0] or None,
        kernel=kernel,
        wsl="microsoft" in kernel.lower() and system == "linux",
        container=read_container(environ, root),
        tegra=_read_tegra(root),
        rosetta=system == "macos" and machine == "x86_64" and _translated(),
    )


def read_container(environ: Mapping[str, str], root: Path = Path("/")) -> str | None:
    """Name the container engine around us, for messages only: nothing is decided by it."""
    for name, engine in _CONTAINER_FILES:
        if (root / name.lstrip("/")).exists():
            return engine
    for variable, engine in _CONTAINER_VARIABLES:
        if environ.get(variable):
            return engine
    text = _read(root / "proc/1/cgroup")
    found = re.search(r"(docker|kubepods|containerd|libpod|lxc)", text)
    return found.group(1) if found else None


def read_host(folder: Path) -> HostFacts:
    """Read sizes and limits; `folder` selects the disk whose space is read."""
    return HostFacts(
        cpus=os.cpu_count(),
        cpu_quota=_cpu_quota(),
        ram_bytes=_ram_bytes(),
        ram_limit_bytes=_memory_limit(),
        shm_bytes=_disk_total(Path("/dev/shm")),
        disk_free_bytes=_disk_free(folder),
        open_files=_open_files(),
        root=sys.platform != "win32" and os.geteuid() == 0,
    )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _read_libc(root: Path) -> tuple[Libc | None, str | None]:
    try:
        named = os.confstr("CS_GNU_LIBC_VERSION")
    except (OSError, ValueError):
        named = None
    if named:
        return "glibc", named.split()[-1]
    loaders = list((root / "lib").glob("ld-musl-*"))
    return ("musl", None) if loaders else (None, None)


def _read_tegra(root: Path) -> str | None:
    text = _read(root / "etc/nv_tegra_release")
    found = re.search(r"R(\d+).*?REVISION:\s*([\d.]+)", text)
    if found:
        return f"R{found.group(1)}.{found.group(2)}"
    return "unknown" if platform.release().endswith("-tegra") else None


def _native_machine(environ: Mapping[str, str], system: Platform, machine: str) -> str | None:
    if system != "windows":
        return None
    native = environ.get("PROCESSOR_ARCHITEW6432") or environ.get("PROCESSOR_IDENTIFIER", "")
    return "arm64" if "ARM" in native.upper() and machine != "arm64" else None


def _translated() -> bool:
    from fdl_cli.system.probe import run_program

    _, text = run_program("rosetta", ("sysctl", "-n", "sysctl.proc_translated"), 2.0)
    return text.strip() == "1"


def _ram_bytes() -> int | None:
    if sys.platform == "win32":
        return None
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return None


def _memory_limit() -> int | None:
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        text = _read(Path(path)).strip()
        if text.isdecimal():
            return int(text) if int(text) < _NO_LIMIT else None
    return None


def _cpu_quota() -> float | None:
    parts = _read(Path("/sys/fs/cgroup/cpu.max")).split()
    if len(parts) == 2 and parts[0].isdecimal():
        return int(parts[0]) / int(parts[1])
    quota = _read(Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us")).strip()
    period = _read(Path("/sys/fs/cgroup/cpu/cpu.cfs_period_us")).strip()
    if quota.isdecimal() and period.isdecimal():
        return int(quota) / int(period)
    return None


def _disk_total(folder: Path) -> int | None:
    try:
        return shutil.disk_usage(folder).total
    except OSError:
        return None


def _disk_free(folder: Path) -> int | None:
    for place in (folder, *folder.parents):
        try:
            return shutil.disk_usage(place).free
        except OSError:
            continue
    return None


def _open_files() -> int | None:
    if sys.platform == "win32":
        return None
    import resource

    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
