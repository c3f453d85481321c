"""The whole way: from an index to an environment whose torch was proved, and back."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from fake_torch import tiny_wheel, torch_wheel

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        sys.version_info[:2] != (3, 11), reason="the fake wheels are for Python 3.11"
    ),
]


def files_of(folder):
    return {
        str(path.relative_to(folder)): path.stat().st_mtime_ns
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.mark.parametrize("form", ["html", "json"])
def test_an_empty_environment_gets_a_proved_torch(project, form):
    project.index.form = form
    document = project.setup()
    data = document["data"]
    assert data["choice"]["torch"] == "2.12.1"
    assert data["choice"]["variant"] == "cpu"
    assert data["changed"] is True
    assert [device["elementwise"] for device in data["proof"]["devices"]] == ["ok"]
    assert project.installed() == "2.12.1+cpu"
    assert project.python("import tinydep; print(tinydep.VERSION)") == "1.5"
    assert (project.folder / "fdl.local.yml").read_text().endswith("torch: cpu\n")
    constraints = (project.folder / "torch-constraints.txt").read_text()
    assert constraints.endswith("torch==2.12.1+cpu\n")
    record = json.loads((project.folder / ".venv" / "fdl-torch.json").read_text())
    assert record["name"] == "2.12.1+cpu"
    assert record["proof"]["problems"] == []


def test_numpy_comes_with_torch(project):
    project.setup()
    assert project.python("import numpy; print(numpy.__version__)") == "2.1.0"


def test_without_numpy_in_the_indexes_torch_comes_alone(project):
    del project.index.wheels["numpy-2.1.0-py3-none-any.whl"]
    project.setup()
    assert project.installed() == "2.12.1+cpu"
    assert "No module named 'numpy'" in project.python("import numpy")


def test_a_new_environment_is_made_whole(project):
    shutil.rmtree(project.folder / ".venv")
    project.setup()
    assert project.installed() == "2.12.1+cpu"
    environment = project.folder / ".venv"
    pip = subprocess.run(
        [environment / "bin" / "pip", "list", "--format", "json"],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    names = {item["name"]: item["version"] for item in json.loads(pip.stdout)}
    assert names["torch"] == "2.12.1+cpu"
    assert ".new-" not in (environment / "bin" / "activate").read_text()
    assert [path.name for path in project.folder.glob(".venv*")] == [".venv"]


def test_the_second_run_changes_nothing(project):
    project.setup()
    before = files_of(project.folder), files_of(project.home)
    project.index.log.clear()
    document = project.setup()
    assert not [entry for entry in project.index.log if "/files/" in entry[1]]
    assert document["data"]["changed"] is False
    assert document["data"]["actions"] == []
    assert (files_of(project.folder), files_of(project.home)) == before


def test_programs_and_data_files_arrive_and_go(project):
    project.setup()
    environment = project.folder / ".venv"
    script = environment / "bin" / "torch-script"
    done = subprocess.run([script], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout == "hello\n"
    assert (environment / "bin" / "torchrun").is_file()
    assert (environment / "share" / "torch" / "note.txt").is_file()
    uninstall = [sys.executable, "-m", "pip", "--python", environment / "bin" / "python"]
    subprocess.run(
        [*uninstall, "uninstall", "-y", "-q", "torch", "--disable-pip-version-check"],
        check=True, timeout=60, env={**project.environ(), "PYTHONPATH": ""},
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    left = [path for path in files_of(environment) if "torch" in path]
    assert left == ["fdl-torch.json"]
    # The build itself is unharmed, so that torch comes back without a download.
    project.index.log.clear()
    project.setup()
    assert project.installed() == "2.12.1+cpu"
    assert not [entry for entry in project.index.log if "/files/" in entry[1]]


def test_a_newer_build_replaces_the_old_one(project):
    project.setup()
    project.index.add(torch_wheel("2.13.0"))
    forget_snapshot(project)
    assert project.setup()["data"]["choice"]["torch"] == "2.13.0"
    assert project.installed() == "2.13.0+cpu"
    site = project.folder / ".venv/lib/python3.11/site-packages"
    assert [path.name for path in site.glob("torch-*")] == ["torch-2.13.0+cpu.dist-info"]


def forget_snapshot(project):
    for path in project.home.rglob("torch-index.json"):
        path.unlink()


def test_a_build_that_fails_its_proof_changes_nothing(project):
    project.setup()
    before = files_of(project.folder / ".venv")
    project.index.add(torch_wheel("2.13.0", wrong=True))
    forget_snapshot(project)
    document = project.setup(code=1)
    assert document["error"]["id"] == "proof-failed"
    assert files_of(project.folder / ".venv") == before
    assert project.installed() == "2.12.1+cpu"
    names = [row["name"] for row in project.fdl("libtorch", "list")["data"]["builds"]]
    assert names == ["2.12.1+cpu-py3.11"]


def test_a_lying_index_is_refused(project):
    project.index.lie = True
    document = project.setup(code=1)
    assert document["error"]["id"] in ("checksum-wrong", "resolve-failed")
    assert "No module named 'torch'" in project.installed()


def test_a_dependency_that_is_good_enough_stays(project):
    site = project.folder / ".venv/lib/python3.11/site-packages"
    install(project, tiny_wheel("1.2"))
    project.setup()
    assert project.python("import tinydep; print(tinydep.VERSION)") == "1.2"
    assert (site / "tinydep-1.2.dist-info").is_dir()


def test_a_dependency_that_is_too_old_is_replaced(project):
    install(project, tiny_wheel("0.3"))
    project.setup()
    assert project.python("import tinydep; print(tinydep.VERSION)") == "1.5"


def install(project, pair):
    name, data = pair
    path = project.home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    interpreter = project.folder / ".venv" / "bin" / "python"
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", interpreter, "install", "-q", "--no-deps",
         "--disable-pip-version-check", path],
        check=True, timeout=60, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def test_a_torch_that_somebody_installed_is_proved_and_adopted(project):
    install(project, torch_wheel("2.12.1"))
    document = project.setup()
    assert document["data"]["build"] is None
    assert document["data"]["proof"]["problems"] == []
    assert not [entry for entry in project.index.log if "/files/" in entry[1]]


def test_a_gpu_build_is_not_removed_while_the_driver_is_broken(project, tmp_path):
    install(project, torch_wheel("2.12.1", variant="cu126", cuda="12.6"))
    fake = tmp_path / "bin"
    fake.mkdir()
    smi = fake / "nvidia-smi"
    smi.write_text(
        "#!/bin/sh\necho 'Failed to initialize NVML: Driver/library version mismatch'\nexit 18\n"
    )
    smi.chmod(0o755)
    environ = project.environ()
    project.environ = lambda: {**environ, "PATH": f"{fake}{os.pathsep}{environ['PATH']}"}
    document = project.setup("--dry-run")
    assert document["data"]["choice"]["variant"] == "cu126"
    ids = {warning["id"] for warning in document["warnings"]}
    assert {"gpu-build-kept", "nvidia-driver-broken"} <= ids
    assert project.setup("--dry-run", "--cpu")["data"]["choice"]["variant"] == "cpu"


def test_dry_run_shows_files_with_sizes_and_changes_nothing(project):
    before = files_of(project.folder)
    data = project.setup("--dry-run")["data"]
    names = {item["name"]: item["bytes"] for item in data["files"]}
    assert names == {name: len(content) for name, content in project.index.wheels.items()}
    kinds = [action["kind"] for action in data["actions"]]
    assert kinds == [
        "resolve",
        "download",
        "unpack",
        "prove",
        "switch",
        "write-file",
        "write-file",
    ]
    assert files_of(project.folder) == before


def test_a_wheelhouse_serves_a_machine_without_network(project):
    document = project.fdl(
        "libtorch", "download", "--to", "wheels", "--python", "3.11",
        "--index-url", f"{project.index.url}/whl",
    )  # fmt: skip
    assert document["data"]["name"] == "2.12.1+cpu"
    sums = (project.folder / "wheels" / "SHA256SUMS").read_text().splitlines()
    assert len(sums) == len(project.index.wheels)
    project.index.wheels.clear()
    project.home = project.home.with_name("another-home")
    document = project.fdl("setup", "-y", "--offline", "--find-links", "wheels")
    assert project.installed() == "2.12.1+cpu"


def test_offline_takes_what_the_cache_holds(project):
    project.setup()
    environment = project.folder / ".venv"
    environment.rename(project.folder / "old")
    for build in (project.home / "data" / "libtorch").iterdir():
        if build.is_dir():
            shutil.rmtree(build)
    project.make_environment()
    project.index.wheels.clear()
    project.fdl("setup", "-y", "--offline")
    assert project.installed() == "2.12.1+cpu"


def test_offline_with_nothing_says_what_to_name(project):
    document = project.fdl("setup", "-y", "--offline", code=5)
    assert document["error"]["id"] == "index-without-build"
    assert "--find-links" in document["error"]["hint"]


def test_without_an_index_pip_serves_and_it_says_so(project):
    environ = project.environ()
    # The official index does not exist here: the proxy refuses it at once.
    project.environ = lambda: {
        **environ, "HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1",
    }  # fmt: skip
    document = project.fdl("setup", "-y")
    assert project.installed() == "2.12.1+cpu"
    assert "index-unreachable" in {warning["id"] for warning in document["warnings"]}


def test_without_any_index_the_table_plans_and_the_installation_says_why_not(project):
    environ = project.environ()
    nowhere = {"HTTPS_PROXY": "http://127.0.0.1:9", "PIP_INDEX_URL": "http://127.0.0.1:9/simple"}
    project.environ = lambda: {**environ, **nowhere}
    document = project.fdl("setup", "--dry-run")
    assert "index_unreachable" in document["data"]["choice"]["warnings"]
    assert document["data"]["files"] == []
    document = project.fdl("setup", "-y", code=5)
    assert document["error"]["id"] == "no-package-source"
    assert "--find-links" in document["error"]["hint"]


def test_without_a_terminal_it_asks_for_the_flag(project):
    document = project.fdl("setup", "--index-url", f"{project.index.url}/whl", code=7)
    assert "--yes" in document["error"]["hint"]
    assert "No module named 'torch'" in project.installed()


def test_another_python_is_only_for_a_new_environment(project):
    document = project.setup("--python", sys.executable, code=6)
    assert document["error"]["id"] == "environment-exists"
    shutil.rmtree(project.folder / ".venv")
    project.setup("--python", sys.executable)
    assert project.installed() == "2.12.1+cpu"


def test_credentials_of_an_index_are_written_nowhere(project):
    (project.folder / "pyproject.toml").write_text('[project]\nname = "x"\nversion = "0"\n')
    address = project.index.url.replace("http://", "http://ann:s3cr3t@")
    document = project.fdl("setup", "-y", "--index-url", f"{address}/whl")
    assert project.installed() == "2.12.1+cpu"
    assert "s3cr3t" not in json.dumps(document)
    assert project.fdl("setup", "-y", "--index-url", f"{address}/whl")["data"]["changed"] is False
    for root in (project.folder, project.home):
        for path in root.rglob("*"):
            if path.is_file() and path.suffix in (".json", ".txt", ".toml", ".yml"):
                assert "s3cr3t" not in path.read_text(errors="replace"), path


def test_a_disk_that_is_too_small_is_found_before_the_download(project, monkeypatch):
    from fdl_cli.errors import EnvironmentLackingError
    from fdl_cli.net.artefact import Artefact
    from fdl_cli.net.store import Store
    from fdl_cli.torch_setup.install import acquire
    from fdl_cli.torch_setup.install.pip_tool import Needed

    huge = Artefact(name="torch.whl", urls=("https://x.invalid/torch.whl",), size=10**15)
    closure = acquire.Closure(files=(Needed(project="torch", version="1", artefact=huge),))

    class Plan:
        store = project.home

    with pytest.raises(EnvironmentLackingError) as caught:
        acquire.require_space(closure, Store(project.home), Plan)
    assert caught.value.error_id == "disk-too-small"
    assert "GB" in caught.value.message


def test_task_without_torch_sets_it_up_and_runs(project):
    (project.folder / "fdl.yml").write_text(
        "requires: [torch]\ncommands:\n"
        "  show: {run: [python, -c, 'import torch; print(torch.__version__)']}\n"
    )
    # The official index does not exist here: the proxy refuses it at once.
    environ = {
        **project.environ(), "HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1",
    }  # fmt: skip

    def show(*words):
        return subprocess.run(
            [sys.executable, "-m", "fdl_cli", *words, "show"], cwd=project.folder, env=environ,
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip

    refused = show()
    assert refused.returncode == 7
    assert "hint: `fdl -y show` sets the project up first" in refused.stderr
    done = show("-y")
    assert (done.returncode, done.stdout) == (0, "2.12.1+cpu\n"), done.stderr
    assert show().stdout == "2.12.1+cpu\n"
