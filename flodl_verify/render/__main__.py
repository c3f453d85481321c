"""Draws one model: `python -m flodl_verify.render REQUEST.json RESPONSE.json`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from flodl_verify.render.drawing import draw
from flodl_verify.render.protocol import RenderError, Response, read_request, write_response


def main(argv: list[str]) -> int:
    """Read the request, draw, write the response; a model that cannot be drawn is a response too."""
    request_file, response_file = map(Path, argv)
    os.environ.setdefault("MPLBACKEND", "Agg")
    sys.dont_write_bytecode = True
    try:
        response = draw(read_request(request_file))
    except RenderError as problem:
        response = Response(
            error_id=problem.error_id,
            message=problem.message,
            hint=problem.hint,
            line=problem.line,
        )
    write_response(response_file, response)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
