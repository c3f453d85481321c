"""What NVIDIA's tools say, in all the ways in which they say something or nothing."""

import json

import pytest

from fdl_cli.system import nvidia_smi
from fdl_cli.system.gpu_names import compute_cap_of_name, compute_cap_of_pci
from fdl_cli.system.nvidia import NvidiaWords, Said, interpret, is_dropped, read_module_version


def answered(text):
    return Said(verdict="answered", exit_code=0, text=text)


def failed(code, text):
    return Said(verdict="failed", exit_code=code, text=text)


def nvml(**answer):
    return answered("a warning of some library\n" + json.dumps(answer) + "\n")


def test_nvml_wins_over_nvidia_smi():
    gpu = {"index": 0, "uuid": "GPU-1", "name": "NVIDIA H200", "compute_cap": [9, 0],
           "memory_bytes": 150754820096, "mig": False}  # fmt: skip
    facts = interpret(NvidiaWords(
        nvml=nvml(driver="570.195.03", cuda=12080, gpus=[gpu]),
        smi=answered("0, GPU-1, other, 1.2, 3.0, 1, [N/A]"),
    ))  # fmt: skip
    assert (facts.status, facts.driver, facts.cuda) == ("ok", "570.195.03", (12, 8))
    assert (facts.gpus[0].compute_cap, facts.gpus[0].memory_mib) == ((9, 0), 143771)
    assert facts.gpus[0].cap_source == "nvml"


def test_unified_memory_is_no_memory():
    gpu = {"index": 0, "uuid": "GPU-1", "name": "NVIDIA GB10", "compute_cap": [12, 1],
           "memory_bytes": None, "mig": False}  # fmt: skip
    facts = interpret(NvidiaWords(nvml=nvml(driver="580.1", cuda=13000, gpus=[gpu])))
    assert facts.gpus[0].memory_mib is None


def test_a_name_with_commas_and_a_field_without_a_value():
    reading = nvidia_smi.read_query(
        "0, GPU-1, Board, Rev. A, 580.95.05, 8.9, [N/A], [N/A]\n"
        "nonsense\n"
        "1, GPU-2, Tesla T4, 580.95.05, 7.5, 15360, Enabled\n"
    )
    assert [gpu.name for gpu in reading.gpus] == ["Board, Rev. A", "Tesla T4"]
    assert [gpu.memory_mib for gpu in reading.gpus] == [None, 15360]
    assert [gpu.mig for gpu in reading.gpus] == [False, True]
    assert reading.unread == ("nonsense",)


def test_the_old_query_takes_the_capability_from_the_name():
    refused = failed(2, 'Field "compute_cap" is not a valid field to query.\n')
    assert nvidia_smi.refuses_compute_cap(2, refused.text)
    facts = interpret(NvidiaWords(
        smi=refused,
        smi_old=answered("0, GPU-1, Tesla V100-SXM2-16GB, 470.239.06, 16160\n"),
        smi_header=answered("| NVIDIA-SMI 470  Driver Version: 470.239.06   CUDA Version: 11.4 |"),
    ))  # fmt: skip
    (gpu,) = facts.gpus
    assert (gpu.compute_cap, gpu.cap_source) == ((7, 0), "name-table")
    assert (facts.driver, facts.cuda) == ("470.239.06", (11, 4))


FAILURES = {
    "mismatch": (
        NvidiaWords(
            smi=failed(18, "Failed to initialize NVML: Driver/library version mismatch"),
            kernel_module="570.1",
            pci=("10de:2684",),
        ),
        "mismatch",
    ),
    "mismatch by NVML": (
        NvidiaWords(nvml=Said(
            verdict="failed", exit_code=1,
            text=json.dumps({"error": "LibRmVersionMismatch", "message": "mismatch"}),
        ), pci=("10de:2684",)),
        "mismatch",
    ),
    "cannot talk to the driver": (
        NvidiaWords(
            smi=failed(9, "NVIDIA-SMI has failed because it couldn't communicate with the driver"),
            pci=("10de:2684",),
        ),
        "broken",
    ),
    "no devices": (NvidiaWords(smi=failed(6, "No devices were found")), "broken"),
    "permission": (NvidiaWords(smi=failed(4, "Insufficient Permissions")), "no_permission"),
    "hanging": (NvidiaWords(nvml=Said(verdict="timeout"), pci=("10de:2684",)), "timeout"),
    "no driver": (NvidiaWords(pci=("10de:28e0",)), "no_driver"),
    "dropped, by the log": (
        NvidiaWords(
            smi=failed(9, "couldn't communicate"),
            kernel_log="NVRM: The 595.71.05 NVIDIA driver will ignore this GPU.",
            pci=("10de:1c8d",),
        ),
        "dropped",
    ),
    "dropped, by the bus": (
        NvidiaWords(smi=failed(6, "No devices"), kernel_module="595.71.05", pci=("10de:1c8d",)),
        "dropped",
    ),
    "container without GPUs": (
        NvidiaWords(kernel_module="580.95.05", container=True, pci=("10de:2684",)),
        "no_runtime",
    ),
    "nothing at all": (NvidiaWords(), "absent"),
    "only the library": (
        NvidiaWords(nvml=Said(
            verdict="failed", exit_code=1,
            text=json.dumps({"error": "DriverNotLoaded", "message": "Driver Not Loaded"}),
        )),
        "absent",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("words", "status"), FAILURES.values(), ids=FAILURES)
def test_failures_are_told_apart(words, status):
    assert interpret(words).status == status


def test_the_driver_number_of_the_kernel_module():
    text = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC"
    assert read_module_version(text) == "535.183.01"
    assert read_module_version("580.95.05\n") == "580.95.05"
    assert read_module_version("") is None


def test_mig_instances():
    listing = "GPU 0: A100 (UUID: GPU-a)\n  MIG 3g.40gb  Device 0: (UUID: MIG-1)\n"
    assert nvidia_smi.read_instances(listing) == 1


@pytest.mark.parametrize(
    ("name", "cap"),
    [
        ("NVIDIA GeForce RTX 5090", (12, 0)), ("NVIDIA RTX PRO 6000 Blackwell", (12, 0)),
        ("NVIDIA B200", (10, 0)), ("NVIDIA B300 SXM6 AC", (10, 3)), ("NVIDIA GB10", (12, 1)),
        ("NVIDIA H100 80GB HBM3", (9, 0)), ("NVIDIA GH200 480GB", (9, 0)),
        ("NVIDIA GeForce RTX 4070 Ti", (8, 9)), ("NVIDIA RTX 5000 Ada Generation", (8, 9)),
        ("NVIDIA L40S", (8, 9)), ("NVIDIA A100-SXM4-80GB", (8, 0)), ("NVIDIA A10G", (8, 6)),
        ("NVIDIA RTX A6000", (8, 6)), ("NVIDIA GeForce RTX 3090", (8, 6)),
        ("Quadro RTX 5000", (7, 5)), ("Quadro RTX 8000", (7, 5)), ("Tesla T4", (7, 5)),
        ("NVIDIA GeForce GTX 1660 Ti", (7, 5)), ("NVIDIA TITAN V", (7, 0)),
        ("Tesla P100-PCIE-16GB", (6, 0)), ("NVIDIA GeForce GTX 1080 Ti", (6, 1)),
        ("Quadro P4000", (6, 1)), ("Tesla P40", (6, 1)), ("NVIDIA GeForce GTX 980", (5, 2)),
        ("NVIDIA GeForce GTX 750 Ti", (5, 0)), ("Quadro M4000", (5, 2)), ("Tesla M60", (5, 2)),
        ("Tesla K80", (3, 7)), ("Tesla K40m", (3, 5)), ("NVIDIA GeForce GT 710", (3, 5)),
        ("Quadro K4200", (3, 0)), ("Orin (nvgpu)", (8, 7)), ("NVIDIA Thor", (11, 0)),
        ("NVIDIA Future GPU", None),
    ],
)  # fmt: skip
def test_capabilities_by_name(name, cap):
    assert compute_cap_of_name(name) == cap


@pytest.mark.parametrize(
    ("device", "cap"),
    [
        ("10de:1c8d", (6, 1)), ("10de:1db1", (7, 0)), ("10de:1eb8", (7, 5)),
        ("10de:20b0", (8, 0)), ("10de:2204", (8, 6)), ("10de:2684", (8, 9)),
        ("10de:2330", (9, 0)), ("10de:2b85", (12, 0)), ("1002:744c", None), ("10de:zz", None),
    ],
)  # fmt: skip
def test_capabilities_by_pci_id(device, cap):
    assert compute_cap_of_pci(device) == cap


def test_which_drivers_drop_which_gpus():
    assert is_dropped(("10de:1db1",), "590.44.01")
    assert not is_dropped(("10de:1eb8",), "595.71.05")
    assert not is_dropped(("10de:1c8d", "10de:2684"), "595.71.05")
    assert not is_dropped((), "595.71.05")


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("caf\ufffd garbage , x\nfoo\n", "garbled"),
        ("Segmentation fault\n", "garbled"),
        ("", "absent"),
        ("\n \n", "absent"),
        ("No devices were found\n", "absent"),
    ],
)
def test_listing_without_a_gpu_is_garbled_if_it_has_other_lines(text, status):
    facts = interpret(NvidiaWords(smi=answered(text)))
    assert (facts.status, facts.gpus) == (status, ())
    if status == "garbled":
        assert facts.detail == text.splitlines()[0]


def test_detail_of_a_garbled_listing_is_short_and_has_no_control_characters():
    facts = interpret(NvidiaWords(smi=answered("\n\x00\x1b[31mcaf\ufffd\x07" + 200 * "x")))
    assert facts.detail.startswith("\ufffd\ufffd[31mcaf\ufffd\ufffdxxx")
    assert facts.detail.endswith("x...")
    assert len(facts.detail) == nvidia_smi.LONGEST_QUOTE + 3


def test_garbled_listing_leaves_a_dropped_gpu_dropped():
    facts = interpret(NvidiaWords(
        smi=answered("garbage\n"), kernel_module="595.71.05", pci=("10de:1c8d",),
    ))  # fmt: skip
    assert facts.status == "dropped"


def test_listing_with_one_unreadable_line_keeps_its_gpus():
    text = "noise\n0, GPU-1, Tesla T4, 580.95.05, 7.5, 15360, [N/A]\n"
    facts = interpret(NvidiaWords(smi=answered(text)))
    assert (facts.status, len(facts.gpus)) == ("ok", 1)
    assert "could not read: noise" in facts.detail
