"""Tasks in a real Docker engine: the caller's files, streams, signals and exit codes."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from multiprocessing.connection import wait
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytestmark = [pytest.mark.docker, pytest.mark.slow]

FDL = [sys.executable, "-P", "-m", "fdl_cli"]
UID = 12345
BASE = "fdl-tests/base:1"
MANIFEST = """
services:
  dev: {build: {context: ., network: host}, network_mode: host}
  big: {image: fdl-tests/base:1, network_mode: host, shm_size: 96m}
  missing: {image: fdl-tests/no-such:1, network_mode: host}
env: {LEVEL: project}
commands:
  args: {run: 'printf "%s\\n" "$#"; for a in "$@"; do printf "%s" "$a"; printf "\\001"; done', docker: dev}
  list: {run: [sh, -c, 'printf "%s\\001" "$@"', sh], docker: dev, forward: auto}
  id: {run: id -u; id -g; touch made, docker: dev}
  env: {run: env, docker: dev}
  where: {run: pwd, cwd: sub, docker: dev}
  code: {run: exit 7, docker: dev}
  die: {run: kill -KILL $$, docker: dev}
  wait:
    run: trap 'echo got it; exit 9' INT TERM; echo ready; for i in $(seq 300); do sleep 0.1; done
    docker: dev
  stubborn: {run: [sleep, '60'], docker: dev}
  cat: {run: [cat], docker: dev}
  both: {run: echo out; echo err >&2, docker: dev}
  # A container learns its terminal's size a moment after its start.
  tty: {run: 'sleep 0.5; test -t 0 && test -t 1 && echo terminal && stty size || echo none', docker: dev}
  shm: {run: df -k /dev/shm, docker: dev}
  shm-big: {run: df -k /dev/shm, docker: big}
  many: {run: seq 1000000, docker: dev}
  missing: {run: 'true', docker: missing}
  copied: {run: cat /copied/source.txt, docker: dev}
"""
DOCKERFILE = f"""FROM {BASE}
RUN echo the-slow-layer
WORKDIR /copied
COPY source.txt /copied/source.txt
WORKDIR /workspace
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory, engine):
    root = tmp_path_factory.mktemp("project")
    (root / "fdl.yml").write_text(MANIFEST)
    (root / "Dockerfile").write_text(DOCKERFILE)
    (root / ".dockerignore").write_text("*\n!source.txt\n")
    (root / "source.txt").write_text("first\n")
    (root / "sub").mkdir()
    for folder in (root, root / "sub"):
        os.chown(folder, UID, UID)
    for parent in root.parents:
        if parent.owner() == "root" and str(parent) not in ("/", "/tmp"):
            parent.chmod(parent.stat().st_mode | 0o055)
    return root


@pytest.fixture
def environ(engine, project):
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    # Another user needs folders of its own for caches and records.
    return {
        **kept, "DOCKER_HOST": engine, "FDL_IN_CONTAINER": "0", "HOME": "/nonexistent",
        "SECRET": "host", "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip


# Another user who may still read this Python, wherever it is installed.
AS_USER = (
    "setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups",
    "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search",
)  # fmt: skip


@pytest.fixture
def run(project, environ):
    def start(*words, cwd=None, prefix=(), **settings):
        settings.setdefault("stdin", subprocess.DEVNULL)
        if "input" in settings:
            del settings["stdin"]
        return subprocess.run(
            [*prefix, *FDL, *words], cwd=cwd or project, env=environ, capture_output=True,
            timeout=120, check=False, **settings,
        )  # fmt: skip

    return start


@pytest.fixture(autouse=True)
def _nothing_stays(engine):
    import docker

    api = docker.APIClient(base_url=engine)
    yield
    left = [item["Command"] for item in api.containers(all=True)]
    api.close()
    assert left == []


def received(done):
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.split(b"\1")[:-1]


def test_the_image_is_built_once_and_again_only_for_a_change(run, project):
    first = run("copied")
    assert first.stdout == b"first\n", first.stderr.decode()
    assert b"the-slow-layer" in first.stderr
    again = run("copied")
    assert (again.stdout, again.stderr) == (b"first\n", b"")
    (project / "ignored.txt").write_text("not in the context")
    assert run("copied").stderr == b""
    (project / "source.txt").write_text("second\n")
    changed = run("copied")
    assert changed.stdout == b"second\n"
    steps = changed.stderr.decode().split("Step ")
    cached = [step.split("\n")[0] for step in steps if "Using cache" in step]
    assert any("the-slow-layer" in step for step in cached)
    assert not any("COPY" in step for step in cached)


def test_the_task_runs_as_the_caller_and_its_files_are_the_callers(run, project):
    done = run("id", prefix=AS_USER)
    assert done.stdout.split() == [b"12345", b"12345"], done.stderr.decode()
    status = (project / "made").stat()
    assert (status.st_uid, status.st_gid) == (UID, UID)


def test_the_hard_arguments_arrive(run):
    hard = ["a b", "'", '"', "$HOME", ";", "*", "a\nb", "", "--", "-v", "--env", "`x`", "\\", "é"]
    assert received(run("list", "--", *hard)) == [word.encode() for word in hard]
    done = run("args", "--", *hard)
    assert done.stdout.split(b"\n", 1)[0] == str(len(hard)).encode()
    assert done.stdout.split(b"\n", 1)[1].split(b"\1")[:-1] == [word.encode() for word in hard]


@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.text(st.characters(exclude_characters="\0\1", codec="utf-8"), max_size=12),
        min_size=8,
        max_size=30,
    )
)
def test_arguments_arrive_byte_for_byte(run, words):
    assert received(run("list", "--", *words)) == [word.encode() for word in words]


def test_exit_codes_pass_through(run):
    assert run("code").returncode == 7
    assert run("die").returncode == 137
    assert run("run", "--wait", "code").returncode == 7


def test_streams_stay_apart_and_input_ends(run):
    done = run("both")
    assert (done.stdout, done.stderr) == (b"out\n", b"err\n")
    data = os.urandom(300_000)
    assert run("cat", input=data).stdout == data
    assert run("cat").stdout == b""


def test_the_environment_is_the_manifests_and_not_the_hosts(run):
    lines = run("env").stdout.decode().splitlines()
    assert "LEVEL=project" in lines
    assert "FDL_ROOT=/workspace" in lines
    assert "FDL_IN_CONTAINER=1" in lines
    assert not [line for line in lines if line.startswith(("SECRET", "DOCKER_HOST", "VIRTUAL"))]


def test_folders_are_mapped(run, project):
    assert run("where", cwd=project / "sub").stdout == b"/workspace/sub\n"


def test_shared_memory(run):
    def size(done):
        return int(re.search(rb"\s(\d+)\s", done.stdout.splitlines()[-1])[1])

    assert size(run("shm")) == 2 * 1024 * 1024
    assert size(run("shm-big")) == 96 * 1024


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_reaches_the_task(project, environ, number):
    with subprocess.Popen(
        [*FDL, "wait"], cwd=project, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(number)
        assert process.stdout.read() == b"got it\n"
        assert process.wait(20) == 9


def test_a_second_signal_ends_what_ignores_the_first(project, environ, engine):
    import docker

    api = docker.APIClient(base_url=engine)
    process = subprocess.Popen(
        [*FDL, "stubborn"], cwd=project, env=environ, stdin=subprocess.DEVNULL
    )
    while not api.containers():
        time.sleep(0.1)
    api.close()
    started = time.monotonic()
    process.send_signal(signal.SIGINT)
    time.sleep(1)
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    assert process.wait(20) in (130, 137)
    assert time.monotonic() - started < 8


def test_a_reader_that_leaves_ends_the_container(project, environ):
    line = f"{sys.executable} -P -m fdl_cli many | head -n 2; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", line], cwd=project, env=environ, capture_output=True, check=True, timeout=60
    )
    assert done.stdout == b"1\n2\n141\n"
    assert b"Traceback" not in done.stderr


def read_terminal(master, until, seconds=60):
    written = b""
    deadline = time.monotonic() + seconds
    while until not in written and time.monotonic() < deadline:
        if wait([master], 0.5):
            try:
                written += os.read(master, 4096)
            except OSError:
                break
    return written


def test_a_terminal_only_where_there_is_one(run, project, environ):
    assert run("tty").stdout == b"none\n"
    master, slave = pty.openpty()
    import fcntl
    import struct
    import termios

    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 77, 0, 0))
    process = subprocess.Popen(
        [*FDL, "tty"], cwd=project, env=environ, stdin=slave, stdout=slave, stderr=slave
    )
    os.close(slave)
    written = read_terminal(master, b"33 77")
    assert process.wait(30) == 0
    os.close(master)
    assert b"terminal\r\n33 77" in written


def test_ctrl_c_on_a_terminal_stops_the_task(project, environ):
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [*FDL, "wait"], cwd=project, env=environ, stdin=slave, stdout=slave, stderr=slave
    )
    os.close(slave)
    assert b"ready" in read_terminal(master, b"ready")
    os.write(master, b"\x03")
    assert b"got it" in read_terminal(master, b"got it")
    assert process.wait(30) == 9
    os.close(master)


def test_an_image_that_cannot_be_fetched_or_built(run, project):
    done = run("missing")
    assert done.returncode == 1
    assert b"error[pull-failed]" in done.stderr
    old = (project / "Dockerfile").read_text()
    (project / "Dockerfile").write_text(f"{old}RUN echo before; exit 3\n")
    try:
        done = run("code")
    finally:
        (project / "Dockerfile").write_text(old)
    assert done.returncode == 1
    assert b"error[build-failed]" in done.stderr
    assert b"cannot be built: a step ended with exit code 3" in done.stderr
    number = old.count("\n") + 1
    assert f"cause: {project}/Dockerfile:{number}: RUN echo before; exit 3".encode() in done.stderr
    assert b"cause: before" in done.stderr
    assert f"hint: correct `{project}/Dockerfile:{number}`".encode() in done.stderr


def test_a_run_is_recorded_with_its_exit_code(run, environ, tmp_path):
    environ["XDG_STATE_HOME"] = str(tmp_path)
    run("code")
    data = json.loads(run("runs", "--json").stdout)["data"]["runs"]
    assert (data[0]["exit_code"], data[0]["service"]) == (7, "dev")


def test_a_compose_file_is_understood_without_compose(run, engine, tmp_path, environ):
    (tmp_path / "fdl.yml").write_text(
        "torch: cu128\ncommands: {show: {run: cat /variant; pwd; id -u, docker: dev}}\n"
    )
    (tmp_path / "Dockerfile").write_text(
        f"FROM {BASE}\nARG TORCH=none\nRUN echo $TORCH > /variant\n"
    )
    compose = (
        "services:\n  dev:\n    build: {context: ., network: host}\n    network_mode: host\n"
        '    user: "${FDL_UID:?run through fdl}:${FDL_GID}"\n    volumes: [".:/code"]\n'
        "    shm_size: 64m\n    tty: true\n"
    )
    (tmp_path / "compose.yml").write_text(compose)
    done = run("show", cwd=tmp_path)
    assert done.stdout == b"cu128\n/code\n0\n", done.stderr.decode()
    (tmp_path / "compose.yml").write_text(compose + "    secrets: [a]\n")
    done = run("show", cwd=tmp_path)
    assert done.returncode == 3
    assert b"error[compose-needed]" in done.stderr
    assert b"`secrets`" in done.stderr


def test_permission_is_told_apart(run, engine, environ, tmp_path):
    path = Path(engine.removeprefix("unix://"))
    path.chmod(0o600)
    try:
        done = run("code", prefix=AS_USER)
    finally:
        path.chmod(0o666)
    assert done.returncode == 5
    assert b"error[docker-permission]" in done.stderr
    assert b"usermod" in done.stderr
