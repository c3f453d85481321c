"""AMD GPUs: the kernel's KFD topology, `rocminfo` and `rocm_agent_enumerator`."""

import os
import re
from pathlib import Path
from typing import Final

from fdl_cli.system.facts import AmdFacts, AmdGpu, ProbeReport
from fdl_cli.system.probe import Runner, found_file, skipped

KFD_NODES: Final = Path("/sys/class/kfd/kfd/topology/nodes")
KFD_DEVICE: Final = Path("/dev/kfd")
ROCMINFO: Final = (Path("/opt/rocm/bin/rocminfo"), Path("/usr/bin/rocminfo"))

_PROPERTY = re.compile(r"^(\w+)\s+(\d+)\s*$", re.MULTILINE)
_AGENT = re.compile(r"^\s*Name:\s*(gfx[0-9a-f]+)\s*$")
_MARKETING = re.compile(r"^\s*Marketing Name:\s*(.*?)\s*$")
_GFX = re.compile(r"gfx[0-9a-f]{3,5}")
PROBE_SECONDS: Final = 5.0


def gfx_name(target_version: int) -> str | None:
    """Turn KFD's number into a gfx name: decimal major and minor, hexadecimal stepping.

    Example:
        >>> gfx_name(90010), gfx_name(110501), gfx_name(0)
        ('gfx90a', 'gfx1151', None)
    """
    if target_version <= 0:
        return None
    major, rest = divmod(target_version, 10000)
    minor, step = divmod(rest, 100)
    return f"gfx{major}{minor}{step:x}"


def read_topology(text: str) -> AmdGpu | None:
    """Read one `properties` file of the KFD topology; node 0 is the processor and gives None."""
    values = {name: int(number) for name, number in _PROPERTY.findall(text)}
    gfx = gfx_name(values.get("gfx_target_version", 0))
    if gfx is None:
        return None
    vendor, device = values.get("vendor_id"), values.get("device_id")
    pci = f"{vendor:04x}:{device:04x}" if vendor and device else None
    return AmdGpu(gfx=gfx, pci=pci)


def read_rocminfo(text: str) -> tuple[AmdGpu, ...]:
    """Read the GPU agents of `rocminfo`, each with its marketing name where there is one."""
    gpus: list[AmdGpu] = []
    for line in text.splitlines():
        agent = _AGENT.match(line)
        if agent:
            gpus.append(AmdGpu(gfx=agent.group(1)))
            continue
        marketing = _MARKETING.match(line)
        if marketing and gpus and not gpus[-1].name:
            gpus[-1] = AmdGpu(gfx=gpus[-1].gfx, name=marketing.group(1))
    return tuple(gpu for gpu in gpus if gpu.gfx != "gfx000")


def read_enumerator(text: str) -> tuple[AmdGpu, ...]:
    """Read `rocm_agent_enumerator`, where gfx000 stands for the processor."""
    return tuple(AmdGpu(gfx=name) for name in _GFX.findall(text) if name != "gfx000")


def probe_amd(
    run: Runner,
    *,
    wsl: bool,
    nodes: Path = KFD_NODES,
    device: Path = KFD_DEVICE,
) -> tuple[AmdFacts, tuple[ProbeReport, ...]]:
    """Read KFD first; under WSL, where KFD does not exist, run `rocminfo`."""
    gpus = _from_kfd(nodes)
    said = ", ".join(gpu.gfx for gpu in gpus) or "no GPU node"
    reports = [found_file("kfd", nodes, said if nodes.is_dir() else "no such folder")]
    if not gpus and wsl:
        program = next((path for path in ROCMINFO if path.is_file()), None)
        if program is None:
            reports.append(skipped("rocminfo", "rocminfo", "not installed"))
        else:
            report, text = run("rocminfo", (str(program),), PROBE_SECONDS)
            reports.append(report)
            gpus = read_rocminfo(text)
    if not gpus:
        return AmdFacts(), tuple(reports)
    exists = device.exists()
    access = os.access(device, os.R_OK | os.W_OK) if exists else None
    return AmdFacts(gpus=gpus, kfd=exists, access=access), tuple(reports)


def _from_kfd(nodes: Path) -> tuple[AmdGpu, ...]:
    gpus: list[AmdGpu] = []
    try:
        folders = sorted(nodes.iterdir(), key=lambda path: int(path.name))
    except (OSError, ValueError):
        return ()
    for folder in folders:
        try:
            text = (folder / "properties").read_text(encoding="ascii", errors="replace")
        except OSError:
            # A container sees the node but may not read the properties of a GPU it was not given.
            continue
        gpu = read_topology(text)
        if gpu is not None:
            gpus.append(gpu)
    return tuple(gpus)
