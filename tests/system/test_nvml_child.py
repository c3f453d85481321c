"""The child that asks NVML: its answers are what `interpret` reads."""

import json
import subprocess
import sys

import pytest

from fdl_cli.system.nvidia import NvidiaWords, Said, interpret
from fdl_cli.system.nvidia_probe import CHILD

FAKE = """
class NVMLError(Exception):
    pass


class NVMLError_NotSupported(NVMLError):
    pass


class NVMLError_LibRmVersionMismatch(NVMLError):
    pass


class _Memory:
    total = 143771 * 1024 * 1024


def nvmlInit():
    {init}


def nvmlSystemGetDriverVersion():
    return b"570.195.03"


def nvmlSystemGetCudaDriverVersion_v2():
    return 12080


def nvmlDeviceGetCount():
    return 2


def nvmlDeviceGetHandleByIndex(index):
    return index


def nvmlDeviceGetCudaComputeCapability(handle):
    return (9, 0)


def nvmlDeviceGetMemoryInfo(handle):
    if handle == 1:
        raise NVMLError_NotSupported("not supported")
    return _Memory


def nvmlDeviceGetMigMode(handle):
    if handle == 1:
        raise NVMLError_NotSupported("not supported")
    return (1, 1)


def nvmlDeviceGetUUID(handle):
    return f"GPU-{{handle}}"


def nvmlDeviceGetName(handle):
    return "NVIDIA H200"
"""


def ask(folder, init):
    (folder / "pynvml.py").write_text(FAKE.format(init=init))
    return subprocess.run(
        [sys.executable, str(CHILD)], capture_output=True, text=True, check=False, timeout=30,
        env={"PYTHONPATH": str(folder)},
    )  # fmt: skip


def test_its_answer_becomes_facts(tmp_path):
    done = ask(tmp_path, "pass")
    assert done.returncode == 0, done.stderr
    facts = interpret(NvidiaWords(nvml=Said(verdict="answered", exit_code=0, text=done.stdout)))
    assert (facts.status, facts.driver, facts.cuda) == ("ok", "570.195.03", (12, 8))
    assert [gpu.memory_mib for gpu in facts.gpus] == [143771, None]
    assert [gpu.mig for gpu in facts.gpus] == [True, False]


def test_its_failure_becomes_a_status(tmp_path):
    done = ask(tmp_path, "raise NVMLError_LibRmVersionMismatch('driver and library differ')")
    assert done.returncode == 1
    words = NvidiaWords(
        nvml=Said(verdict="failed", exit_code=1, text=done.stdout), pci=("10de:2330",)
    )
    facts = interpret(words)
    assert (facts.status, facts.detail) == ("mismatch", "driver and library differ")


@pytest.mark.gpu
def test_the_real_nvml_answers():
    done = subprocess.run(
        [sys.executable, str(CHILD)], capture_output=True, text=True, check=True, timeout=30
    )
    assert json.loads(done.stdout)["gpus"]
