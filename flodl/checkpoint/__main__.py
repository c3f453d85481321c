"""Migration of a checkpoint for the `fdl` tool: `python -m flodl.checkpoint REQUEST.json RESPONSE.json`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch

from flodl.checkpoint.contents import open_contents
from flodl.checkpoint.migrate import migrate_checkpoint
from flodl.checkpoint.tensors import DTYPES
from flodl.errors import CheckpointError


def main(request: Path, response: Path) -> None:
    """Write the answer to a request, errors included, to a separate file."""
    try:
        answer = _migrate(json.loads(request.read_text(encoding="utf-8")))
    except CheckpointError as error:
        answer = {"error": str(error).splitlines()[0], "differences": list(error.differences)}
    response.write_text(json.dumps(answer), encoding="utf-8")


def _migrate(request: dict[str, Any]) -> dict[str, Any]:
    rename: dict[str, str] = request["rename"]
    like = open_contents(request["like"] or request["source"])
    # Only names and forms of the reference are used: tensors without memory stand for its places.
    places = {
        (each.name if request["like"] else rename.get(each.name, each.name)): torch.empty(
            each.shape, dtype=DTYPES[each.dtype], device="meta"
        )
        for each in like.entries()
        if not each.name.startswith("train/")
    }
    architecture = {
        key: text
        for key, text in like.metadata.items()
        if key in ("fdl.structural_hash", "fdl.topology") and request["like"]
    }
    report = migrate_checkpoint(
        request["source"],
        request["target"],
        places,
        rename=rename,
        in_order=request["in_order"],
        architecture=architecture,
    )
    return {
        "unchanged": report.unchanged,
        "remapped": report.remapped,
        "dropped": report.dropped,
        "missing": report.missing,
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
