"""Frozen facts about a machine, without any conclusion about torch."""

from dataclasses import dataclass, field
from typing import Final, Literal, final

Platform = Literal["linux", "windows", "macos"]
Libc = Literal["glibc", "musl"]

# How the NVIDIA driver answered. Every word has its own message and its own remedy.
NvidiaStatus = Literal[
    "ok",
    "absent",
    "no_driver",
    "broken",
    "garbled",
    "mismatch",
    "no_permission",
    "timeout",
    "dropped",
    "no_runtime",
]
CapSource = Literal["nvml", "nvidia-smi", "name-table", "stated"]
Verdict = Literal["answered", "failed", "missing", "timeout", "skipped"]

KNOWN_NVIDIA_STATUS: Final[tuple[NvidiaStatus, ...]] = (
    "ok",
    "absent",
    "no_driver",
    "broken",
    "garbled",
    "mismatch",
    "no_permission",
    "timeout",
    "dropped",
    "no_runtime",
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeReport:
    """The output of one source of facts, in its own words (shortened), and how long it took."""

    source: str
    asked: str
    verdict: Verdict
    exit_code: int | None
    seconds: float
    said: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PythonFacts:
    """The interpreter that torch would be installed for; `version` is `3.14` or `3.14t`."""

    version: str
    implementation: str = "cpython"
    executable: str | None = None
    prefix: str | None = None
    virtual: bool = False

    @property
    def number(self) -> tuple[int, int]:
        """Return major and minor, without the mark of a free-threaded build."""
        major, _, minor = self.version.rstrip("t").partition(".")
        return int(major), int(minor or 0)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OsFacts:
    """The operating system as the interpreter sees it.

    `machine` is normalised (`x86_64`, `aarch64`, `arm64` on macOS and Windows); `native_machine`
    differs from it when the interpreter runs under emulation.
    """

    platform: Platform
    machine: str
    native_machine: str | None = None
    libc: Libc | None = None
    libc_version: str | None = None
    macos_version: str | None = None
    kernel: str | None = None
    wsl: bool = False
    container: str | None = None
    tegra: str | None = None
    rosetta: bool = False


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class NvidiaGpu:
    """One NVIDIA GPU; `memory_mib` is None when the driver reports no dedicated memory."""

    index: int
    name: str
    compute_cap: tuple[int, int] | None
    memory_mib: int | None
    uuid: str | None = None
    mig: bool = False
    cap_source: CapSource = "nvidia-smi"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class NvidiaFacts:
    """The NVIDIA side: `cuda` is the driver library's answer, never a table's guess."""

    status: NvidiaStatus
    driver: str | None = None
    cuda: tuple[int, int] | None = None
    gpus: tuple[NvidiaGpu, ...] = ()
    pci: tuple[str, ...] = ()
    detail: str = ""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AmdGpu:
    """One AMD GPU by its instruction set name, such as `gfx1100`."""

    gfx: str
    name: str = ""
    pci: str | None = None
    memory_mib: int | None = None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AmdFacts:
    """The AMD side; `kfd` says whether /dev/kfd exists, `access` whether it may be opened."""

    gpus: tuple[AmdGpu, ...] = ()
    kfd: bool | None = None
    access: bool | None = None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class IntelGpu:
    """One Intel GPU: its PCI device id and the family that the id belongs to."""

    device_id: str
    family: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class IntelFacts:
    """The Intel side; `driver` is the kernel driver that is bound, None when there is none."""

    gpus: tuple[IntelGpu, ...] = ()
    driver: str | None = None
    level_zero: bool | None = None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """Sizes and limits of the machine; None where the system does not say."""

    cpus: int | None = None
    cpu_quota: float | None = None
    ram_bytes: int | None = None
    ram_limit_bytes: int | None = None
    shm_bytes: int | None = None
    disk_free_bytes: int | None = None
    open_files: int | None = None
    root: bool = False


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SystemFacts:
    """Everything that was detected, with the sources that said it.

    `environment` holds only the variables that change what torch sees, never the whole
    environment: it may contain secrets.
    """

    os: OsFacts
    python: PythonFacts
    nvidia: NvidiaFacts = NvidiaFacts(status="absent")
    amd: AmdFacts = AmdFacts()
    intel: IntelFacts = IntelFacts()
    host: HostFacts = HostFacts()
    environment: tuple[tuple[str, str], ...] = ()
    sources: tuple[ProbeReport, ...] = field(default=())

    def variable(self, name: str) -> str | None:
        """Return one of the recorded environment variables."""
        return dict(self.environment).get(name)
