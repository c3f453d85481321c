"""Collection of facts about this machine; each source runs once, with a time limit."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from fdl_cli.system.amd import probe_amd
from fdl_cli.system.facts import IntelFacts, ProbeReport, PythonFacts, SystemFacts
from fdl_cli.system.host import read_host, read_os
from fdl_cli.system.hung_probes import HungProbes, with_memory
from fdl_cli.system.intel import has_level_zero, read_intel
from fdl_cli.system.nvidia_probe import probe_nvidia
from fdl_cli.system.pci import list_gpus
from fdl_cli.system.probe import Runner, found_file, run_program

PCI_ROOT: Final = Path("/sys/bus/pci/devices")

# Only these change what torch sees; the rest of the environment is private.
VARIABLES: Final = (
    "CUDA_VISIBLE_DEVICES",
    "NVIDIA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "HSA_OVERRIDE_GFX_VERSION",
    "ZE_AFFINITY_MASK",
    "LD_LIBRARY_PATH",
)


def collect(
    environ: Mapping[str, str],
    folder: Path,
    python: PythonFacts,
    run: Runner | None = None,
) -> SystemFacts:
    """Return everything that can be found out here without importing torch.

    A program that hung costs its time limit once: `hung_probes` remembers it.
    """
    run = run or with_memory(run_program, HungProbes(environ))
    system = read_os(environ)
    devices = list_gpus(PCI_ROOT)
    with ThreadPoolExecutor(max_workers=2) as pool:
        nvidia_work = pool.submit(
            probe_nvidia, run, devices, container=system.container is not None
        )
        amd_work = pool.submit(probe_amd, run, wsl=system.wsl)
        nvidia, nvidia_reports = nvidia_work.result()
        amd, amd_reports = amd_work.result()
    intel = read_intel(devices)
    if intel.gpus and system.platform == "linux":
        intel = IntelFacts(gpus=intel.gpus, driver=intel.driver, level_zero=has_level_zero())
    said = "\n".join(device.text() for device in devices) or "no display device"
    reports: tuple[ProbeReport, ...] = (
        found_file("pci", PCI_ROOT, said),
        *nvidia_reports,
        *amd_reports,
    )
    return SystemFacts(
        os=system,
        python=python,
        nvidia=nvidia,
        amd=amd,
        intel=intel,
        host=read_host(folder),
        environment=tuple((name, environ[name]) for name in VARIABLES if name in environ),
        sources=reports,
    )
