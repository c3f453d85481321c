"""Run `fdl` as people do: as a process with streams, an environment and an exit code."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.fork_server import ForkServer, at_start

Done = subprocess.CompletedProcess[str]
RunFdl = Callable[..., Done]


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    server = ForkServer({**os.environ, "PYTHONWARNINGS": "error"})
    yield server
    server.close()


@pytest.fixture
def fdl(tmp_path: Path, fork_server: ForkServer) -> RunFdl:
    """Run `fdl` in an empty folder; keyword arguments are changes to the environment."""

    def run(*arguments: str, cwd: Path | None = None, **environ: str | None) -> Done:
        merged = {**os.environ, "PYTHONWARNINGS": "error"}
        for name, value in environ.items():
            if value is None:
                merged.pop(name, None)
            else:
                merged[name] = value
        folder = cwd or tmp_path
        if at_start(merged) == fork_server.environ:
            return fork_server.run(arguments, folder, merged, timeout=60)
        return subprocess.run(
            [sys.executable, "-P", "-m", "fdl_cli", *arguments],
            cwd=folder,
            env=merged,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run
