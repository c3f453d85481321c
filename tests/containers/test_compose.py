"""Tasks through the real `docker compose`: what it can do more, and what fdl adds to it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.containers import host_made
from tests.containers.conftest import BASE

pytestmark = [pytest.mark.docker, pytest.mark.slow]

FDL = [sys.executable, "-P", "-m", "fdl_cli"]
UID = 12345
MANIFEST = """
env: {LEVEL: project}
commands:
  list: {run: [sh, -c, 'printf "%s\\001" "$@"', sh], docker: dev, forward: auto}
  spaced: {run: ['./my tool', a], docker: dev}
  id: {run: id -u; id -g; touch made, docker: dev}
  env: {run: env, docker: dev}
  where: {run: pwd, cwd: sub, docker: dev}
  code: {run: exit 7, docker: dev}
  cat: {run: [cat], docker: dev}
  both: {run: echo out; echo err >&2, docker: dev}
  secret: {run: cat /run/secrets/token, docker: dev}
  wait:
    run: trap 'echo got it; exit 9' INT TERM; echo ready; for i in $(seq 300); do sleep 0.1; done
    docker: dev
  stubborn: {run: "trap '' INT TERM; echo ready; for i in $(seq 600); do sleep 0.1; done", docker: dev}
"""
COMPOSE = """
services:
  dev:
    build: {context: ., network: host}
    network_mode: host
    user: "${FDL_UID:?run through fdl}:${FDL_GID}"
    working_dir: /workspace
    volumes: [{type: bind, source: ., target: /workspace}]
    secrets: [token]
secrets:
  token: {file: ./token.txt}
"""
DOCKERFILE = (
    f"FROM {BASE}\nRUN echo the-slow-layer\nWORKDIR /workspace\nCOPY source.txt /copied.txt\n"
)


@pytest.fixture
def project(tmp_path, engine):
    (tmp_path / "fdl.yml").write_text(MANIFEST)
    (tmp_path / "compose.yml").write_text(COMPOSE)
    (tmp_path / "Dockerfile").write_text(DOCKERFILE)
    (tmp_path / ".dockerignore").write_text("*\n!source.txt\n")
    (tmp_path / "source.txt").write_text("first\n")
    (tmp_path / "token.txt").write_text("hush\n")
    (tmp_path / "my tool").write_text('#!/bin/sh\necho "tool $1"\n')
    (tmp_path / "my tool").chmod(0o755)
    (tmp_path / "sub").mkdir()
    host_made.open_to_all(tmp_path)
    for path in (tmp_path, *tmp_path.rglob("*")):
        os.chown(path, UID, UID)
    return tmp_path


@pytest.fixture
def environ(engine, compose_plugin, tmp_path_factory):
    return {
        **os.environ, "DOCKER_HOST": engine, "FDL_IN_CONTAINER": "0", "HOME": str(compose_plugin),
        "PYTHONDONTWRITEBYTECODE": "1", "SECRET": "host",
        "XDG_STATE_HOME": str(tmp_path_factory.mktemp("state")),
    }  # fmt: skip


@pytest.fixture
def run(project, environ):
    def start(*words, cwd=None, prefix=(), **settings):
        settings.setdefault("stdin", subprocess.DEVNULL)
        if "input" in settings:
            del settings["stdin"]
        return subprocess.run(
            [*prefix, *FDL, *words], cwd=cwd or project, env=environ, capture_output=True,
            timeout=200, check=False, **settings,
        )  # fmt: skip

    return start


@pytest.fixture(autouse=True)
def _no_container_stays(engine):
    import docker

    api = docker.APIClient(base_url=engine)
    yield
    left = [item["Command"] for item in api.containers(all=True)]
    api.close()
    assert left == []


def test_what_only_compose_can_do(run):
    done = run("secret")
    assert done.stdout == b"hush\n", done.stderr.decode()


def test_a_build_is_shown_only_when_something_is_built(run, project):
    changed = DOCKERFILE.replace("the-slow-layer", f"a layer of {project.name}")
    (project / "Dockerfile").write_text(changed)
    first = run("both")
    assert first.stdout == b"out\n"
    assert b"a layer of" in first.stderr
    again = run("both")
    assert (again.stdout, again.stderr) == (b"out\n", b"err\n")
    (project / "Dockerfile").write_text(changed + "RUN echo before; exit 3\n")
    broken = run("both")
    assert (broken.returncode, broken.stdout) == (1, b"")
    assert b"error[build-failed]" in broken.stderr
    assert b"cannot be built: a step ended with exit code 3" in broken.stderr
    assert b"Dockerfile:" in broken.stderr
    assert b": RUN echo before; exit 3" in broken.stderr
    assert b"\x1b" not in broken.stderr


def test_arguments_streams_folders_and_codes(run, project):
    hard = [
        "a b",
        "'",
        '"',
        "$HOME",
        ";",
        "*",
        "a\nb",
        "",
        "--",
        "-v",
        "--env",
        "`x`",
        "\\",
        "é",
        "$$",
    ]
    done = run("list", "--", *hard)
    assert done.stdout.split(b"\1")[:-1] == [word.encode() for word in hard], done.stderr.decode()
    assert run("spaced").stdout == b"tool a\n"
    assert run("where", cwd=project / "sub").stdout == b"/workspace/sub\n"
    assert run("code").returncode == 7
    data = os.urandom(100_000)
    assert run("cat", input=data).stdout == data
    ran = json.loads(run("runs", "--json").stdout)["data"]["runs"]
    assert 7 in [each["exit_code"] for each in ran]


def test_the_environment_is_the_tasks_and_its_places_are_the_containers(run):
    lines = run("env").stdout.decode().splitlines()
    assert {"LEVEL=project", "FDL_ROOT=/workspace", "FDL_IN_CONTAINER=1"} <= set(lines)
    assert not [line for line in lines if line.startswith(("SECRET", "DOCKER_HOST"))]


def test_the_task_runs_as_the_caller(run, project, environ, compose_plugin, tmp_path_factory):
    home = tmp_path_factory.mktemp("home")  # docker writes there, as its user
    host_made.open_to_all(home)
    (home / ".docker").mkdir()
    (home / ".docker" / "cli-plugins").symlink_to(compose_plugin / ".docker" / "cli-plugins")
    for path in (home, home / ".docker"):
        os.chown(path, UID, UID)
    environ["HOME"] = str(home)
    done = run("id", prefix=host_made.as_user(UID))
    assert done.stdout.split() == [b"12345", b"12345"], done.stderr.decode()
    assert (project / "made").stat().st_uid == UID


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_reaches_the_task(run, project, environ, number):
    run("code")  # builds
    with subprocess.Popen(
        [*FDL, "wait"], cwd=project, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(number)
        assert process.stdout.read() == b"got it\n"
        assert process.wait(20) == 9


def test_a_second_signal_ends_what_ignores_the_first(run, project, environ):
    run("code")
    with subprocess.Popen(
        [*FDL, "stubborn"],
        cwd=project,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 137


def test_ctrl_c_reaches_everybody_on_a_terminal_and_no_container_stays(run, project, environ):
    """The shell's Ctrl-C goes to compose as well, which then leaves the container to itself."""
    import pty

    run("code")
    master, slave = pty.openpty()
    pid = os.fork()
    if pid == 0:  # a process whose terminal is the slave, with its output elsewhere: no raw mode
        os.close(master)
        os.login_tty(slave) if hasattr(os, "login_tty") else _login(slave)
        out = os.open(project / "out.txt", os.O_WRONLY | os.O_CREAT, 0o666)
        os.dup2(out, 1)
        os.chdir(project)
        os.execve(FDL[0], [*FDL, "wait"], environ)
    os.close(slave)
    deadline = time.monotonic() + 60
    while b"ready" not in _read(project / "out.txt") and time.monotonic() < deadline:
        time.sleep(0.2)
    os.write(master, b"\x03")
    _, status = os.waitpid(pid, 0)
    os.close(master)
    assert os.waitstatus_to_exitcode(status) == 9


def _read(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def _login(slave: int) -> None:
    import fcntl
    import termios

    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    for number in range(3):
        os.dup2(slave, number)
