"""Kernels on every device, with the result printed as one JSON line.

Runs in the environment that is to be proved, so it knows nothing but torch. A missing kernel
does not fail at import, and a matmul runs in a library with its own kernels: only an
elementwise kernel on each GPU shows that the build has machine code for it.
"""

import sys

# The folder of this file would come first: what lies there must not stand in for modules of torch or Python.
sys.path.pop(0)

import json
import time
from typing import Any


def main() -> int:
    """Print versions and one result per device; exit 1 if torch cannot be imported."""
    started = time.perf_counter()
    try:
        import torch
    except Exception as problem:
        answer: dict[str, Any] = {"error": f"{type(problem).__name__}: {problem}"}
        sys.stdout.write(json.dumps(answer) + "\n")
        return 1
    answer = {
        "error": None,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
        "arch_list": torch.cuda.get_arch_list(),
        "import_seconds": round(time.perf_counter() - started, 3),
        "file": torch.__file__,
        "devices": [_prove(torch, name, label) for name, label in _devices(torch)],
    }
    sys.stdout.write(json.dumps(answer) + "\n")
    return 0


def _devices(torch: Any) -> list[tuple[str, str]]:
    found = [("cpu", "cpu")]
    if torch.cuda.is_available():
        found += [
            (f"cuda:{index}", torch.cuda.get_device_name(index))
            for index in range(torch.cuda.device_count())
        ]
    if "xpu" in dir(torch) and torch.xpu.is_available():
        found += [
            (f"xpu:{index}", torch.xpu.get_device_name(index))
            for index in range(torch.xpu.device_count())
        ]
    if torch.backends.mps.is_available():
        found.append(("mps", "Apple GPU"))
    return found


def _prove(torch: Any, name: str, label: str) -> dict[str, Any]:
    report: dict[str, Any] = {"device": name, "name": label}
    for step, work in (
        ("elementwise", _elementwise),
        ("matmul", _matmul),
        ("backward", _backward),
    ):
        started = time.perf_counter()
        try:
            work(torch, name)
        except Exception as problem:
            report[step] = f"{type(problem).__name__}: {str(problem).splitlines()[0]}"
        else:
            report[step] = "ok"
        report[f"{step}_seconds"] = round(time.perf_counter() - started, 4)
    return report


def _elementwise(torch: Any, device: str) -> None:
    values = torch.tensor([-2.0, -1.0, 0.0, 3.0], device=device).relu().add_(1.0)
    _expect(values.cpu().tolist(), [1.0, 1.0, 1.0, 4.0])


def _matmul(torch: Any, device: str) -> None:
    left = torch.eye(32, device=device) * 2.0
    right = torch.ones(32, 32, device=device)
    product = (left @ right).cpu()
    _expect(product.min().item(), 2.0)
    _expect(product.max().item(), 2.0)


def _backward(torch: Any, device: str) -> None:
    weight = torch.ones(3, device=device, requires_grad=True)
    (weight * torch.tensor([1.0, 2.0, 3.0], device=device)).sum().backward()
    _expect(weight.grad.cpu().tolist(), [1.0, 2.0, 3.0])


def _expect(found: object, wanted: object) -> None:
    if found != wanted:
        raise ArithmeticError(f"the device computed {found}, not {wanted}")


if __name__ == "__main__":
    sys.exit(main())
