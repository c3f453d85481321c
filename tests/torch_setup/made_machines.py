"""Machines described in few words, in the form of `tests/data/gpu_scenarios.json`."""

NAMES = {
    "3.5": ("Tesla K40c", 11441), "3.7": ("Tesla K80", 11441), "5.0": ("Quadro K620", 2048),
    "5.2": ("GeForce GTX 970", 4096), "5.3": ("Tegra X1", None), "6.0": ("Tesla P100", 16384),
    "6.1": ("GeForce GTX 1080 Ti", 11264), "7.0": ("Tesla V100-SXM2-16GB", 16384),
    "7.2": ("Xavier", None), "7.5": ("Tesla T4", 15360), "8.0": ("NVIDIA A100-SXM4-40GB", 40960),
    "8.6": ("NVIDIA GeForce RTX 3090", 24576), "8.7": ("Orin (nvgpu)", None),
    "8.9": ("NVIDIA GeForce RTX 4090", 24564), "9.0": ("NVIDIA H100 80GB HBM3", 81559),
    "10.0": ("NVIDIA B200", 183359), "10.3": ("NVIDIA B300", 275040),
    "11.0": ("NVIDIA Thor", None), "12.0": ("NVIDIA GeForce RTX 5090", 32607),
    "12.1": ("NVIDIA GB10", None), "13.0": ("NVIDIA Rubin", 294912),
}  # fmt: skip

CUDA = {
    418: "10.1", 450: "11.0", 470: "11.4", 520: "11.8", 525: "12.0", 535: "12.2", 550: "12.4",
    565: "12.7", 570: "12.8", 575: "12.9", 580: "13.0", 590: "13.1", 595: "13.2", 615: "13.4",
    650: "14.0",
}  # fmt: skip


def nvidia(branch, *caps, **more):
    gpus = [
        {"name": NAMES[cap][0], "compute_cap": cap, "memory_mib": NAMES[cap][1], "mig": None}
        for cap in caps
    ]
    stated = {"driver": f"{branch}.95.05", "cuda_driver_version": CUDA[branch], "gpus": gpus}
    return {"nvidia": {**stated, **more}}


def failed(status, driver=None, *pci):
    return {
        "nvidia": {
            "driver": driver, "cuda_driver_version": None, "gpus": [], "status": status,
            "pci": list(pci),
        }
    }  # fmt: skip


def amd(*gfx, **more):
    return {"amd": {"gpus": [{"gfx": name} for name in gfx], **more}}


def intel(device, family, driver="xe", **more):
    gpus = [{"device_id": device, "family": family}]
    return {"intel": {"gpus": gpus, "driver": driver, **more}}


def linux(*parts, **more):
    return join("linux", "x86_64", {"glibc": "2.35"}, *parts, more)


def arm(*parts, **more):
    return join("linux", "aarch64", {"glibc": "2.39"}, *parts, more)


def windows(*parts, **more):
    return join("windows", "AMD64", *parts, more)


def mac(machine, version, **more):
    return join("macos", machine, {"macos": version}, more)


def join(platform, machine, *parts):
    found = {
        "platform": platform, "machine": machine, "python": "3.12", "glibc": None, "nvidia": None,
        "amd": None, "intel": None, "requested": {},
    }  # fmt: skip
    for part in parts:
        found.update(part)
    return found


def smi(*lines, cuda=None, driver=None, **raw):
    """What `nvidia-smi` printed, and nothing that anybody has worked out beforehand."""
    stated = {"driver": driver, "cuda_driver_version": cuda, "gpus": []}
    return {"nvidia": stated, "raw": {"nvidia_smi_lines": list(lines), **raw}}
