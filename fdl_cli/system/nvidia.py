"""State of the NVIDIA driver, including the many ways in which it gives no answer.

`interpret` is pure: it turns the words of all sources into facts. `nvidia_probe` collects them.
"""

import json
import re
from dataclasses import dataclass
from typing import Any, Final, final

from fdl_cli.system import nvidia_smi
from fdl_cli.system.facts import NvidiaFacts, NvidiaGpu, NvidiaStatus, Verdict
from fdl_cli.system.gpu_names import compute_cap_of_pci

_NVML_STATUS: Final[dict[str, NvidiaStatus]] = {
    "LibRmVersionMismatch": "mismatch",
    "NoPermission": "no_permission",
    "DriverNotLoaded": "broken",
    "GpuIsLost": "broken",
    "Unknown": "broken",
}
_VERSION = re.compile(r"\b(\d{3,4}\.\d[\d.]*)\b")
# The first driver branch that no longer serves a generation (its compute capability and older).
_DROPPED_FROM: Final[tuple[tuple[int, tuple[int, int]], ...]] = ((590, (7, 2)), (495, (3, 7)))
MIB: Final = 1024 * 1024


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """The words of one program: verdict, exit code, and everything it printed."""

    verdict: Verdict = "skipped"
    exit_code: int | None = None
    text: str = ""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class NvidiaWords:
    """All that the sources said about NVIDIA, before anybody thinks about it."""

    nvml: Said = Said()
    smi: Said = Said()
    smi_old: Said = Said()
    smi_header: Said = Said()
    kernel_module: str | None = None
    kernel_log: str = ""
    device_nodes: bool = False
    libcuda: bool = False
    pci: tuple[str, ...] = ()
    container: bool = False


def interpret(words: NvidiaWords) -> NvidiaFacts:
    """Turn the words of all sources into facts; NVML wins over `nvidia-smi`."""
    found = _from_nvml(words) or _from_smi(words)
    if found is not None and found.gpus:
        return found
    driver = (found.driver if found else None) or _module_version(words)
    status = _failure(words, driver)
    return NvidiaFacts(
        status=status,
        driver=driver,
        cuda=found.cuda if found else None,
        pci=words.pci,
        detail=_detail(words, status),
    )


def is_dropped(pci: tuple[str, ...], driver: str | None) -> bool:
    """Return True if every NVIDIA device on the bus is too old for this driver branch.

    Example:
        >>> is_dropped(("10de:1c8d",), "595.71.05"), is_dropped(("10de:1c8d",), "580.95.05")
        (True, False)
    """
    caps = [compute_cap_of_pci(device) for device in pci]
    if driver is None or not caps:
        return False
    branch = int(driver.split(".", maxsplit=1)[0])
    limits = [oldest for first, oldest in _DROPPED_FROM if branch >= first]
    return bool(limits) and all(cap is not None and cap <= max(limits) for cap in caps)


def read_module_version(text: str) -> str | None:
    """Read the driver number from either of the kernel module's version files."""
    found = _VERSION.search(text)
    return found.group(1) if found else None


def _module_version(words: NvidiaWords) -> str | None:
    return words.kernel_module or nvidia_smi.read_dropped(words.kernel_log)


def _from_nvml(words: NvidiaWords) -> NvidiaFacts | None:
    if words.nvml.verdict != "answered":
        return None
    answer = _last_json(words.nvml.text)
    if answer is None or "gpus" not in answer:
        return None
    cuda = int(answer["cuda"])
    return NvidiaFacts(
        status="ok",
        driver=str(answer["driver"]),
        cuda=(cuda // 1000, cuda % 1000 // 10),
        gpus=tuple(_nvml_gpu(item) for item in answer["gpus"]),
        pci=words.pci,
    )


def _nvml_gpu(item: dict[str, Any]) -> NvidiaGpu:
    major, minor = item["compute_cap"]
    memory = item["memory_bytes"]
    return NvidiaGpu(
        index=int(item["index"]),
        name=str(item["name"]),
        compute_cap=(int(major), int(minor)),
        memory_mib=None if memory is None else int(memory) // MIB,
        uuid=str(item["uuid"]),
        mig=bool(item["mig"]),
        cap_source="nvml",
    )


def _from_smi(words: NvidiaWords) -> NvidiaFacts | None:
    listing = _listing(words)
    if listing.verdict != "answered":
        return None
    reading = nvidia_smi.read_query(listing.text)
    driver, cuda = nvidia_smi.read_header(words.smi_header.text)
    unread = f"; could not read: {' | '.join(reading.unread)}" if reading.unread else ""
    return NvidiaFacts(
        status="ok",
        driver=reading.driver or driver or words.kernel_module,
        cuda=cuda,
        gpus=reading.gpus,
        pci=words.pci,
        detail=f"from nvidia-smi{unread}",
    )


def _listing(words: NvidiaWords) -> Said:
    """Return the listing of `nvidia-smi` that was answered, else the old one, whatever became of it."""
    return words.smi if words.smi.verdict == "answered" else words.smi_old


def _failure(words: NvidiaWords, driver: str | None) -> NvidiaStatus:
    stated = _stated_failure(words)
    if stated in ("mismatch", "no_permission", "timeout"):
        return stated
    if nvidia_smi.read_dropped(words.kernel_log) or is_dropped(words.pci, driver):
        return "dropped"
    if words.container and driver is not None and not (words.device_nodes and words.libcuda):
        return "no_runtime"
    if stated is not None:
        return stated
    if driver is not None:
        return "broken"
    return "no_driver" if words.pci else "absent"


def _stated_failure(words: NvidiaWords) -> NvidiaStatus | None:
    """Return the failure that a program names itself, NVML's words first."""
    answer = _last_json(words.nvml.text)
    if words.nvml.verdict == "timeout" or words.smi.verdict == "timeout":
        return "timeout"
    named = _NVML_STATUS.get(str(answer.get("error"))) if answer else None
    if named in ("mismatch", "no_permission"):
        return named
    if words.smi.verdict == "failed" and words.smi.exit_code is not None:
        return nvidia_smi.read_failure(words.smi.exit_code, words.smi.text)
    if nvidia_smi.is_garbled(_listing(words).text):
        return "garbled"
    # nvidia-smi is installed with a driver: NVML alone may come from elsewhere.
    return named if words.pci or words.kernel_module else None


def _detail(words: NvidiaWords, status: NvidiaStatus) -> str:
    if status in ("absent", "no_driver"):
        return ""
    dropped = nvidia_smi.read_dropped(words.kernel_log)
    if dropped:
        return f"kernel log: the {dropped} NVIDIA driver will ignore this GPU"
    if status == "garbled":
        return nvidia_smi.first_words(_listing(words).text)
    answer = _last_json(words.nvml.text)
    spoken = str(answer["message"]) if answer and "message" in answer else ""
    return (words.smi.text.strip() or spoken).splitlines()[0] if words.smi.text or spoken else ""


def _last_json(text: str) -> dict[str, Any] | None:
    for line in reversed(text.splitlines()):
        try:
            value = json.loads(line)
        except ValueError:
            continue
        return value if isinstance(value, dict) else None
    return None
