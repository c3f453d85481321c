"""Machines at the edges of the rules, each worked out by hand from the rules and the fact table.

`NAME: (machine, expected)`; `expected` is `"VERSION+VARIANT", warnings...`, or an error's words after
`!`. They have the form of `tests/data/gpu_scenarios.json`.
"""

from made_machines import amd, arm, failed, intel, join, linux, mac, nvidia, smi, windows

MINOR = "minor_version_compat"
DRIVER = "driver_too_old_for_newest"
OLD_GPU = "old_gpu_caps_torch"
MIXED = "mixed_gpus_version_capped"
LEFT = "gpu_not_covered"
NO_BUILD = "no_build_for_gpu"
PYTHON = "python_caps_torch"
GLIBC = "glibc_caps_torch"
MACOS = "macos_caps_torch"
SHARED = "unified_memory_unknown_vram"

MACHINES = {
    # Old GPUs and the edges of old drivers.
    "maxwell-550": (linux(nvidia(550, "5.2")), "2.14.1+cu126", MINOR, OLD_GPU),
    "pascal-470": (linux(nvidia(470, "6.1")), "2.7.1+cu118", MINOR, DRIVER),
    "pascal-580": (linux(nvidia(580, "6.0")), "2.14.1+cu126", OLD_GPU),
    "volta-450": (linux(nvidia(450, "7.0")), "2.7.1+cu118", MINOR, DRIVER),
    "kepler-35": (linux(nvidia(470, "3.5")), "2.15.0+cpu", NO_BUILD),
    "kepler-418": (linux(nvidia(418, "3.7")), "!needs driver 450.80.02 or newer"),
    "ada-418": (linux(nvidia(418, "8.9")), "!needs driver 580.65.06 or newer"),
    "ada-418-asks-cpu": (
        linux(nvidia(418, "8.9"), requested={"variant": "cpu"}), "2.15.0+cpu",
    ),
    "ada-390-without-a-library": (
        linux(nvidia(418, "8.9", driver="390.157", cuda_driver_version=None)), "!driver 390.157 is older",
    ),
    "kepler-35-418": (linux(nvidia(418, "3.5")), "2.15.0+cpu", NO_BUILD),
    "arm-ampere-470": (arm(nvidia(470, "8.0")), "!needs driver 580.65.06 or newer"),
    "windows-arm-ada": (
        join("windows", "ARM64", nvidia(580, "8.9")), "2.15.0+cpu", NO_BUILD, "vendor_index_available",
    ),
    "turing-520": (linux(nvidia(520, "7.5")), "2.7.1+cu118", DRIVER),
    "turing-525": (linux(nvidia(525, "7.5")), "2.14.1+cu126", MINOR, DRIVER),
    "ampere-590": (linux(nvidia(590, "8.6")), "2.15.0+cu130"),
    "ampere-595": (linux(nvidia(595, "8.6")), "2.15.0+cu132"),
    "number-below-the-family": (
        linux(nvidia(525, "8.0", driver="525.60.11", cuda_driver_version=None)),
        "2.7.1+cu118", DRIVER,
    ),
    "number-at-the-family": (
        linux(nvidia(525, "8.0", driver="525.60.13", cuda_driver_version=None)),
        "2.14.1+cu126", MINOR, DRIVER,
    ),
    "the-library-knows-better-than-the-number": (
        linux(nvidia(580, "8.0", driver="535.104.05")), "2.15.0+cu130",
    ),
    # Blackwell and what comes after it.
    "blackwell-570": (linux(nvidia(570, "12.0"), python="3.14"), "2.11.0+cu128", DRIVER),
    "blackwell-565": (linux(nvidia(565, "12.0")), "2.11.0+cu128", MINOR, DRIVER),
    "blackwell-py39": (linux(nvidia(580, "12.0"), python="3.9"), "2.8.0+cu128", PYTHON),
    "b200-580": (linux(nvidia(580, "10.0")), "2.15.0+cu130"),
    "b300-pinned-2.10": (
        linux(nvidia(580, "10.3"), requested={"torch_version": "2.10.0"}), "2.10.0+cu128",
    ),
    "gb200-570": (arm(nvidia(570, "10.0")), "2.11.0+cu128", DRIVER),
    "gb300-595": (arm(nvidia(595, "10.3")), "2.15.0+cu132"),
    "spark": (arm(nvidia(580, "12.1")), "2.15.0+cu130", SHARED),
    "future-gpu": (linux(nvidia(650, "13.0")), "2.15.0+cpu", NO_BUILD),
    # Several GPUs.
    "pascal-and-ada": (linux(nvidia(580, "6.1", "8.9")), "2.14.1+cu126", OLD_GPU),
    "pascal-and-blackwell": (linux(nvidia(580, "6.1", "12.0")), "2.15.0+cu130", LEFT),
    "three-pascals-and-blackwell": (
        linux(nvidia(580, "6.1", "6.1", "6.1", "12.0")), "2.14.1+cu126", LEFT, OLD_GPU,
    ),
    "volta-and-b200": (linux(nvidia(580, "7.0", "10.0")), "2.10.0+cu128", MIXED),
    "volta-and-blackwell-windows": (windows(nvidia(580, "7.0", "12.0")), "2.15.0+cu130", LEFT),
    "maxwell-and-volta-535": (linux(nvidia(535, "5.2", "7.0")), "2.14.1+cu126", MINOR, OLD_GPU),
    "ampere-and-pascal-550": (linux(nvidia(550, "8.0", "6.1")), "2.14.1+cu126", MINOR, OLD_GPU),
    "kepler-and-volta": (linux(nvidia(470, "3.7", "7.0")), "2.7.1+cu118", MINOR, OLD_GPU),
    "ada-twice": (linux(nvidia(580, "8.9", "8.9")), "2.15.0+cu130"),
    "turing-to-blackwell": (linux(nvidia(595, "7.5", "8.6", "9.0", "12.0")), "2.15.0+cu132"),
    "one-of-two-asked-for": (
        linux(nvidia(580, "6.1", "12.0"), requested={"gpu": "0"}), "2.14.1+cu126", OLD_GPU,
    ),
    # Jetson boards and ARM servers.
    "nano": (arm(nvidia(470, "5.3"), tegra="L4T 32.7.1", python="3.8"), "!Jetson"),
    "xavier": (arm(nvidia(470, "7.2"), tegra="L4T 35.4.1", python="3.8"), "!Jetson"),
    "orin-cuda-13.2": (
        arm(nvidia(595, "8.7"), tegra="L4T 38.4"), "2.15.0+cu132", "jetson", SHARED,
    ),
    "orin-cuda-13.0": (
        arm(nvidia(580, "8.7"), tegra="L4T 38.2"), "2.15.0+cu132", "jetson", SHARED, MINOR,
    ),
    "thor-pinned-2.13": (
        arm(nvidia(580, "11.0"), tegra="L4T 38.2", requested={"torch_version": "2.13.0"}),
        "2.13.0+cu130", "jetson", SHARED,
    ),
    "arm-turing": (arm(nvidia(580, "7.5")), "2.15.0+cpu", NO_BUILD),
    "arm-ampere-535": (arm(nvidia(535, "8.0")), "2.14.1+cu126", MINOR, DRIVER),
    "arm-hopper-525": (arm(nvidia(525, "9.0")), "2.14.1+cu126", MINOR, DRIVER),
    "arm-glibc-217": (arm(glibc="2.17", python="3.10"), "2.5.1+cpu", GLIBC),
    # Windows, WSL, MIG, containers, and variables that hide GPUs.
    "windows-pascal": (windows(nvidia(580, "6.1")), "2.14.1+cu126", OLD_GPU),
    "windows-maxwell-470": (windows(nvidia(470, "5.0")), "2.7.1+cu118", MINOR, DRIVER),
    "windows-kepler": (windows(nvidia(470, "3.5")), "2.15.0+cpu", NO_BUILD),
    "windows-blackwell-575": (windows(nvidia(575, "12.0", "8.9")), "2.11.0+cu128", DRIVER),
    "wsl-pascal": (
        linux(nvidia(580, "6.1"), env={"wsl": True}), "2.14.1+cu126", "wsl", OLD_GPU,
    ),
    "mig-570": (
        linux(nvidia(570, "9.0", gpus=[{
            "name": "NVIDIA H100", "compute_cap": "9.0", "memory_mib": 81559, "mig": "Enabled",
        }])),
        "2.14.1+cu126", "mig", DRIVER,
    ),
    "hidden-by-minus-one": (
        linux(nvidia(580, "8.9"), env={"CUDA_VISIBLE_DEVICES": "-1"}),
        "2.15.0+cu130", "gpu_hidden_by_env",
    ),
    "hidden-by-a-number-that-is-no-gpu": (
        linux(nvidia(580, "8.9"), env={"CUDA_VISIBLE_DEVICES": "3"}),
        "2.15.0+cu130", "gpu_hidden_by_env",
    ),
    "all-after-minus-one-is-hidden": (
        linux(nvidia(580, "8.9", "8.9"), env={"CUDA_VISIBLE_DEVICES": "-1,0"}),
        "2.15.0+cu130", "gpu_hidden_by_env",
    ),
    "one-of-two-is-hidden": (
        linux(nvidia(580, "8.9", "8.9"), env={"CUDA_VISIBLE_DEVICES": "1"}), "2.15.0+cu130",
    ),
    "container-volta-595": (
        linux(failed("no_runtime", "595.71.05"), env={"container": True}),
        "2.15.0+cpu", "container_without_gpu_runtime",
    ),
    "volta-dropped": (
        linux(failed("dropped", "595.71.05", "10de:1db1")), "2.15.0+cpu", "gpu_dropped_by_driver",
    ),
    "no-driver": (
        linux(failed("no_driver", None, "10de:2684")), "2.15.0+cpu", "nvidia_driver_missing",
    ),
    "no-driver-without-a-word": (
        linux(failed(None, None, "10de:2684")), "2.15.0+cpu", "nvidia_driver_missing",
    ),
    "mismatch": (linux(failed("mismatch", "580.95.05")), "2.15.0+cpu", "nvidia_driver_broken"),
    "timeout": (linux(failed("timeout", "580.95.05")), "2.15.0+cpu", "nvidia_driver_broken"),
    "smi-says-no-devices": (
        linux({
            "nvidia": {"driver": "580.95.05", "gpus": [], "pci": ["10de:2684"]},
            "raw": {"nvidia_smi_exit": 6, "nvidia_smi_stdout": "No devices were found"},
        }),
        "2.15.0+cpu", "nvidia_driver_broken",
    ),
    "container-without-a-word": (
        linux(failed(None, "580.95.05"), env={"container": True}),
        "2.15.0+cpu", "container_without_gpu_runtime",
    ),
    "broken-nvidia-with-amd": (
        linux(failed("broken", "580.95.05", "10de:2684"), amd("gfx1100")),
        "2.14.1+rocm7.2", "nvidia_driver_broken",
    ),
    # Python, glibc, musl, macOS.
    "py315-new-gpu": (linux(nvidia(595, "8.9"), python="3.15"), "2.15.0+cu132"),
    "py315-old-gpu": (linux(nvidia(580, "7.0"), python="3.15"), "2.14.1+cu126", OLD_GPU),
    "py310": (linux(nvidia(595, "8.9"), python="3.10"), "2.14.1+cu130", PYTHON),
    "py313t": (linux(nvidia(580, "8.9"), python="3.13t"), "2.11.0+cu130", PYTHON),
    "py316": (linux(python="3.16"), "!Python 3.16"),
    "glibc-217-volta": (
        linux(nvidia(535, "7.0"), glibc="2.17", python="3.11"), "2.6.0+cu118", GLIBC,
    ),
    "glibc-227-ampere": (
        linux(nvidia(550, "8.6"), glibc="2.27", python="3.10"), "2.6.0+cu124", GLIBC,
    ),
    "glibc-217-py314": (linux(glibc="2.17", python="3.14"), "!glibc"),
    "musl": (linux(nvidia(580, "8.9"), libc="musl"), "!musl"),
    "riscv": (join("linux", "riscv64", {"glibc": "2.39"}), "!no wheels"),
    "mac-intel-12": (
        mac("x86_64", "12.7", python="3.11"), "2.2.2+cpu", "macos_x86_64_last_torch",
    ),
    "mac-m1-13": (mac("arm64", "13.6"), "2.11.0+cpu", MACOS),
    "mac-m4-py39": (mac("arm64", "26.0", python="3.9"), "2.8.0+cpu", PYTHON),
    "mac-asks-rocm": (mac("arm64", "15.1", requested={"variant": "rocm7.2"}), "!macOS"),
    # AMD.
    "amd-rdna2": (linux(amd("gfx1030")), "2.14.1+rocm7.2"),
    "amd-rdna2-small": (linux(amd("gfx1031")), "2.14.1+rocm7.2", "hsa_override_needed"),
    "amd-steam-deck": (linux(amd("gfx1033")), "2.15.0+cpu", "amd_gpu_unsupported"),
    "amd-780m": (linux(amd("gfx1103")), "2.14.1+rocm7.14"),
    "amd-780m-beside-7900": (
        linux(amd("gfx1103", "gfx1100")), "2.14.1+rocm7.2", "igpu_ignored",
    ),
    "amd-polaris": (linux(amd("gfx803")), "2.15.0+cpu", "amd_gpu_unsupported"),
    "amd-vega": (linux(amd("gfx900")), "2.14.1+rocm7.2"),
    "amd-rdna4": (linux(amd("gfx1201")), "2.14.1+rocm7.2"),
    "amd-desktop-igpu": (linux(amd("gfx1036")), "2.15.0+cpu", "amd_gpu_unsupported"),
    "amd-on-arm": (arm(amd("gfx942")), "2.15.0+cpu", "amd_gpu_unsupported"),
    "amd-vega-asks-7.14": (
        linux(amd("gfx906"), requested={"variant": "rocm7.14"}), "!no kernels for",
    ),
    "amd-hidden": (
        linux(amd("gfx1100"), env={"HIP_VISIBLE_DEVICES": "-1"}),
        "2.14.1+rocm7.2", "gpu_hidden_by_env",
    ),
    "amd-780m-asks-7.2": (
        linux(amd("gfx1103"), requested={"variant": "rocm7.2"}), "!no kernels for",
    ),
    "amd-glibc-231": (linux(amd("gfx1100"), glibc="2.31"), "2.14.1+rocm7.2"),
    "amd-pinned-2.6": (
        linux(amd("gfx1100"), requested={"torch_version": "2.6.0"}), "2.6.0+rocm6.2.4",
    ),
    # Intel.
    "intel-meteor-lake": (linux(intel("7d55", "Meteor Lake-H", "i915")), "2.14.1+xpu"),
    "intel-panther-lake": (linux(intel("b080", "Panther Lake")), "2.14.1+xpu"),
    "intel-flex": (
        linux(intel("56c0", "Data Center GPU Flex")), "2.15.0+cpu", "intel_gpu_unsupported",
    ),
    "intel-b580-py39": (linux(intel("e20b", "Battlemage"), python="3.9"), "2.8.0+xpu", PYTHON),
    "intel-on-arm": (arm(intel("56a0", "Alchemist")), "2.15.0+cpu", "intel_gpu_unsupported"),
    "intel-glibc-227": (
        linux(intel("56a0", "Alchemist"), glibc="2.27", python="3.11"), "2.5.1+xpu", GLIBC,
    ),
    "intel-without-level-zero": (
        linux(intel("56a0", "Alchemist", level_zero=False)), "2.15.0+cpu", "xpu_driver_missing",
    ),
    # Wishes.
    "asks-cu128-535": (
        linux(nvidia(535, "8.9"), requested={"variant": "cu128"}), "2.11.0+cu128", MINOR,
    ),
    "asks-cu130-550": (linux(nvidia(550, "8.9"), requested={"variant": "cu130"}), "!driver 580"),
    "asks-cu129": (linux(nvidia(575, "12.0"), requested={"variant": "cu129"}), "2.13.0+cu129"),
    "asks-cpu": (linux(nvidia(580, "8.9"), requested={"variant": "cpu"}), "2.15.0+cpu"),
    "asks-2.7-on-blackwell": (
        linux(nvidia(580, "12.0"), requested={"torch_version": "2.7.1"}), "2.7.1+cu128",
    ),
    "asks-2.6-on-blackwell": (
        linux(nvidia(580, "12.0"), requested={"torch_version": "2.6.0"}), "2.6.0+cpu", NO_BUILD,
    ),
    "asks-2.14-on-volta": (
        linux(nvidia(580, "7.0"), requested={"torch_version": "2.14"}), "2.14.1+cu126",
    ),
    "asks-9.9": (linux(requested={"torch_version": "9.9.0"}), "!no torch build"),
    "asks-cu126-on-blackwell": (
        linux(nvidia(580, "12.0"), requested={"variant": "cu126"}), "!no kernels for",
    ),
    "image-for-two": (
        linux(requested={"gpu_target": "8.6,12.0", "driver_target": "570"}),
        "2.11.0+cu128", DRIVER, "requested_not_verified_here",
    ),
    "image-for-volta": (
        linux(requested={"gpu_target": "7.0"}),
        "2.14.1+cu126", OLD_GPU, "requested_not_verified_here",
    ),
    "image-without-hardware": (
        linux(requested={"variant": "cu126"}), "2.14.1+cu126", "requested_not_verified_here",
    ),
    "mirror-without-cuda": (
        linux(nvidia(580, "8.9"), index_available={"cpu": ["2.15.0"]}),
        "2.15.0+cpu", "index_lacks_newer",
    ),
    "emulated-on-arm-windows": (
        windows(native_machine="ARM64"), "2.15.0+cpu", "emulated_python",
    ),
}  # fmt: skip


UUID = "GPU-00000000-0000-0000-0000-000000000000"
SMI_FAILS = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."

PRINTED = {
    "name-with-commas": (
        linux(smi(f"0, {UUID}, NVIDIA A100, 40GB, custom, 580.95.05, 8.0, 40960, Disabled")),
        "2.15.0+cu130",
    ),
    "carriage-returns": (
        windows(smi(f"0, {UUID}, NVIDIA GeForce GTX 1060, 581.15, 6.1, 6144, [N/A]\r", "\r")),
        "2.14.1+cu126", OLD_GPU,
    ),
    "header-says-cuda": (
        linux(smi(
            f"0, {UUID}, NVIDIA GeForce RTX 4090, 580.95.05, 8.9, 24564, [N/A]",
            nvidia_smi="| NVIDIA-SMI 595.71.05  Driver Version: 595.71.05  CUDA Version: 13.2 |",
        )),
        "2.15.0+cu132",
    ),
    "no-capability-but-a-name": (
        linux(smi(f"0, {UUID}, NVIDIA GeForce GTX 1080 Ti, 580.95.05, [N/A], 11264, [N/A]")),
        "2.14.1+cu126", OLD_GPU, "compute_cap_inferred",
    ),
    "no-capability-and-no-known-name": (
        linux(smi(f"0, {UUID}, NVIDIA Graphics Device, 580.95.05, [N/A], 11264, [N/A]")),
        "2.15.0+cpu", NO_BUILD,
    ),
    "one-line-is-an-error": (
        linux(smi(
            f"0, {UUID}, NVIDIA GeForce RTX 4090, 580.95.05, 8.9, 24564, [N/A]",
            "Unable to determine the device handle for GPU0000:41:00.0: Unknown Error",
        )),
        "2.15.0+cu130",
    ),
    "memory-in-error": (
        linux(smi(f"0, {UUID}, Tesla T4, 580.95.05, 7.5, [Unknown Error], [N/A]")),
        "2.15.0+cu130", SHARED,
    ),
    "old-windows-driver-number": (
        windows(smi(f"0, {UUID}, NVIDIA GeForce RTX 3060, 528.02, 8.6, 12288, [N/A]")),
        "2.7.1+cu118", DRIVER,
    ),
    "mig-enabled": (
        linux(smi(f"0, {UUID}, NVIDIA H100 80GB HBM3, 595.71.05, 9.0, 81559, Enabled")),
        "2.15.0+cu132", "mig",
    ),
    "smi-not-installed": (
        linux({
            "nvidia": {"driver": None, "gpus": [], "pci": ["10de:2684"]},
            "raw": {"nvidia_smi_exit": 127, "nvidia_smi_stdout": "nvidia-smi: command not found"},
        }),
        "2.15.0+cpu", "nvidia_driver_missing",
    ),
    "driver-does-not-answer": (
        linux({
            "nvidia": {"driver": "580.95.05", "gpus": [], "pci": ["10de:2684"]},
            "raw": {"nvidia_smi_exit": 9, "nvidia_smi_stdout": SMI_FAILS},
        }),
        "2.15.0+cpu", "nvidia_driver_broken",
    ),
    "smi-writes-garbage-and-ends-with-0": (
        linux({
            "nvidia": {"driver": None, "gpus": [], "pci": ["10de:2684"]},
            "raw": {"nvidia_smi_exit": 0, "nvidia_smi_stdout": "caf\ufffd , , N/A\n[Unknown Error]"},
        }),
        "2.15.0+cpu", "nvidia_smi_garbled",
    ),
    "dropped-without-a-kernel-log": (
        linux({
            "nvidia": {"driver": "590.44.01", "gpus": [], "pci": ["10de:1b06"]},
            "raw": {"nvidia_smi_exit": 9, "nvidia_smi_stdout": SMI_FAILS},
        }),
        "2.15.0+cpu", "gpu_dropped_by_driver",
    ),
    "updated-and-not-rebooted": (
        linux({
            "nvidia": {"driver": "580.95.05", "gpus": []},
            "raw": {
                "nvidia_smi_exit": 18,
                "nvidia_smi_stdout": "Failed to initialize NVML: Driver/library version mismatch",
            },
        }),
        "2.15.0+cpu", "nvidia_driver_broken",
    ),
    "kfd-with-the-processor": (
        linux({"raw": {"kfd_topology": [
            {"node": 0, "gfx_target_version": 0}, {"node": 1, "gfx_target_version": 120001},
        ]}}),
        "2.14.1+rocm7.2",
    ),
    "rocminfo-in-full": (
        linux({"raw": {"rocminfo": [
            "ROCk module is loaded", "Agent 1", "  Name:                    AMD Ryzen 9 7950X",
            "  Marketing Name:          AMD Ryzen 9 7950X", "Agent 2",
            "  Name:                    gfx1101", "  Marketing Name:          Radeon RX 7800 XT",
            "      Name:                    amdgcn-amd-amdhsa--gfx1101",
        ]}}),
        "2.14.1+rocm7.2",
    ),
    "intel-without-a-driver-on-the-bus": (
        linux({"raw": {"pci": "0000:03:00.0 vendor=0x8086 device=0xe20b class=0x030000"}}),
        "2.15.0+cpu", "xpu_driver_missing",
    ),
}  # fmt: skip


def scenarios():
    """Return the machines in the form of the recorded scenarios."""
    for name, (machine, choice, *warnings) in (MACHINES | PRINTED).items():
        if choice.startswith("!"):
            expect = {"error_contains": choice[1:]}
        else:
            version, _, variant = choice.partition("+")
            expect = {"variant": variant, "torch_version_best": version, "warnings": warnings}
        yield {"id": name, **machine, "expect": expect}
