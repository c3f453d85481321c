"""Parser of `nvidia-smi`: the query, the old query, the header, `-L` and its exit codes.

Before:  0, GPU-1, Tesla T4, 580.95.05, 7.5, 15360, [N/A]
After:   NvidiaGpu(index=0, name="Tesla T4", compute_cap=(7, 5), memory_mib=15360, mig=False)
"""

import re
from dataclasses import dataclass
from typing import Final, final

from fdl_cli.system.facts import CapSource, NvidiaGpu, NvidiaStatus
from fdl_cli.system.gpu_names import compute_cap_of_name

QUERY_FIELDS: Final = "index,uuid,name,driver_version,compute_cap,memory.total,mig.mode.current"
# Drivers up to 470 refuse `compute_cap` and with it the whole query.
OLD_QUERY_FIELDS: Final = "index,uuid,name,driver_version,memory.total"
# What a message quotes of a listing that cannot be read.
LONGEST_QUOTE: Final = 60

_HEAD = re.compile(
    r"^\s*(?P<index>\d+)\s*,\s*(?P<uuid>(?:GPU|MIG)-[^,]*|\[[^,]*\]|)\s*,\s*(?P<rest>.*)$"
)
_CUDA_HEADER = re.compile(r"CUDA(?: UMD)? Version\s*:\s*(\d+)\.(\d+)")
_DRIVER_HEADER = re.compile(r"Driver Version\s*:\s*(\d[\d.]*)")
_DROPPED = re.compile(
    r"NVRM: The (?P<driver>[\d.]+) NVIDIA driver will ignore this GPU", re.IGNORECASE
)
_EXIT_STATUS: Final[dict[int, NvidiaStatus]] = {
    4: "no_permission",
    6: "broken",
    9: "broken",
    12: "broken",
    15: "broken",
    18: "mismatch",
    255: "broken",
}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SmiReading:
    """The GPUs of one listing, the driver number beside them, and unreadable lines."""

    gpus: tuple[NvidiaGpu, ...]
    driver: str | None
    unread: tuple[str, ...]


def read_query(text: str) -> SmiReading:
    """Read the lines of `--query-gpu` in either of the two field lists.

    Fields are taken from both ends, because a GPU's name may itself contain a comma.
    """
    gpus: list[NvidiaGpu] = []
    unread: list[str] = []
    driver: str | None = None
    for line in text.splitlines():
        if not line.strip():
            continue
        read = _read_line(line)
        if read is None:
            unread.append(line.strip())
            continue
        gpu, number = read
        gpus.append(gpu)
        driver = driver or number
    return SmiReading(gpus=tuple(gpus), driver=driver, unread=tuple(unread))


def is_garbled(text: str) -> bool:
    """Return True for a listing that has lines and no GPU: the program is not what it seems.

    Example:
        >>> is_garbled("caf\ufffd , x"), is_garbled(""), is_garbled("No devices were found")
        (True, False, False)
    """
    reading = read_query(text)
    return bool(reading.unread) and not reading.gpus and "no devices" not in text.lower()


def first_words(text: str) -> str:
    r"""Return the start of a garbled listing as it may stand in a message, without control characters.

    Example:
        >>> first_words("\n\x1b[31mcaf , x\nfoo").isprintable()
        True
    """
    line = next(line for line in text.splitlines() if line.strip())
    shown = "".join(each if each.isprintable() else "\ufffd" for each in line.strip())
    return shown if len(shown) <= LONGEST_QUOTE else f"{shown[:LONGEST_QUOTE]}..."


def read_header(text: str) -> tuple[str | None, tuple[int, int] | None]:
    """Return the driver number and the driver's CUDA version from plain `nvidia-smi` output.

    Example:
        >>> read_header("| Driver Version: 580.95.05  CUDA Version: 13.0 |")
        ('580.95.05', (13, 0))
    """
    driver = _DRIVER_HEADER.search(text)
    cuda = _CUDA_HEADER.search(text)
    return (
        driver.group(1) if driver else None,
        (int(cuda.group(1)), int(cuda.group(2))) if cuda else None,
    )


def read_failure(exit_code: int, text: str) -> NvidiaStatus:
    """Name the failure of `nvidia-smi`; three of them look alike to people and are not."""
    lowered = text.lower()
    if "driver/library version mismatch" in lowered:
        return "mismatch"
    if "insufficient permissions" in lowered or "permission denied" in lowered:
        return "no_permission"
    return _EXIT_STATUS.get(exit_code, "broken")


def refuses_compute_cap(exit_code: int, text: str) -> bool:
    """Return True if the driver is too old to know the field `compute_cap`."""
    return exit_code == 2 and "compute_cap" in text and "not a valid field" in text


def read_dropped(kernel_log: str) -> str | None:
    """Return the driver number when the kernel log says that it ignores a GPU."""
    found = _DROPPED.search(kernel_log)
    return found.group("driver") if found else None


def read_instances(listing: str) -> int:
    """Count the MIG instances in the output of `nvidia-smi -L`."""
    return sum(1 for line in listing.splitlines() if line.strip().startswith("MIG "))


def read_capability(text: str) -> tuple[int, int] | None:
    """Read `8.9`; anything else is unknown."""
    found = re.fullmatch(r"\s*(\d+)\.(\d+)\s*", text)
    return (int(found.group(1)), int(found.group(2))) if found else None


def _read_line(line: str) -> tuple[NvidiaGpu, str | None] | None:
    head = _HEAD.match(line)
    if head is None:
        return None
    tail = [part.strip() for part in head.group("rest").split(",")]
    new = _is_new_form(tail)
    if len(tail) < (5 if new else 3):
        return None
    if new:
        *name, driver, capability, memory, mig = tail
    else:
        *name, driver, memory = tail
        capability, mig = "", ""
    full_name = ", ".join(name)
    stated = read_capability(capability)
    source: CapSource = "nvidia-smi" if stated else "name-table"
    gpu = NvidiaGpu(
        index=int(head.group("index")),
        name=full_name,
        compute_cap=stated or compute_cap_of_name(full_name),
        memory_mib=_read_memory(memory),
        uuid=head.group("uuid") or None,
        mig=mig.lower() == "enabled",
        cap_source=source,
    )
    return gpu, driver if re.fullmatch(r"\d+(\.\d+)+", driver) else None


def _is_new_form(tail: list[str]) -> bool:
    # The new list ends with: driver, capability, memory, MIG mode. The old one: driver, memory.
    if len(tail) < 5:
        return False
    capability = tail[-3]
    return read_capability(capability) is not None or capability.startswith("[")


def _read_memory(text: str) -> int | None:
    found = re.match(r"(\d+)", text)
    return int(found.group(1)) if found else None
