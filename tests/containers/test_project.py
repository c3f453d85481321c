"""Projects from `fdl init` in a real engine, by a tool that was installed from its wheel.

The tasks of `fdl init --docker` run in services, as the caller. A plain project is set up inside a
container by `fdl -y train`.

No network: the image of Python and all packages are made from this machine (see `host_made`), and
this machine's torch is mounted into the containers. What is built, run and tested is the project.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.containers import host_made

pytestmark = [
    pytest.mark.docker,
    pytest.mark.slow,
    pytest.mark.torch,
    pytest.mark.timeout(600),
]

UID = 12345


def environ(**changed: str) -> dict[str, str]:
    """Return an environment in which a tool from a wheel does not find the sources of this checkout."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return kept | changed


@pytest.fixture(scope="module")
def project(tmp_path_factory, tool):
    """Make a project whose services see this machine's torch."""
    root = tmp_path_factory.mktemp("made") / "proj"
    host_made.open_to_all(root)
    command = [tool, "init", "proj", "--docker", "--vcs", "none"]
    subprocess.run(command, cwd=root.parent, env=environ(), check=True, capture_output=True)
    compose = root / "compose.yml"
    mount = f"      - {host_made.site_packages()}:{host_made.HOST_SITE}:ro\n"
    text = compose.read_text()
    assert text.count("      - .:/workspace\n") == 2
    compose.write_text(text.replace("      - .:/workspace\n", f"      - .:/workspace\n{mount}"))
    for path in (root, *root.rglob("*")):
        os.chown(path, UID, UID)
    return root


@pytest.fixture
def run(engine, python_image, project, tool):
    def start(*words, code=0):
        variables = environ(
            DOCKER_HOST=engine,
            FDL_IN_CONTAINER="0",
            HOME="/nonexistent",
            PYTHONDONTWRITEBYTECODE="1",
        )
        # The caller is no root.
        done = subprocess.run(
            [*host_made.as_user(UID), tool, *words], cwd=project, env=variables,
            capture_output=True, text=True, timeout=230, check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stdout[-3000:] + done.stderr[-3000:]
        return done

    return start


def owners(folder: Path) -> set[int]:
    return {folder.stat().st_uid, *(path.stat().st_uid for path in folder.rglob("*"))}


def test_a_shell_is_the_caller_in_the_project(run):
    assert run("shell", "-c", "id -u; pwd").stdout == f"{UID}\n/workspace\n"
    run("shell", "-c", "exit 7", code=7)


def test_it_trains_and_its_files_are_the_callers(run, project):
    run("train", "train.epochs=1", "data.samples=128")
    (made,) = (project / "runs").iterdir()
    assert any((made / "metrics").iterdir())
    assert owners(made) == {UID}
    # An edit of the source is one layer, not an installation.
    with (project / "src" / "proj" / "model.py").open("a") as file:
        file.write("\n\n# edited\n")
    steps = run("train", "train.epochs=1", "data.samples=128").stderr.split("Step ")
    built = [step.splitlines()[0] for step in steps[1:] if "Using cache" not in step]
    assert any("COPY --chown=1000:1000 src" in step for step in built)
    assert not any("pip install" in step or "configs" in step for step in built)


def test_it_tests_itself(run):
    tested = run("test", "-q", "-p", "no:cacheprovider").stdout
    assert " passed" in tested
    assert "failed" not in tested


def test_index_that_cannot_be_read_fails_the_build_in_words(run, project):
    """The image of the test offers wheels at /wheels; without them only the index is left."""
    dockerfile = project / "Dockerfile"
    text = dockerfile.read_text()
    lonely = "ENV PIP_NO_INDEX= PIP_FIND_LINKS= PIP_RETRIES=1 PIP_TIMEOUT=2\n"
    changed = text.replace("ARG TORCH=cpu\n", f"ARG TORCH=cpu\n{lonely}")
    assert changed != text
    dockerfile.write_text(changed)
    try:
        said = run("shell", "-c", "true", code=1).stderr
    finally:
        dockerfile.write_text(text)
    (error,) = [line for line in said.splitlines() if line.startswith("error[build-failed]")]
    assert "Temporary failure in name resolution" in error
    assert "/whl/cpu/torch/" in error
    assert "No matching distribution found for torch>=2.6" in said
    (hint,) = [line for line in said.splitlines() if line.startswith("  hint:")]
    assert "the build cannot reach that address" in hint
    assert "TORCH_INDEX" in hint
    assert "cuda" not in said.lower()
    assert "\x1b" not in said


def docker(engine, command, cwd):
    """Run a line of shell whose containers see this machine's torch and no network."""
    seen = f"--network none --volume {host_made.site_packages()}:{host_made.HOST_SITE}:ro"
    done = subprocess.run(
        ["bash", "-e", "-c", command.replace("docker run", f"docker run {seen}")], cwd=cwd,
        env=environ(DOCKER_HOST=engine), capture_output=True, text=True, timeout=230, check=False,
    )  # fmt: skip
    assert done.returncode == 0, command + done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_workflow_of_images_passes_step_by_step(engine, python_image, project):
    workflow = yaml.safe_load((project / ".github" / "workflows" / "docker.yml").read_text())
    (job,) = workflow["jobs"].values()
    steps = [step["run"] for step in job["steps"] if "run" in step]
    assert [step.split()[1] for step in steps] == ["build", "build", "run", "run"]
    *_, tested, trained = [docker(engine, step, project) for step in steps]
    assert " passed" in tested
    assert "epoch 1/1" in trained


def test_devcontainer_tests_and_trains_the_project(engine, python_image, project, tmp_path):
    # The usual user of a desk; for any other one, an editor changes the number of `app`.
    folder = tmp_path / "proj"
    shutil.copytree(project, folder, ignore=shutil.ignore_patterns("runs"))
    host_made.open_to_all(folder)
    for path in (folder, *folder.rglob("*")):
        os.chown(path, 1000, 1000)
    config = json.loads((folder / ".devcontainer" / "devcontainer.json").read_text())
    build = config["build"]
    docker(
        engine,
        f"docker build --file {build['dockerfile']} --target {build['target']} "
        f"--tag proj-devcontainer {build['context']}",
        folder / ".devcontainer",
    )
    # What an editor does with these fields.
    mount = config["workspaceMount"].replace("${localWorkspaceFolder}", str(folder))
    start = [
        "docker run --rm", *config["runArgs"], "--mount", mount, "--workdir",
        config["workspaceFolder"], "--user", config["remoteUser"], "proj-devcontainer",
    ]  # fmt: skip
    for task, said in (
        ("check", " passed"),
        ("train train.epochs=1 data.samples=64", "epoch 1/1"),
    ):
        assert said in docker(engine, f"{' '.join(start)} fdl {task}", folder)
    (run,) = (folder / "runs").iterdir()
    assert owners(run) == {1000}


SCRIPT = """
set -e
# Debian's Python makes no pip.
python -m venv --without-pip tool
set -- /own/others/pip-*.whl /own/flodl-*.whl
python "$1/pip" --python tool/bin/python install -q pip "$2[cli]"
PATH=$PWD/tool/bin:$PATH
fdl init my-proj --vcs none
cd my-proj
# This machine's torch, as links: nothing large is copied.
python -m venv --without-pip .venv
for name in LINKS; do
    ln -s "/host-site/$name" .venv/lib/python*/site-packages/
done
code=0
fdl train train.epochs=1 </dev/null || code=$?
test $code = 7
test ! -e .venv/fdl-project.json
fdl -y train train.epochs=1 data.samples=64
fdl test -q -p no:cacheprovider
# The proof of the torch that is there; its build may be one for a GPU.
fdl setup -y --variant VARIANT
echo =====
fdl setup --variant VARIANT --json
"""


def test_wheel_in_a_fresh_container_trains_and_tests_a_new_project(
    engine, python_image, wheels, tmp_path
):
    links = " ".join(host_made.linked_packages())
    script = SCRIPT.replace("LINKS", links).replace("VARIANT", host_made.torch_variant())
    folder = tmp_path / "work"
    folder.mkdir()
    host_made.open_to_all(folder)
    os.chown(folder, UID, UID)
    done = subprocess.run(
        [
            "docker", "-H", engine, "run", "--rm", "--network", "none", "--user", f"{UID}:{UID}",
            "-v", f"{folder}:/work", "-w", "/work", "-e", "HOME=/work", "-e", "OMP_NUM_THREADS=1",
            "-v", f"{wheels}:/own:ro",
            "-v", f"{host_made.site_packages()}:{host_made.HOST_SITE}:ro",
            python_image, "sh", "-c", script,
        ],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "hint: `fdl -y train train.epochs=1` sets the project up first" in done.stderr
    trained, _, answer = done.stdout.partition("=====\n")
    assert "epoch 1/1" in trained
    data = json.loads(answer)["data"]
    assert (data["changed"], data["actions"]) == (False, [])
    assert " passed" in done.stdout
    assert "failed" not in done.stdout
    (run,) = (folder / "my-proj" / "runs").iterdir()
    assert any((run / "checkpoints").glob("*.fdl"))
    assert owners(run) == {UID}
