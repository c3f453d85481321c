"""A project folder, a private home for builds, and a local index for `fdl setup`."""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "net")]

ROOT = Path(__file__).parents[2]


class Project:
    """Runs the real `fdl` in an empty project, without any network but the local index."""

    def __init__(self, folder, home, index):
        self.folder = folder
        self.home = home
        self.index = index

    def environ(self):
        kept = {key: os.environ[key] for key in ("PATH", "LANG", "HOME") if key in os.environ}
        return {
            **kept,
            "PYTHONPATH": str(ROOT),
            "FLODL_HOME": str(self.home),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_INDEX_URL": f"{self.index.url}/simple",
            "PIP_RETRIES": "0",
            "PIP_NO_CACHE_DIR": "1",
            "FDL_NO_INPUT": "1",
        }

    def start(self, *words):
        return subprocess.Popen(
            [sys.executable, "-m", "fdl_cli", *words], cwd=self.folder, env=self.environ(),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def fdl(self, *words, code=0):
        """Run fdl with --json and return its document."""
        child = self.start(*words, "--json")
        output, errors = child.communicate(timeout=120)
        assert child.returncode == code, output + errors
        return json.loads(output)

    def setup(self, *words, code=0):
        return self.fdl("setup", "-y", "--index-url", f"{self.index.url}/whl", *words, code=code)

    def make_environment(self):
        venv.create(self.folder / ".venv", with_pip=False, symlinks=True)

    def python(self, code):
        """Run code in the project's environment."""
        interpreter = self.folder / ".venv" / "bin" / "python"
        done = subprocess.run(
            [interpreter, "-c", code], capture_output=True, text=True, check=False, timeout=60
        )
        return done.stdout.strip() or done.stderr

    def installed(self):
        return self.python("import torch; print(torch.__version__)")


@pytest.fixture
def index():
    from fake_torch import numpy_wheel, serve_index, tiny_wheel, torch_wheel

    with serve_index() as server:
        server.add(torch_wheel("2.12.1"), tiny_wheel(), numpy_wheel())
        yield server


@pytest.fixture
def project(tmp_path, index):
    folder = tmp_path / "project"
    folder.mkdir()
    made = Project(folder, tmp_path / "home", index)
    made.make_environment()
    return made
