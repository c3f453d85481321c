"""Work on checkpoints that needs torch: a module of flodl in the user's Python, by files of JSON."""

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from fdl_cli.errors import OperationFailedError
from fdl_cli.system.process import run
from fdl_cli.system.user_python import UserPython

LIMIT_S: Final = 600.0


def answer_of(
    python: UserPython, module: str, request: Mapping[str, object], *, purpose: str
) -> dict[str, Any]:
    """Return the answer of a module to a request; `purpose` is for the message, such as "migration".

    Raises:
        OperationFailedError: the module ended without an answer.
    """
    with tempfile.TemporaryDirectory() as folder:
        question, answer = Path(folder) / "request.json", Path(folder) / "response.json"
        question.write_text(json.dumps(request), encoding="utf-8")
        completed = run(
            python.runtime_command(module, question, answer), timeout=LIMIT_S, check=False
        )
        if completed.returncode == 0 and answer.is_file():
            found: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
            return found
    lines = completed.stderr.strip().splitlines()
    raise OperationFailedError(
        error_id="checkpoint-work-failed",
        message=f"the {purpose} stopped: {lines[-1] if lines else 'without a word'}",
        hint="check the source with `fdl checkpoint verify`",
    )
