"""Facts of a recorded scenario, through the parsers wherever it holds probe output."""

from collections.abc import Mapping
from typing import Any, cast

from fdl_cli.system import pci
from fdl_cli.system.amd import gfx_name, read_enumerator, read_rocminfo
from fdl_cli.system.facts import (
    KNOWN_NVIDIA_STATUS,
    AmdFacts,
    AmdGpu,
    IntelFacts,
    IntelGpu,
    Libc,
    NvidiaFacts,
    NvidiaGpu,
    NvidiaStatus,
    OsFacts,
    Platform,
    PythonFacts,
    SystemFacts,
)
from fdl_cli.system.host import normal_machine
from fdl_cli.system.intel import family_of, read_intel
from fdl_cli.system.nvidia import NvidiaWords, Said, interpret, is_dropped
from fdl_cli.system.nvidia_smi import read_capability

Scenario = Mapping[str, Any]

# Facts of the surroundings, kept beside real variables in a scenario's `env`.
_NOT_VARIABLES = ("wsl", "container", "kfd_access")
# The exit codes that shells give for a program that does not exist.
_NOT_INSTALLED = (127, 9009)


def is_scenario(document: Scenario) -> bool:
    """Return True if a JSON object has the form of a scenario."""
    return all(key in document for key in ("platform", "machine", "python"))


def facts_of_scenario(scenario: Scenario) -> SystemFacts:
    """Return the facts that a scenario describes; its `expect` is never looked at."""
    env = scenario.get("env") or {}
    raw = scenario.get("raw") or {}
    return SystemFacts(
        os=_os(scenario, env),
        python=PythonFacts(
            version=str(scenario["python"]),
            implementation=str(scenario.get("implementation") or "cpython").lower(),
        ),
        nvidia=_nvidia(scenario.get("nvidia"), raw, container=bool(env.get("container"))),
        amd=_amd(scenario.get("amd"), raw, env),
        intel=_intel(scenario.get("intel"), raw),
        environment=tuple(
            (str(name), str(value)) for name, value in env.items() if name not in _NOT_VARIABLES
        ),
    )


def _os(scenario: Scenario, env: Scenario) -> OsFacts:
    system = cast("Platform", scenario["platform"])
    native = scenario.get("native_machine")
    libc = scenario.get("libc")
    if libc is None and system == "linux":
        libc = "glibc"
    return OsFacts(
        platform=system,
        machine=normal_machine(str(scenario["machine"]), system),
        native_machine=normal_machine(native, system) if native else None,
        libc=cast("Libc | None", libc),
        libc_version=scenario.get("glibc"),
        macos_version=scenario.get("macos"),
        wsl=bool(env.get("wsl")),
        container="container" if env.get("container") else None,
        tegra=scenario.get("tegra"),
        rosetta=bool(scenario.get("rosetta")),
    )


def _nvidia(stated: Scenario | None, raw: Scenario, *, container: bool) -> NvidiaFacts:
    words = _words(stated or {}, raw, container=container)
    if words is None:
        return _stated_nvidia(stated, container=container)
    read = interpret(words)
    stated = stated or {}
    # The query prints no CUDA version; on the machine itself NVML or the header says it.
    cuda = read.cuda or read_capability(str(stated.get("cuda_driver_version") or ""))
    return NvidiaFacts(
        status=read.status,
        driver=read.driver or stated.get("driver"),
        cuda=cuda,
        gpus=read.gpus,
        pci=read.pci,
        detail=read.detail,
    )


def _words(stated: Scenario, raw: Scenario, *, container: bool) -> NvidiaWords | None:
    lines = raw.get("nvidia_smi_lines")
    code = raw.get("nvidia_smi_exit")
    if lines is None and code is None:
        return None
    printed = "\n".join(lines) if lines is not None else str(raw.get("nvidia_smi_stdout", ""))
    missing = code in _NOT_INSTALLED
    failed = code not in (None, 0) and not missing
    old = raw.get("nvidia_smi_legacy_lines")
    return NvidiaWords(
        smi=Said(verdict="missing")
        if missing
        else Said(verdict="failed" if failed else "answered", exit_code=code or 0, text=printed),
        smi_old=Said(verdict="answered", exit_code=0, text="\n".join(old)) if old else Said(),
        smi_header=Said(verdict="answered", exit_code=0, text=str(raw.get("nvidia_smi", ""))),
        kernel_module=stated.get("driver") if failed and not old else None,
        kernel_log=str(raw.get("dmesg", "")),
        device_nodes=not container,
        libcuda=not container,
        pci=tuple(stated.get("pci") or ()),
        container=container,
    )


def _stated_nvidia(stated: Scenario | None, *, container: bool) -> NvidiaFacts:
    if stated is None:
        return NvidiaFacts(status="absent")
    gpus = tuple(_stated_gpu(index, gpu) for index, gpu in enumerate(stated.get("gpus") or ()))
    word = stated.get("status") or _status_without_a_word(stated, container=container)
    status = cast("NvidiaStatus", word) if word in KNOWN_NVIDIA_STATUS else "broken"
    return NvidiaFacts(
        status=status,
        driver=stated.get("driver"),
        cuda=read_capability(str(stated.get("cuda_driver_version") or "")),
        gpus=gpus,
        pci=tuple(stated.get("pci") or ()),
        detail="" if word in KNOWN_NVIDIA_STATUS else str(word),
    )


def _status_without_a_word(stated: Scenario, *, container: bool) -> NvidiaStatus:
    pci = tuple(stated.get("pci") or ())
    if stated.get("gpus"):
        return "ok"
    if stated.get("driver"):
        if container:
            return "no_runtime"
        return "dropped" if is_dropped(pci, str(stated["driver"])) else "broken"
    return "no_driver" if pci else "absent"


def _stated_gpu(index: int, gpu: Scenario) -> NvidiaGpu:
    inferred = bool(gpu.get("compute_cap_inferred"))
    return NvidiaGpu(
        index=index,
        name=str(gpu.get("name", "")),
        compute_cap=read_capability(str(gpu.get("compute_cap") or "")),
        memory_mib=gpu.get("memory_mib"),
        mig=str(gpu.get("mig")).lower() == "enabled",
        cap_source="name-table" if inferred else "stated",
    )


def _amd(stated: Scenario | None, raw: Scenario, env: Scenario) -> AmdFacts:
    stated = stated or {}
    gpus = _raw_amd(raw)
    named = tuple(
        AmdGpu(
            gfx=str(gpu["gfx"]),
            name=str(gpu.get("name") or ""),
            pci=gpu.get("pci"),
            memory_mib=gpu.get("memory_mib"),
        )
        for gpu in stated.get("gpus") or ()
    )
    return AmdFacts(gpus=gpus or named, kfd=stated.get("kfd"), access=env.get("kfd_access"))


def _raw_amd(raw: Scenario) -> tuple[AmdGpu, ...]:
    names = [gfx_name(int(node["gfx_target_version"])) for node in raw.get("kfd_topology") or ()]
    found = tuple(AmdGpu(gfx=name) for name in names if name is not None)
    if found:
        return found
    if "rocminfo" in raw:
        return read_rocminfo("\n".join(raw["rocminfo"]))
    return read_enumerator("\n".join(raw.get("rocm_agent_enumerator") or ()))


def _intel(stated: Scenario | None, raw: Scenario) -> IntelFacts:
    device = pci.read_line(str(raw.get("pci", "")))
    stated = stated or {}
    if device is not None and device.vendor == pci.INTEL:
        return read_intel((device,))
    return IntelFacts(
        gpus=tuple(
            IntelGpu(
                device_id=str(gpu.get("device_id") or ""),
                family=str(gpu.get("family") or family_of(str(gpu.get("device_id") or ""))),
            )
            for gpu in stated.get("gpus") or ()
        ),
        driver=stated.get("driver"),
        level_zero=stated.get("level_zero"),
    )
