"""The one process of a launcher, for scripts that wait for others.

Example: `torchrun --nproc-per-node 1` sets `RANK=0` and `WORLD_SIZE=1`. So does this, and a group of one
process needs no sockets: the sum over all processes is the value itself.
"""

from __future__ import annotations

import os
from typing import Any, final

import torch
import torch.distributed as dist

_ONE_PROCESS = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1",
                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}  # fmt: skip


def starts_processes(content: bytes) -> bool:
    """Return True if a script joins a group of processes by itself."""
    return b"init_process_group" in content


def be_one_process() -> None:
    """Let the next script be the only process of its launcher."""
    os.environ.update(_ONE_PROCESS)
    if not dist.is_available():
        return
    # The import registers the backend.
    import torch.testing._internal.distributed.fake_pg as fake

    original = dist.init_process_group

    def alone(*_args: Any, **_options: Any) -> None:
        # A proof may not open sockets, so neither gloo nor a store on a port can be had.
        original("fake", store=fake.FakeStore(), rank=0, world_size=1)

    vars(dist)["init_process_group"] = alone
    # The gradients of one process are their own mean.
    for module in (torch.nn.parallel, torch.nn.parallel.distributed):
        vars(module)["DistributedDataParallel"] = _Alone


@final
class _Alone(torch.nn.Module):
    """`DistributedDataParallel` of one process: the model, under the name `module`."""

    def __init__(self, module: torch.nn.Module, *_args: Any, **_options: Any) -> None:
        super().__init__()
        self.module = module

    def forward(self, *args: Any, **options: Any) -> Any:
        """Call the model."""
        return self.module(*args, **options)
