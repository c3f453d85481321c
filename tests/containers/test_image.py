"""The image of fdl itself, from the top-level Dockerfile, built and used in a real engine.

No network: the image of Python and all packages are made from this machine (see `host_made`).
"""

import os
import subprocess
from pathlib import Path

import pytest

from tests.containers import host_made

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.torch]

ROOT = Path(__file__).parents[2]
UID = 12345
IMAGE = "fdl-tests/fdl:1"
SCRIPT = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.last = nn.Linear(8, 2)

    def forward(self, x):
        return self.last(torch.relu(self.first(x)))
"""


@pytest.fixture(scope="module")
def image(engine, python_image):
    import docker

    api = docker.APIClient(base_url=engine, timeout=500)
    # Requests stay open for as long as a step takes.
    lines = [
        line.get("stream", "") + line.get("error", "")
        for line in api.build(path=str(ROOT), tag=IMAGE, rm=True, decode=True)
    ]
    found = api.images(IMAGE)
    api.close()
    assert found, "".join(lines)[-4000:]
    return found[0]


@pytest.fixture
def run(engine, image, tmp_path):
    host_made.open_to_all(tmp_path)
    folder = tmp_path / "work"
    folder.mkdir()
    os.chown(folder, UID, UID)

    def start(*words, code=0):
        done = subprocess.run(
            [
                "docker", "-H", engine, "run", "--rm", "--network", "none",
                "--user", f"{UID}:{UID}", "-v", f"{folder}:/work",
                "-v", f"{host_made.site_packages()}:{host_made.HOST_SITE}:ro", IMAGE, *words,
            ],
            capture_output=True, text=True, timeout=200, check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        return done

    start.folder = folder
    return start


def test_it_ports_a_script_as_the_caller(run):
    from fdl_cli import __version__

    assert run("--version").stdout == f"fdl {__version__}\n"
    (run.folder / "model.py").write_text(SCRIPT)
    done = run("port", "model.py")
    assert "equal" in done.stdout + done.stderr
    ported = run.folder / "model_flodl.py"
    assert "def flow(self, x" in ported.read_text()
    assert ported.stat().st_uid == UID


def test_exit_codes_and_streams_pass_through(run):
    done = run("prot", code=2)
    assert done.stdout == ""
    assert done.stderr.startswith("error[command-unknown]")
    assert "Usage: fdl" in run().stdout


def test_what_is_in_it(engine, image, run):
    import docker

    api = docker.APIClient(base_url=engine)
    described = api.inspect_image(IMAGE)
    api.close()
    assert described["Config"]["User"] == "1000:1000"
    assert described["Config"]["Entrypoint"] == ["fdl"]
    done = run("api-ref", "FlowBuilder")
    assert "FlowBuilder" in done.stdout
    # Templates and skills came along, and so did the compiled files.
    code = "import fdl_cli, os; print(os.path.exists(fdl_cli.__cached__))"
    compiled = subprocess.run(
        [
            "docker", "-H", engine, "run", "--rm", "--network", "none", "--entrypoint", "python",
            IMAGE, "-c", code,
        ],
        capture_output=True, text=True, timeout=200, check=True,
    )  # fmt: skip
    assert compiled.stdout == "True\n"
    assert run("init", "proj", "--vcs", "none", "--json").stdout
    assert (run.folder / "proj" / "fdl.yml").stat().st_uid == UID
    assert "flodl-port" in run("skill", "list").stdout
