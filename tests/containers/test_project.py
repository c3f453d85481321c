"""A project from `fdl init --docker` is built in a real engine; its tasks run as the caller.

It installs torch into an image, so it takes minutes and needs package indexes and a Debian mirror:
FDL_TEST_NETWORK=1 asks for it.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.network, pytest.mark.torch]

ROOT = Path(__file__).parent.parent.parent
UID = 12345
IMAGE = "python:3.12-slim-bookworm"
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")


def call(*words, **settings):
    done = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, check=False, timeout=500,
        **settings,
    )  # fmt: skip
    assert done.returncode == 0, f"{words}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done


@pytest.fixture(scope="module")
def python_image(engine, tmp_path_factory):
    """Import Debian with Python under the name that the project's Dockerfile begins from."""
    import docker

    if shutil.which("debootstrap") is None:
        pytest.skip("debootstrap is not installed")
    root = tmp_path_factory.mktemp("debian") / "root"
    packages = "--include=python3,python3-venv,python3-pip,ca-certificates"
    call("debootstrap", "--variant=minbase", packages, "bookworm", root)
    (root / "usr" / "local" / "bin" / "python").symlink_to("/usr/bin/python3")
    call("tar", "-C", root, "-cf", root.with_suffix(".tar"), ".")
    api = docker.APIClient(base_url=engine, timeout=300)
    name, _, tag = IMAGE.partition(":")
    changes = ["ENV PIP_NO_INDEX=1"]
    with root.with_suffix(".tar").open("rb") as file:
        api.import_image_from_data(file.read(), repository=name, tag=tag, changes=changes)
    api.close()


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Make a project whose image can be built without network: its wheels are beside it."""
    root = tmp_path_factory.mktemp("made") / "proj"
    for parent in root.parents:
        if str(parent) not in ("/", "/tmp"):
            parent.chmod(parent.stat().st_mode | 0o055)
    fdl = (sys.executable, "-P", "-m", "fdl_cli")
    call(*fdl, "init", "proj", "--docker", "--vcs", "none", cwd=root.parent)
    vendor = root / "vendor"
    vendor.mkdir()
    words = ("-m", "build", "--wheel", "--no-isolation", "--outdir", vendor)
    call(sys.executable, *words, ROOT)
    (wheel,) = vendor.glob("flodl-*.whl")
    versions = ("--python-version", "3.11", "--only-binary=:all:")
    wanted = ("torch", "hatchling", "pytest", "ruff", "mypy", "setuptools", wheel)
    pins = ("-c", ROOT / "constraints.txt")
    call(*PIP, "download", "-q", "-d", vendor, *versions, *pins, *wanted, cwd=vendor)
    for path in (root, *root.rglob("*")):
        os.chown(path, UID, UID)
    return root


@pytest.fixture
def run(engine, python_image, project):
    def start(*words):
        environ = {
            **os.environ, "DOCKER_HOST": engine, "FDL_IN_CONTAINER": "0", "HOME": "/nonexistent",
            "PYTHONDONTWRITEBYTECODE": "1",
        }  # fmt: skip
        # The caller is no root, and may still read this Python.
        user = (
            "setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups",
            "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search",
        )  # fmt: skip
        return call(*user, sys.executable, "-P", "-m", "fdl_cli", *words, cwd=project, env=environ)

    return start


def test_it_trains_and_tests_itself_in_its_containers(run, project):
    assert run("shell", "-c", "id -u; pwd").stdout == f"{UID}\n/workspace\n"
    tested = run("test", "-q").stdout
    assert " passed" in tested
    assert "failed" not in tested
    run("train", "train.epochs=1")
    (made,) = (project / "runs").iterdir()
    assert {made.stat().st_uid, *(path.stat().st_uid for path in made.rglob("*"))} == {UID}
    with (project / "src" / "proj" / "model.py").open("a") as file:
        file.write("# edited\n")
    steps = run("train", "train.epochs=1").stderr.split("Step ")
    built = [step.splitlines()[0] for step in steps[1:] if "Using cache" not in step]
    assert any("COPY --chown=1000:1000 src" in step for step in built)
    assert not any("pip install" in step or "configs" in step for step in built)
