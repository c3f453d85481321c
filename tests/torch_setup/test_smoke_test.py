"""What a proof concludes from the child's answer, and the child itself on the real torch."""

import sys
from pathlib import Path

import pytest

from fdl_cli.errors import OperationFailedError
from fdl_cli.torch_setup import smoke_test
from fdl_cli.torch_setup.install.installed import read_version_file
from fdl_cli.torch_setup.smoke_test import judge, prove
from fdl_cli.torch_setup.smoke_test_result import Expectation

DEVICE = {"device": "cpu", "name": "cpu", "elementwise": "ok", "matmul": "ok", "backward": "ok"}
GPU = {**DEVICE, "device": "cuda:0", "name": "NVIDIA H200"}


def answer(**changes):
    return {
        "error": None, "torch": "2.14.1+cu126", "cuda": "12.6", "hip": None,
        "arch_list": ["sm_80", "sm_90"], "devices": [DEVICE, GPU], **changes,
    }  # fmt: skip


PLAN = Expectation(torch="2.14.1", variant="cu126", sm=("8.0", "9.0"), gpus=1)


def test_a_good_proof():
    proof = judge(answer(), PLAN, 1.0)
    assert proof.ok
    assert [device.ok for device in proof.devices] == [True, True]


WRONG = {
    "no kernel for the GPU": (
        {"devices": [DEVICE, {**GPU, "elementwise": "RuntimeError: no kernel image"}]},
        "elementwise failed on cuda:0 (NVIDIA H200): RuntimeError: no kernel image",
    ),
    "another version": ({"torch": "2.13.0+cu126"}, "torch 2.13.0 is installed, 2.14.1"),
    "another CUDA": ({"cuda": "13.0"}, "built for CUDA 13.0, not 12.6"),
    "a CPU build": ({"cuda": None}, "built for CUDA None, not 12.6"),
    "machine code is missing": ({"arch_list": ["sm_80"]}, "machine code for 9.0"),
    "the GPU is not seen": ({"devices": [DEVICE]}, "torch sees 0 GPUs, 1 were planned"),
    "it cannot be imported": ({"error": "ImportError: libcuda"}, "cannot be imported"),
}


@pytest.mark.parametrize(("changes", "problem"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_said(changes, problem):
    proof = judge(answer(**changes), PLAN, 1.0)
    assert not proof.ok
    assert any(problem in text for text in proof.problems)


def test_rocm_and_cpu():
    rocm = answer(cuda=None, hip="7.2.26015", arch_list=["gfx1100"])
    assert judge(rocm, Expectation(variant="rocm7.2"), 1.0).ok
    assert not judge(rocm, Expectation(variant="rocm7.14"), 1.0).ok
    assert not judge(rocm, Expectation(variant="cpu"), 1.0).ok
    assert judge(answer(cuda=None, arch_list=[]), Expectation(variant="cpu"), 1.0).ok


def test_architecture_specific_machine_code_counts():
    assert judge(answer(arch_list=["sm_80", "sm_90a"]), PLAN, 1.0).ok


@pytest.mark.torch
@pytest.mark.slow
def test_the_real_torch_is_proved(tmp_path):
    proof = prove(Path(sys.executable), Expectation(variant=None))
    assert proof.ok, proof.problems
    assert proof.devices[0].device == "cpu"


def test_prove_files_beside_the_child_are_not_imported(tmp_path, monkeypatch):
    child = tmp_path / "child.py"
    child.write_bytes(smoke_test.CHILD.read_bytes())
    for name in ("select", "torch", "json", "time"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('not this one')\n")
    monkeypatch.setattr(smoke_test, "CHILD", child)
    proof = prove(Path(sys.executable), Expectation(variant=None))
    assert proof.ok, proof.problems


def test_a_child_that_dies_is_an_error(tmp_path):
    interpreter = tmp_path / "python"
    interpreter.write_text("#!/bin/sh\necho 'Illegal instruction' >&2\nexit 132\n")
    interpreter.chmod(0o755)
    with pytest.raises(OperationFailedError) as caught:
        prove(interpreter, Expectation())
    assert caught.value.error_id == "proof-crashed"
    assert "Illegal instruction" in caught.value.causes


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("__version__ = '2.13.0+cpu'\ncuda: Optional[str] = None\nhip = None\n", "2.13.0+cpu"),
        ('__version__ = "2.15.0+cu132"\ncuda: str = "13.2"\n', "2.15.0+cu132"),
        ("__version__ = '2.9.1'\ncuda: Optional[str] = '12.8'\nhip = None\n", "2.9.1+cu128"),
        ("__version__ = '2.9.1'\ncuda = None\nhip: str = '7.2.5'\n", "2.9.1+rocm7.2"),
    ],
)
def test_version_files(tmp_path, text, name):
    path = tmp_path / "version.py"
    path.write_text(text)
    assert read_version_file(path).name == name
    assert read_version_file(tmp_path / "none.py") is None
