"""What is asked of an engine, without one: contexts, compose command lines, errors told apart."""

import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from fdl_cli.containers.context import context_digest, context_files, needs_buildkit
from fdl_cli.containers.engine import ImageBuild
from fdl_cli.manifest.docker_tasks.services import find_service, pairs, require_understood
from fdl_cli.manifest.model import Change, Invocation, Stored

FDL = [sys.executable, "-P", "-m", "fdl_cli"]


def build(root, **settings):
    values = {"target": None, "args": (), "network": None, **settings}
    return ImageBuild(tag="t", context=root, dockerfile=root / "Dockerfile", **values)


@pytest.fixture
def context(tmp_path):
    (tmp_path / "Dockerfile").write_text("FROM scratch\nCOPY . /\n")
    (tmp_path / ".dockerignore").write_text("# only the source\n*\n!src\nsrc/*.log\n")
    (tmp_path / "src").mkdir()
    for name in ("src/a.py", "src/b.log", "secret.env"):
        (tmp_path / name).write_text(name)
    return tmp_path


def test_the_context_is_what_dockerignore_leaves(context):
    files = [name for name in context_files(build(context)) if (context / name).is_file()]
    assert "src/a.py" in files
    assert not {"src/b.log", "secret.env"} & set(files)


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        (lambda root: (root / "src" / "a.py").write_text("x"), True),
        (lambda root: (root / "src" / "new.py").write_text(""), True),
        (lambda root: (root / "src" / "a.py").chmod(0o755), True),
        (lambda root: (root / "Dockerfile").write_text("FROM scratch\nCOPY src /\n"), True),
        (lambda root: (root / "secret.env").write_text("x"), False),
        (lambda root: (root / "src" / "b.log").write_text("x"), False),
        (lambda root: os.utime(root / "src" / "a.py", (0, 0)), False),
    ],
    ids=["text", "new file", "mode", "Dockerfile", "not copied", "ignored", "time"],
)
def test_the_digest_follows_what_the_image_is_made_from(context, change, differs):
    before = context_digest(build(context))[0]
    change(context)
    assert (context_digest(build(context))[0] != before) is differs


def test_the_digest_follows_the_settings(context):
    digests = {
        context_digest(item)[0]
        for item in (
            build(context),
            build(context, target="dev"),
            build(context, args=(("TORCH", "cpu"),)),
            build(context, args=(("TORCH", "cu128"),)),
        )
    }
    assert len(digests) == 4


def test_without_copy_only_the_dockerfile_counts(context):
    (context / "Dockerfile").write_text("FROM scratch\nRUN true\n")
    assert context_files(build(context)) == ("Dockerfile",)


@pytest.mark.parametrize(
    ("line", "needed"),
    [
        ("RUN --mount=type=cache,target=/c pip install x", True),
        ("COPY --link a b", True),
        ("# RUN --mount=type=cache", False),
        ("RUN pip install x", False),
    ],
)
def test_buildkit_is_noticed(tmp_path, line, needed):
    (tmp_path / "Dockerfile").write_text(f"FROM scratch\n{line}\n")
    assert needs_buildkit(tmp_path / "Dockerfile") is needed


def test_services_of_the_manifest_and_of_compose(tmp_path):
    from fdl_cli.errors import ConfigError, EnvironmentLackingError

    stored = Stored(str(tmp_path), None, {"services": {"dev": {"image": "${I:-x}"}}}, "")
    assert find_service(stored, "dev", {}).settings == {"image": "x"}
    with pytest.raises(ConfigError) as caught:
        find_service(stored, "dve", {})
    assert "`dev`" in caught.value.hint
    bare = Stored(str(tmp_path), None, {}, "")
    with pytest.raises(ConfigError, match="described nowhere"):
        find_service(bare, "dev", {})
    (tmp_path / "compose.yml").write_text("services: {dev: {image: '${I:?set I}'}}")
    with pytest.raises(EnvironmentLackingError, match="set I"):
        find_service(bare, "dev", {})
    (tmp_path / "compose.yml").write_text("services: {dev: {image: x, secrets: [a]}}")
    with pytest.raises(ConfigError, match="`secrets`"):
        require_understood(find_service(bare, "dev", {}))
    (tmp_path / "compose.yml").write_text("services: {dev: [")
    with pytest.raises(ConfigError, match="not valid YAML"):
        find_service(bare, "dev", {})


def test_pairs():
    assert pairs(["A=1", "B=x=y"]) == (("A", "1"), ("B", "x=y"))
    assert pairs({"A": 1, "B": None, "C": False}) == (("A", "1"), ("B", ""), ("C", "false"))


def listening(path):
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen()
    return server


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """A docker program with the compose plugin that writes down how it was called."""
    tools = tmp_path / "tools"
    plugins = tmp_path / "home" / ".docker" / "cli-plugins"
    for folder in (tools, plugins):
        folder.mkdir(parents=True)
    program = tools / "docker"
    program.write_text(
        f"#!{sys.executable}\nimport json, os, sys\n"
        "print(json.dumps([sys.argv[1:], os.environ.get('FDL_UID')]))\nsys.exit(9)\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    (plugins / "docker-compose").write_text("")
    return {
        **os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "HOME": str(tmp_path / "home"),
        "FDL_IN_CONTAINER": "0",
    }  # fmt: skip


@pytest.mark.slow
def test_compose_is_used_where_it_exists(fake, tmp_path):
    import json

    root = tmp_path / "project"
    root.mkdir()
    (root / "fdl.yml").write_text(
        "commands: {t: {run: [prog, a], docker: dev, env: {A: '1 2'}, forward: auto}}\n"
    )
    (root / "compose.yml").write_text("services: {dev: {image: x, volumes: ['.:/w']}}")
    (root / "compose.gpu.yml").write_text("services: {dev: {}}")
    engine = Path("/tmp") / f"fdl-fake-{os.getpid()}.sock"
    answer = engine_answers(engine)
    try:
        done = subprocess.run(
            [*FDL, "t", "$x y", "--", "--rm"], cwd=root, capture_output=True, text=True,
            env={**fake, "DOCKER_HOST": f"unix://{engine}"}, check=False, timeout=60,
        )  # fmt: skip
    finally:
        answer.terminate()
        answer.wait(10)
        engine.unlink()
    assert done.returncode == 9, done.stderr
    words, uid = json.loads(done.stdout)
    assert uid == str(os.getuid())
    assert words[:2] == ["compose", f"--file={root}/compose.yml"]
    assert "compose.gpu.yml" not in " ".join(words)
    assert words[-5:] == ["prog", "dev", "a", "$x y", "--rm"]
    assert words[-6] == "--entrypoint"
    assert "-T" in words
    assert words[words.index("--workdir") + 1] == "/w"
    assert "A=1 2" in words


def engine_answers(path):
    """Start a process that answers as an engine without GPU does."""
    source = (
        "import http.server, socketserver, sys\n"
        "class H(http.server.BaseHTTPRequestHandler):\n"
        "    def do_GET(self):\n"
        '        body = b\'{"Version": "1", "ApiVersion": "1.43", "Runtimes": {}}\'\n'
        "        self.send_response(200)\n"
        "        self.send_header('Content-Length', str(len(body)))\n"
        "        self.end_headers()\n"
        "        self.wfile.write(body)\n"
        "    def do_POST(self): self.send_error(404)\n"
        "    def address_string(self): return ''\n"
        "    def log_message(self, *a): pass\n"
        "with socketserver.UnixStreamServer(sys.argv[1], H) as s:\n"
        "    print('ready', flush=True)\n    s.serve_forever()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", source, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n"
    process.stdout.close()
    return process


@pytest.mark.slow
@pytest.mark.parametrize("state", ["absent", "nobody", "silent"])
def test_what_is_missing_of_docker_is_told_apart(state, tmp_path, fake):
    (tmp_path / "fdl.yml").write_text(
        "services: {dev: {image: x}}\ncommands: {t: {run: x, docker: dev}}\n"
    )
    path = Path("/tmp") / f"fdl-none-{os.getpid()}.sock"
    server = None if state == "absent" else listening(path)
    if state == "nobody":
        server.close()
    done = subprocess.run(
        [*FDL, "t"], cwd=tmp_path, env={**fake, "DOCKER_HOST": f"unix://{path}"},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    if server is not None:
        server.close()
    path.unlink(missing_ok=True)
    expected = {"absent": "not-running", "nobody": "not-running", "silent": "timeout"}[state]
    assert f"error[docker-{expected}]" in done.stderr
    assert "fdl --native t" in done.stderr
    assert done.returncode == 5


def test_gpu_files_are_added_only_with_a_gpu(tmp_path):
    from fdl_cli.manifest.docker_tasks.compose import Compose

    (tmp_path / "compose.yml").write_text("services: {dev: {image: x}}")
    (tmp_path / "compose.gpu.yml").write_text("services: {dev: {}}")
    service = find_service(Stored(str(tmp_path), None, {}, ""), "dev", {})
    task = Invocation(("t",), ("a b",), "/", (Change("A", None, "x"),), "dev", None, "")
    with_gpu = Compose("docker", service, {}, gpus=True).run_command(task, "n", tty=True)
    without = Compose("docker", service, {}, gpus=False).run_command(task, "n", tty=False)
    assert f"--file={tmp_path}/compose.gpu.yml" in with_gpu
    assert f"--file={tmp_path}/compose.gpu.yml" not in without
    assert "-T" in without
    assert "-T" not in with_gpu
    assert without[without.index("--entrypoint") + 1] == "'a b'"
