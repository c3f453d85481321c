"""Runs one verification task: `python -m flodl.verify REQUEST.json RESPONSE.json`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch

from flodl.verify.containment import limit_memory
from flodl.verify.curve import record_curve
from flodl.verify.protocol import Response, read_request
from flodl.verify.rounds import examine
from flodl.verify.script_run import record_script
from flodl.verify.write_barrier import forbid_writes


def main(argv: list[str]) -> int:
    """Read the request, do its task, write the response."""
    request_file, response_file = argv
    request = read_request(Path(request_file))
    os.environ.setdefault("MPLBACKEND", "Agg")
    sys.dont_write_bytecode = True
    torch.set_num_threads(1)
    limit_memory(request.memory_mb)
    forbid_writes(request.workdir, (request.original.parent, request.ported.parent))
    response = Response(Path(response_file))
    if request.task == "record":
        record_script(request)
    elif request.task == "curve":
        record_curve(request)
    else:
        examine(request, response)
    response.finish()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
