"""Output of every NVIDIA source on this machine, each with a time limit."""

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from fdl_cli.system import nvidia_smi
from fdl_cli.system.facts import NvidiaFacts, ProbeReport
from fdl_cli.system.nvidia import NvidiaWords, Said, interpret, read_module_version
from fdl_cli.system.pci import NVIDIA, PciDevice
from fdl_cli.system.probe import Runner, found_file, skipped

SECONDS: Final = 10.0
CHILD: Final = Path(__file__).with_name("nvml_child.py")
MODULE_VERSIONS: Final = (
    Path("/sys/module/nvidia/version"),
    Path("/proc/driver/nvidia/version"),
)
# nvidia-smi lies beside the path under WSL and on Windows.
SMI_PLACES: Final = (
    Path("/usr/lib/wsl/lib/nvidia-smi"),
    Path("/usr/bin/nvidia-smi"),
    Path("C:/Windows/System32/nvidia-smi.exe"),
    Path("C:/Program Files/NVIDIA Corporation/NVSMI/nvidia-smi.exe"),
)
_LOADER_CACHE: Final = Path("/etc/ld.so.cache")
_LIBRARY_FOLDERS: Final = (
    Path("/usr/lib/wsl/lib"),
    Path("/usr/local/nvidia/lib64"),
    Path("/usr/local/nvidia/lib"),
    Path("/usr/local/cuda/compat"),
)


def probe_nvidia(
    run: Runner, devices: tuple[PciDevice, ...], *, container: bool
) -> tuple[NvidiaFacts, tuple[ProbeReport, ...]]:
    """Query NVML in a child process, then `nvidia-smi`, then files; return facts and words."""
    pci = tuple(device.name for device in devices if device.vendor == NVIDIA)
    reports: list[ProbeReport] = []
    module, module_report = _kernel_module()
    reports.append(module_report)
    nodes = any(Path("/dev").glob("nvidia[0-9]*")) or Path("/dev/dxg").exists()
    smi = find_smi()
    nvml = Said()
    if pci or module or nodes or _library("libnvidia-ml.so.1") or sys.platform == "win32":
        nvml = _ask(run, reports, "nvml", (sys.executable, "-I", str(CHILD)))
    else:
        reports.append(skipped("nvml", str(CHILD), "no sign of an NVIDIA GPU or driver"))
    listing, old, header = _ask_smi(run, reports, smi, needed=nvml.verdict != "answered")
    words = NvidiaWords(
        nvml=nvml,
        smi=listing,
        smi_old=old,
        smi_header=header,
        kernel_module=module,
        kernel_log=_kernel_log(run, reports) if (pci or module) and not _healthy(nvml) else "",
        device_nodes=nodes,
        libcuda=_library("libcuda.so.1"),
        pci=pci,
        container=container,
    )
    return interpret(words), tuple(reports)


def find_smi() -> str | None:
    """Return where `nvidia-smi` is, also where it lies off PATH."""
    named = shutil.which("nvidia-smi")
    if named:
        return named
    return next((str(path) for path in SMI_PLACES if path.is_file()), None)


def _ask(run: Runner, reports: list[ProbeReport], source: str, argv: Sequence[str]) -> Said:
    report, text = run(source, argv, SECONDS)
    reports.append(report)
    return Said(verdict=report.verdict, exit_code=report.exit_code, text=text)


def _ask_smi(
    run: Runner, reports: list[ProbeReport], smi: str | None, *, needed: bool
) -> tuple[Said, Said, Said]:
    """Run the query, with the old field list where the driver refuses the new one."""
    if smi is None or not needed:
        reason = "not installed" if smi is None else "NVML answered"
        reports.append(skipped("nvidia-smi", "nvidia-smi", reason))
        return Said(), Said(), Said()
    form = "--format=csv,noheader,nounits"
    listing = _ask(
        run, reports, "nvidia-smi", (smi, f"--query-gpu={nvidia_smi.QUERY_FIELDS}", form)
    )
    old = Said()
    if nvidia_smi.refuses_compute_cap(listing.exit_code or 0, listing.text):
        fields = nvidia_smi.OLD_QUERY_FIELDS
        old = _ask(run, reports, "nvidia-smi-old", (smi, f"--query-gpu={fields}", form))
    answered = "answered" in (listing.verdict, old.verdict)
    header = _ask(run, reports, "nvidia-smi-header", (smi,)) if answered else Said()
    return listing, old, header


def _healthy(nvml: Said) -> bool:
    return nvml.verdict == "answered"


def _kernel_module() -> tuple[str | None, ProbeReport]:
    for path in MODULE_VERSIONS:
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        return read_module_version(text), found_file("kernel-module", path, text.strip())
    return None, found_file("kernel-module", MODULE_VERSIONS[0], "not loaded")


def _kernel_log(run: Runner, reports: list[ProbeReport]) -> str:
    program = shutil.which("dmesg")
    if program is None:
        reports.append(skipped("kernel-log", "dmesg", "not installed"))
        return ""
    report, text = run("kernel-log", (program,), SECONDS)
    relevant = "\n".join(line for line in text.splitlines() if "NVRM" in line)
    reports.append(
        ProbeReport(
            source=report.source,
            asked=report.asked,
            verdict=report.verdict,
            exit_code=report.exit_code,
            seconds=report.seconds,
            said=relevant[:2000] or "nothing about NVIDIA",
        )
    )
    return relevant


def _library(name: str) -> bool:
    """Return True if the loader would find a library, without loading it."""
    extra = (Path(part) for part in os.environ.get("LD_LIBRARY_PATH", "").split(":") if part)
    if any((folder / name).exists() for folder in (*_LIBRARY_FOLDERS, *extra)):
        return True
    try:
        return name.encode() in _LOADER_CACHE.read_bytes()
    except OSError:
        return False
