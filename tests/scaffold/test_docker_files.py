"""The Docker files of a project keep the rules of hadolint, dockle and Compose that apply here."""

import itertools
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from fdl_cli.scaffold.answers import make_answers
from fdl_cli.scaffold.rendering import render

FILES = {file.path: file.text for file in render(make_answers("my-proj", docker=True))}
HADOLINT = Path(sys.executable).parent / "hadolint"
DOCKERED = [
    {"with_hf": hf, "bare": bare} for hf, bare in itertools.product((False, True), repeat=2)
]
REPLACED = {"ADD": "DL3020", "MAINTAINER": "DL4000"}
ONCE = {"CMD": "DL4003", "ENTRYPOINT": "DL4004", "HEALTHCHECK": "DL3012"}
SHELL_OPERATORS = re.compile(r"(?<!\|)\|(?!\|)")


def instructions(text):
    """Return (word, rest) of each instruction, with continued lines joined."""
    joined = re.sub(r"\\\n\s*", "", "\n".join(
        line for line in text.splitlines() if not line.lstrip().startswith("#")
    ))  # fmt: skip
    return [line.split(maxsplit=1) for line in joined.splitlines() if line.strip()]


def stages(text):
    found = []
    for word, rest in instructions(text):
        if word == "FROM":
            found.append((rest, []))
        elif found:
            found[-1][1].append((word, rest))
    return found


def problems(text):
    """Yield the hadolint rules that a Dockerfile breaks."""
    names = set()
    for source, body in stages(text):
        image, _, name = source.partition(" AS ")
        if image.startswith("$") or image in names:
            pass
        elif ":" not in image:
            yield "DL3006"
        elif image.endswith(":latest"):
            yield "DL3007"
        names.add(name)
        words = [word for word, _ in body]
        yield from (rule for word, rule in ONCE.items() if words.count(word) > 1)
        users = [rest for word, rest in body if word == "USER"]
        if users and users[-1] in ("root", "0", "0:0"):
            yield "DL3002"
        yield from stage_problems(body)
        previous = ("", "")
        for word, rest in body:
            if word == "RUN" == previous[0]:
                yield "DL3059"
            previous = (word, rest)


def stage_problems(body):
    for word, rest in body:
        if word == "USER" and not re.fullmatch(r"\d+(:\d+)?", rest):
            yield "DL3066"
        if word == "WORKDIR" and not rest.startswith("/"):
            yield "DL3000"
        if word in ("CMD", "ENTRYPOINT") and not rest.startswith("["):
            yield "DL3025"
        if word in REPLACED:
            yield REPLACED[word]
        if word in ("ENV", "ARG") and re.search(r"(?i)(password|secret|token|api_?key)", rest):
            yield "DL3064"
        if word == "COPY" and len(rest.split()) > 3 and not rest.endswith("/"):
            yield "DL3021"
        if word == "RUN":
            yield from shell_problems(rest)


def shell_problems(command):
    if re.search(r"\bsudo\b", command):
        yield "DL3004"
    if re.search(r"\bcd\b", command):
        yield "DL3003"
    if re.search(r"\bapt(-get)? (upgrade|dist-upgrade)", command):
        yield "DL3005"
    if re.search(r"\bapt(-get)? install(?!.*--no-install-recommends)", command):
        yield "DL3015"
    if re.search(r"\bapt-get install\b(?!.*=)", command):
        yield "DL3008"
    if SHELL_OPERATORS.search(command) and "pipefail" not in command:
        yield "DL4006"
    if "useradd" in command and "--no-log-init" not in command and "-l" not in command.split():
        yield "DL3046"
    for install in re.findall(r"pip install ([^&]*)", command):
        wanted = [
            item.strip('"')
            for item in re.sub(r"--[\w-]+-(links|url) \S+", "", install).split()
            if not item.startswith("-")
        ]
        if any("==" not in item and not item.startswith(".") for item in wanted):
            yield "DL3013"


def test_the_dockerfile_breaks_no_rule():
    text = FILES["Dockerfile"]
    assert list(problems(text)) == []
    # hadolint wants --no-cache-dir on every pip install, or the variable that means it.
    assert "PIP_NO_CACHE_DIR=1" in text


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("FROM ${PYTHON_IMAGE} AS base", "FROM python AS base", "DL3006"),
        ("FROM ${PYTHON_IMAGE} AS base", "FROM python:latest AS base", "DL3007"),
        ("USER 1000:1000", "USER app", "DL3066"),
        ("USER 1000:1000", "USER 0", "DL3002"),
        ("WORKDIR /workspace", "WORKDIR workspace", "DL3000"),
        ('CMD ["bash"]', "CMD bash", "DL3025"),
        ("--no-log-init ", "", "DL3046"),
        ("COPY --chown=1000:1000 src ./src", "ADD src ./src", "DL3020"),
        ('"${TORCH_INDEX}" . ', '"${TORCH_INDEX}" torch ', "DL3013"),
        ("WORKDIR /workspace", "WORKDIR /workspace\nRUN curl x | sh", "DL4006"),
        ("ARG TORCH=cpu", "ARG TORCH=cpu\nENV API_KEY=1", "DL3064"),
    ],
)
def test_every_rule_finds_its_violation(old, new, rule):
    text = FILES["Dockerfile"]
    assert old in text
    assert rule in list(problems(text.replace(old, new)))


def test_stages_end_as_a_user_that_is_not_root_and_build_in_the_right_order():
    found = {name.partition(" AS ")[2]: body for name, body in stages(FILES["Dockerfile"])}
    assert list(found) == ["base", "deps", "train", "deps-dev", "dev"]
    for name in ("dev", "train"):
        assert ("USER", "1000:1000") in [tuple(item) for item in found[name]]
    assert "HEALTHCHECK" in [word for word, _ in found["train"]]
    copied = [rest for name in ("base", "deps") for word, rest in found[name] if word == "COPY"]
    assert not any(" src" in rest for rest in copied), "the source comes after the dependencies"
    assert "--mount" not in FILES["Dockerfile"], "an engine without BuildKit must build it"


def test_torch_comes_from_the_index_of_its_build_alone():
    """pip passes over an extra index that it cannot read, and would take torch with CUDA from PyPI."""
    ((_, body),) = [
        stage for stage in stages(FILES["Dockerfile"]) if stage[0].endswith(" AS deps")
    ]
    (command,) = [rest for word, rest in body if word == "RUN"]
    installs = re.findall(r"pip install ([^&]*)", command)
    assert "--requirement=torch.txt" in installs[0]
    assert "--extra-index-url" not in installs[0]
    assert '--index-url "${TORCH_INDEX}"' in installs[0]


@pytest.mark.parametrize("hf", [False, True])
def test_torch_is_read_from_the_project(hf, tmp_path):
    files = {
        file.path: file.text for file in render(make_answers("my-proj", docker=True, with_hf=hf))
    }
    line = re.search(r"python -c '(.*)' > torch.txt", files["Dockerfile"])
    (tmp_path / "pyproject.toml").write_text(files["pyproject.toml"])
    printed = subprocess.run(
        [sys.executable, "-c", line[1]], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert printed.stdout == "torch>=2.6\n"


def test_compose_is_for_every_machine_and_the_gpu_is_apart():
    plain, gpu = (yaml.safe_load(FILES[name]) for name in ("compose.yml", "compose.gpu.yml"))
    assert "version" not in plain
    for name, service in plain["services"].items():
        assert service["init"] is True
        assert service["user"].startswith("${FDL_UID:?")
        assert "FDL_GID" in service["user"]
        assert service["shm_size"] == "2gb"
        assert "tty" not in service
        assert "deploy" not in service
        assert service["build"]["target"] == name
        reserved = gpu["services"][name]["deploy"]["resources"]["reservations"]["devices"]
        assert reserved[0]["capabilities"] == ["gpu"]


def test_only_what_is_copied_reaches_the_engine():
    lines = [x for x in FILES[".dockerignore"].splitlines() if not x.startswith("#")]
    assert lines[0] == "*"
    allowed = {line[1:] for line in lines if line.startswith("!")}
    copied = {
        source
        for word, rest in instructions(FILES["Dockerfile"])
        if word == "COPY"
        for source in rest.split()[:-1]
        if not source.startswith("--")
    }
    assert {source.replace("vendo[r]", "vendor") for source in copied} == allowed


def test_tasks_name_services_that_exist():
    tasks = yaml.safe_load(FILES["fdl.yml"])["commands"]
    services = set(yaml.safe_load(FILES["compose.yml"])["services"])
    assert {task["docker"] for task in tasks.values()} == services
    native = yaml.safe_load({f.path: f.text for f in render(make_answers("p"))}["fdl.yml"])
    assert not any("docker" in task for task in native["commands"].values())


def test_the_devcontainer_is_json_on_the_dev_target():
    document = json.loads(FILES[".devcontainer/devcontainer.json"])
    assert document["build"]["target"] == "dev"
    assert document["hostRequirements"]["gpu"] == "optional"


@pytest.mark.skipif(not HADOLINT.exists(), reason="hadolint has no package for this platform")
@pytest.mark.parametrize("wishes", DOCKERED, ids=str)
def test_hadolint_itself_finds_nothing_in_any_combination(tmp_path, wishes):
    for file in render(make_answers("my-proj", docker=True, **wishes)):
        (tmp_path / file.path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file.path).write_text(file.text)
    done = subprocess.run(
        [HADOLINT, "--no-color", "--config", ".hadolint.yaml", "Dockerfile"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "")
