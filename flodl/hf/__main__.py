"""Conversions for the `fdl` tool: `python -m flodl.hf REQUEST.json RESPONSE.json`."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from flodl.errors import CheckpointError
from flodl.hf.cache import INSTALL, HuggingFaceError, require
from flodl.hf.exchange import convert, export, verify_export


def main(request: Path, response: Path) -> None:
    """Write the answer to a request, errors included, to a separate file."""
    os.environ["HF_HUB_OFFLINE"] = "1"  # read when transformers is imported
    _hide_broken_torchvision()
    response.write_text(json.dumps(_answer(json.loads(request.read_text("utf-8")))), "utf-8")


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    try:
        require()
    except HuggingFaceError:
        return {"kind": "transformers-missing", "error": INSTALL, "differences": []}
    try:
        return dataclasses.asdict(_exchange(request))
    except CheckpointError as error:
        lines = str(error).splitlines()
        kind = "misfit" if error.differences else "checkpoint"
        return {"kind": kind, "error": lines[0], "differences": list(error.differences)}
    except HuggingFaceError as error:
        return {"kind": "class", "error": str(error), "differences": []}


def _hide_broken_torchvision() -> None:
    """Have transformers do without a torchvision for another torch, which it would import and fail on."""
    try:
        importlib.import_module("torchvision")
    except Exception:  # each torch fails in its own way
        sys.modules["torchvision"] = None  # type: ignore[assignment]


def _exchange(request: dict[str, Any]) -> Any:
    paths = {
        key: Path(text)
        for key, text in request.items()
        if key in ("config", "source", "target", "folder")
    }
    match request["do"]:
        case "convert":
            return convert(
                files=[Path(each) for each in request["files"]],
                allow_unexpected=request["allow_unexpected"],
                **paths,
            )
        case "export":
            return export(**paths, allow_unexpected=request["allow_unexpected"])
        case _:
            return verify_export(**paths)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
