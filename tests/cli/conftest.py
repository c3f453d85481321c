"""Start `fdl` as people do: as a process with streams, an environment and an exit code."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Done = subprocess.CompletedProcess[str]
RunFdl = Callable[..., Done]


@pytest.fixture
def fdl(tmp_path: Path) -> RunFdl:
    """Run `fdl` in an empty folder; keyword arguments are changes to the environment."""

    def run(*arguments: str, cwd: Path | None = None, **environ: str | None) -> Done:
        merged = {**os.environ, "PYTHONWARNINGS": "error"}
        for name, value in environ.items():
            if value is None:
                merged.pop(name, None)
            else:
                merged[name] = value
        return subprocess.run(
            [sys.executable, "-P", "-m", "fdl_cli", *arguments],
            cwd=cwd or tmp_path,
            env=merged,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run
