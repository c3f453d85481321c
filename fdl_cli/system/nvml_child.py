"""NVML's driver, CUDA version and GPUs, printed as one JSON line.

Run as a separate program: NVML is native code that can hang or crash with a sick driver.
"""

import json
import sys
from typing import Any


def main() -> int:
    """Print `{"driver", "cuda", "gpus"}` or `{"error", "message"}`; the exit code is 0 or 1."""
    try:
        import pynvml  # type: ignore[import-untyped]
    except ImportError as problem:
        return _fail("NotInstalled", str(problem))
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as problem:
        return _fail(type(problem).__name__.removeprefix("NVMLError_"), str(problem))
    try:
        answer = {
            "driver": _text(pynvml.nvmlSystemGetDriverVersion()),
            "cuda": pynvml.nvmlSystemGetCudaDriverVersion_v2(),
            "gpus": [_gpu(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount())],
        }
    except pynvml.NVMLError as problem:
        return _fail(type(problem).__name__.removeprefix("NVMLError_"), str(problem))
    sys.stdout.write(json.dumps(answer) + "\n")
    return 0


def _gpu(pynvml: Any, index: int) -> dict[str, object]:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(handle)
    try:
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle).total
    except pynvml.NVMLError:
        # GB10 and Thor share the system's memory and report no dedicated memory.
        memory = None
    try:
        mig = pynvml.nvmlDeviceGetMigMode(handle)[0] == 1
    except pynvml.NVMLError:
        mig = False
    return {
        "index": index,
        "uuid": _text(pynvml.nvmlDeviceGetUUID(handle)),
        "name": _text(pynvml.nvmlDeviceGetName(handle)),
        "compute_cap": [major, minor],
        "memory_bytes": memory,
        "mig": mig,
    }


def _text(value: bytes | str) -> str:
    # Older bindings answer with bytes.
    return value.decode() if isinstance(value, bytes) else value


def _fail(error: str, message: str) -> int:
    sys.stdout.write(json.dumps({"error": error, "message": message}) + "\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
