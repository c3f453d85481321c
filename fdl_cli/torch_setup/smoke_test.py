"""Proof of an installed torch in a child process: versions, machine code, kernels on every device."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from fdl_cli.errors import OperationFailedError
from fdl_cli.system.process import run
from fdl_cli.torch_setup.smoke_test_result import DeviceProof, Expectation, Proof

CHILD: Final = Path(__file__).with_name("smoke_test_child.py")
# A first import from a cold disk and a first CUDA context take long; a hang takes longer.
SECONDS: Final = 300.0
STEPS: Final = ("elementwise", "matmul", "backward")


def prove(interpreter: Path, expectation: Expectation, *, packages: Path | None = None) -> Proof:
    """Run the kernels in the environment's own interpreter and compare with the plan.

    `packages` is a folder that is not part of the environment yet.

    Raises:
        OperationFailedError: the child crashed or ran out of time.
    """
    done = run(
        (interpreter, str(CHILD)),
        env=_child_environment(packages),
        timeout=SECONDS,
        check=False,
    )
    answer = _last_json(done.stdout)
    if answer is None:
        raise OperationFailedError(
            error_id="proof-crashed",
            message=f"the proof ended with code {done.returncode} and without an answer",
            hint="see what happens with `python -c 'import torch'`",
            causes=tuple(done.stderr.strip().splitlines()[-8:]),
        )
    return judge(answer, expectation, done.seconds)


def judge(answer: Mapping[str, Any], expectation: Expectation, seconds: float) -> Proof:
    """Compare the child's findings with the plan; pure."""
    if answer.get("error"):
        return Proof(
            torch="", cuda=None, hip=None, arch_list=(), devices=(), seconds=seconds,
            problems=(f"torch cannot be imported: {answer['error']}",),
        )  # fmt: skip
    devices = tuple(
        DeviceProof(
            device=str(item["device"]),
            name=str(item["name"]),
            elementwise=str(item["elementwise"]),
            matmul=str(item["matmul"]),
            backward=str(item["backward"]),
        )
        for item in answer["devices"]
    )
    problems = [
        f"{step} failed on {device.device} ({device.name}): {outcome}"
        for device in devices
        for step, outcome in zip(
            STEPS, (device.elementwise, device.matmul, device.backward), strict=True
        )
        if outcome != "ok"
    ]
    problems += _differences(answer, devices, expectation)
    return Proof(
        torch=str(answer["torch"]),
        cuda=answer["cuda"],
        hip=answer["hip"],
        arch_list=tuple(str(item) for item in answer["arch_list"]),
        devices=devices,
        problems=tuple(problems),
        seconds=round(seconds, 3),
    )


def _differences(
    answer: Mapping[str, Any], devices: tuple[DeviceProof, ...], expectation: Expectation
) -> list[str]:
    found: list[str] = []
    version = str(answer["torch"]).partition("+")[0]
    if expectation.torch is not None and version != expectation.torch:
        found.append(f"torch {version} is installed, {expectation.torch} was planned")
    variant = expectation.variant
    if variant is not None:
        found += _variant_differences(variant, answer)
    if answer["cuda"] is not None and not answer["hip"]:
        have = {name.removeprefix("sm_").rstrip("af") for name in answer["arch_list"]}
        missing = [name for name in expectation.sm if name.replace(".", "") not in have]
        # Without a GPU torch answers with an empty list, which says nothing.
        if have and missing:
            found.append(f"the build lacks the planned machine code for {', '.join(missing)}")
    gpus = sum(device.device != "cpu" for device in devices)
    if expectation.gpus is not None and gpus < expectation.gpus:
        found.append(f"torch sees {gpus} GPUs, {expectation.gpus} were planned for")
    return found


def _variant_differences(variant: str, answer: Mapping[str, Any]) -> list[str]:
    cuda, hip = answer["cuda"], answer["hip"]
    if variant.startswith("cu"):
        wanted = f"{variant[2:-1]}.{variant[-1]}"
        return [] if cuda == wanted else [f"torch is built for CUDA {cuda}, not {wanted}"]
    if variant.startswith("rocm"):
        wanted = variant.removeprefix("rocm")
        right = hip is not None and f"{hip}.".startswith(f"{wanted}.")
        return [] if right else [f"torch is built for ROCm {hip}, not {wanted}"]
    return [] if cuda is None and hip is None else [f"torch is a GPU build, {variant} was planned"]


def _child_environment(packages: Path | None) -> dict[str, str]:
    # PYTHONPATH of the caller would let another torch answer.
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    if packages is not None:
        kept["PYTHONPATH"] = str(packages)
    return kept


def _last_json(text: str) -> dict[str, Any] | None:
    for line in reversed(text.splitlines()):
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            return value
    return None
