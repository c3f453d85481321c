"""The process that compiles a step: a separate script that needs torch and nothing of flodl.

The job comes in on standard input.
"""

from __future__ import annotations

import io
import os
import pickle
import shutil
import struct
import sys
from pathlib import Path
from typing import Any, final

_KEPT = 600
_GNU_STACK, _EXECUTABLE = 0x6474E551, 1  # of the ELF program header
# The regions of the step; operations cannot be pickled, so forked processes find them here.
_regions: list[dict[str, Any]] = []
_SETTINGS = {
    # The binding answers for shapes and strides; asking again costs a quarter of a small step.
    "size_asserts": False,
    "alignment_asserts": False,
    # The random numbers of eager, so that a run can change between the two and stay what it is.
    "fallback_random": True,
    # The wrapper that calls the kernels takes half of the compile time and no time of the step.
    "aot_inductor.compile_wrapper_opt_level": "O0",
}


@final
class _Unpacker(pickle.Unpickler):
    """Finds operations by name; nodes stay names until the graph is rebuilt."""

    def persistent_load(self, pid: tuple[str, str]) -> Any:
        """Return an operation of torch, or the place of a node."""
        import torch

        kind, name = pid
        if kind == "node":
            return Place(name)
        found: Any = torch.ops
        for part in name.split("."):
            found = getattr(found, part)
        return found


@final
class Place:
    """Stands for a node that is made later."""

    def __init__(self, name: str) -> None:
        self.name = name


def _rebuilt(packed: list[Any]) -> Any:
    """Return the graph as a module."""
    from torch import fx, nn
    from torch.utils import _pytree as pytree

    graph = fx.Graph()
    made: dict[str, Any] = {}

    def resolved(value: Any) -> Any:
        plain = _plain(value)
        return pytree.tree_map(lambda e: made[e.name] if isinstance(e, Place) else e, plain)

    for op, target, args, kwargs, name in packed:
        made[name] = graph.create_node(op, target, resolved(args), resolved(kwargs), name)
    return fx.GraphModule(nn.Module(), graph)


def _plain(value: Any) -> Any:
    """Return lists and dictionaries of torch.fx as Python's own."""
    if isinstance(value, (list, tuple)):
        kind = list if isinstance(value, list) else tuple
        return kind(_plain(each) for each in value)
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return value


def build(packed: bytes) -> None:
    """Compile the regions of a step and write their files; runs in the child process."""
    import torch

    job = _Unpacker(io.BytesIO(packed)).load()
    if sys.platform != "win32":
        os.nice(job["niceness"])
    torch.set_num_threads(job["threads"])
    regions = _regions[:] = job["regions"]
    if job["workers"] == 1 or len(regions) == 1 or sys.platform != "linux":
        for each in regions:
            _build_region(each)
        return
    import multiprocessing

    import torch._inductor.compile_fx  # once, before the processes part

    with multiprocessing.get_context("fork").Pool(min(job["workers"], len(regions))) as pool:
        pool.map(_build_numbered, range(len(regions)), chunksize=1)


def _build_numbered(number: int) -> None:
    _build_region(_regions[number])


def _build_region(job: dict[str, Any]) -> None:
    import torch
    from torch._inductor import config
    from torch._inductor.compile_fx import compile_fx_aot

    examples: list[Any] = [
        torch.empty_strided(shape, stride, dtype=dtype, device=device)
        for shape, stride, dtype, device in job["inputs"]
    ]
    final = Path(job["path"])
    folder = final.parent.with_suffix(f".{os.getpid()}.partial")
    folder.mkdir(parents=True)
    try:
        with config.patch({**_SETTINGS, "aot_inductor.output_path": str(folder / final.name)}):
            compile_fx_aot(_rebuilt(job["nodes"]), examples)
        forbid_executable_stack(folder / final.name)
        _keep_library(folder)
        if not final.parent.exists():  # another process may have been first
            folder.rename(final.parent)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    _prune(final.parent.parent)


def forbid_executable_stack(library: Path) -> None:
    """Clear the mark of an ELF library that requires an executable stack.

    The compiler of torch writes constants as assembler without `.note.GNU-stack`, and the linker takes
    that for a wish. No step needs such a stack, and glibc refuses to load such a library since 2.41
    (Debian 13, Ubuntu 25.04): see `dlopen` in its NEWS.
    """
    with library.open("r+b") as file:
        head = file.read(64)
        if head[:5] != b"\x7fELF\x02":  # macOS, Windows, 32 bits: no such mark is known there
            return
        order = "<" if head[5] == 1 else ">"
        (table,) = struct.unpack_from(f"{order}Q", head, 32)
        size, count = struct.unpack_from(f"{order}2H", head, 54)
        for entry in range(table, table + size * count, size):
            file.seek(entry)
            kind, flags = struct.unpack(f"{order}2I", file.read(8))
            if kind == _GNU_STACK:
                file.seek(entry + 4)
                file.write(struct.pack(f"{order}I", flags & ~_EXECUTABLE))


def _keep_library(folder: Path) -> None:
    """Remove sources; put the list of operations that are called by name where the library is."""
    for each in folder.iterdir():
        if each.is_dir():
            shutil.rmtree(each)
        elif each.suffix == ".cpp" or each.name.endswith("_metadata.json"):
            each.unlink()
    lists = [each for each in folder.glob("*.json") if each.stem != "step"]
    if lists:
        lists[0].rename(folder / "step.json")


def _prune(folder: Path) -> None:
    found = sorted(folder.glob("*/step.so"), key=lambda each: each.stat().st_mtime)
    for old in found[:-_KEPT]:
        shutil.rmtree(old.parent, ignore_errors=True)


if __name__ == "__main__":
    build(sys.stdin.buffer.read())
