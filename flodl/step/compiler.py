"""The process that compiles a step: a script of its own that needs torch and nothing of flodl.

The job comes in on standard input.
"""

from __future__ import annotations

import os
import pickle
import shutil
import sys
from pathlib import Path
from typing import Any

_KEPT = 200
_SETTINGS = {
    # The binding answers for shapes and strides; asking again costs a quarter of a small step.
    "size_asserts": False,
    "alignment_asserts": False,
    # The random numbers of eager, so that a run can change between the two and stay what it is.
    "fallback_random": True,
    # What is called is optimized; how it is called is half of the compile time and none of the step.
    "aot_inductor.compile_wrapper_opt_level": "O0",
}


def build(packed: bytes) -> None:
    """Compile a step and write the file; runs in the child process."""
    # Unpickling a graph uses this without importing it.
    import torch._higher_order_ops.triton_kernel_wrap
    from torch._inductor import config
    from torch._inductor.compile_fx import compile_fx_aot

    job = pickle.loads(packed)
    os.nice(job["niceness"])
    torch.set_num_threads(job["threads"])
    examples: list[Any] = [
        torch.empty_strided(shape, stride, dtype=dtype, device=device)
        for shape, stride, dtype, device in job["inputs"]
    ]
    final = Path(job["path"])
    folder = final.parent.with_suffix(f".{os.getpid()}.partial")
    folder.mkdir(parents=True)
    try:
        with config.patch({**_SETTINGS, "aot_inductor.output_path": str(folder / final.name)}):
            compile_fx_aot(job["graph"], examples)
        _keep_library(folder)
        if not final.parent.exists():  # another process may have been first
            folder.rename(final.parent)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    _prune(final.parent.parent)


def _keep_library(folder: Path) -> None:
    for each in folder.iterdir():
        if each.is_dir():
            shutil.rmtree(each)
        elif each.suffix == ".cpp":
            each.unlink()


def _prune(folder: Path) -> None:
    found = sorted(folder.glob("*/step.so"), key=lambda each: each.stat().st_mtime)
    for old in found[:-_KEPT]:
        shutil.rmtree(old.parent, ignore_errors=True)


if __name__ == "__main__":
    build(sys.stdin.buffer.read())
