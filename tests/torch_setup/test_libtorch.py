"""Builds side by side: listed, switched in an instant, removed only where they belong."""

import sys

import pytest
from fake_torch import torch_wheel

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        sys.version_info[:2] != (3, 11), reason="the fake wheels are for Python 3.11"
    ),
]


@pytest.fixture
def two(project):
    """A project with 2.12.1 active and 2.13.0 kept beside it."""
    project.setup()
    project.index.add(torch_wheel("2.13.0"))
    source = ("--index-url", f"{project.index.url}/whl")
    document = project.fdl("libtorch", "download", *source, "--torch", "2.13.0")
    assert document["data"]["install"] == "fdl libtorch activate 2.13.0+cpu-py3.11"
    assert project.installed() == "2.12.1+cpu"
    project.index.wheels.clear()
    return project


def active(project):
    rows = project.fdl("libtorch", "list")["data"]["builds"]
    return {row["name"]: row["active"] for row in rows}


def test_switching_there_and_back(two):
    assert active(two) == {"2.12.1+cpu-py3.11": True, "2.13.0+cpu-py3.11": False}
    for name in ("2.13", "2.12", "2.13", "2.12"):
        document = two.fdl("torch", "activate", name)
        assert document["data"]["changed"] is True
        assert two.installed().startswith(name)
    assert active(two) == {"2.12.1+cpu-py3.11": True, "2.13.0+cpu-py3.11": False}
    assert two.fdl("libtorch", "activate", "2.12")["data"]["changed"] is False
    constraints = (two.folder / "torch-constraints.txt").read_text()
    assert "torch==2.12.1+cpu" in constraints


def test_verify_runs_the_kernels_again(two):
    document = two.fdl("libtorch", "verify")
    assert document["data"]["proof"]["devices"][0]["backward"] == "ok"
    torch = two.folder / ".venv/lib/python3.11/site-packages/torch/__init__.py"
    content = torch.read_text()
    torch.unlink()  # the file is shared with the build: break only this name of it
    torch.write_text(content.replace("_WRONG = False", "_WRONG = True"))
    document = two.fdl("libtorch", "verify", code=1)
    assert document["error"]["id"] == "proof-failed"


def test_info(two):
    data = two.fdl("libtorch", "info", "2.13")["data"]
    assert data["packages"] == ["torch 2.13.0+cpu", "numpy 2.1.0", "tinydep 1.5"]
    variants = {row["variant"]: row for row in two.fdl("libtorch", "info")["data"]["variants"]}
    assert variants["cpu"]["chosen"] is True
    assert variants["cu126"]["torch"] == "2.14.1"
    assert "7.0" in variants["cu126"]["sm"]


def test_remove(two):
    document = two.fdl("libtorch", "remove", "2.12", code=6)
    assert document["error"]["id"] == "build-active"
    two.fdl("libtorch", "remove", "2.13.0")
    assert list(active(two)) == ["2.12.1+cpu-py3.11"]
    assert not list((two.folder / ".venv" / ".fdl-kept").glob("2.13*"))
    document = two.fdl("libtorch", "remove", "2.13", code=4)
    assert document["error"]["id"] == "build-unknown"


def test_remove_never_leaves_the_store(two, tmp_path):
    store = two.home / "data" / "libtorch"
    outside = tmp_path / "precious"
    (store / "2.13.0+cpu-py3.11").rename(outside)
    (store / "2.13.0+cpu-py3.11").symlink_to(outside)
    document = two.fdl("libtorch", "remove", "2.13", code=6)
    assert document["error"]["id"] == "build-outside-store"
    assert (outside / "build.json").is_file()


def test_an_unclear_name_is_not_guessed(two):
    document = two.fdl("libtorch", "activate", "2.1", code=2)
    assert "2.12.1+cpu-py3.11" in document["error"]["message"]


def test_builds_may_live_in_the_project(project):
    project.setup("--local")
    assert (project.folder / "libtorch" / "2.12.1+cpu-py3.11" / "build.json").is_file()
    assert list(active(project)) == ["2.12.1+cpu-py3.11"]


def test_a_moved_project_still_knows_its_builds(project):
    project.setup("--local")
    moved = project.folder.with_name("moved")
    project.folder.rename(moved)
    project.folder = moved
    row = project.fdl("libtorch", "list")["data"]["builds"][0]
    assert row["folder"] == str(moved / "libtorch" / "2.12.1+cpu-py3.11")


def test_a_source_build_says_what_it_needs(project):
    document = project.fdl("libtorch", "build", "--dry-run", "--arch", "6.1;12.0")
    plan = document["data"]["plan"]
    assert dict(plan["environment"])["TORCH_CUDA_ARCH_LIST"] == "6.1;12.0"
    names = {item["name"] for item in plan["requirements"]}
    assert {"git", "nvcc", "disk"} <= names
    assert document["data"]["possible"] == all(item["present"] for item in plan["requirements"])
    assert project.fdl("libtorch", "build", "--dry-run", code=2)["error"]["id"] == "arch-missing"


def test_a_source_build_runs_its_commands_with_its_settings(project, tmp_path):
    """Stand-ins for the tools: the order, the settings and the resulting wheel are real."""
    import os
    import shutil

    from fdl_cli.torch_setup.install.source_build import DISK_BYTES

    if shutil.disk_usage(tmp_path).free < DISK_BYTES:
        pytest.skip("a source build is refused on a disk this small")
    tools = tmp_path / "tools"
    tools.mkdir()
    log = tmp_path / "log"
    for name in ("git", "cmake", "ninja", "g++", "nvcc", "python3"):
        tool = tools / name
        tool.write_text(
            f'#!/bin/sh\necho "{name} $1 $3 $TORCH_CUDA_ARCH_LIST" >> {log}\n'
            'for word; do last="$word"; done\n'
            f'[ "{name} $1" = "git clone" ] && mkdir -p "$last"\n'
            f'[ "{name} $3" = "python3 wheel" ] && mkdir -p "$last/dist" '
            '&& touch "$last/dist/torch-2.14.1-cp311-cp311-linux_x86_64.whl"\nexit 0\n'
        )
        tool.chmod(0o755)
    environ = project.environ()
    path = f"{tools}{os.pathsep}{environ['PATH']}"
    project.environ = lambda: {**environ, "PATH": path}
    document = project.fdl("libtorch", "build", "--arch", "6.1;12.0", "--torch", "2.14.1")
    assert document["data"]["wheel"].endswith("torch-2.14.1-cp311-cp311-linux_x86_64.whl")
    assert [line.split()[0] for line in log.read_text().splitlines()] == [
        "git", "python3", "python3",
    ]  # fmt: skip
    assert "6.1;12.0" in log.read_text().splitlines()[-1]
