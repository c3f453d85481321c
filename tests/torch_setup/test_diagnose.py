"""`fdl diagnose`: fast, honest about broken drivers, and safe to paste in public."""

import atexit
import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fdl_cli.diagnose.redaction import redact
from fdl_cli.system.facts import SystemFacts
from fdl_cli.system.recorded import machine_of
from tests.cli.fork_server import ForkServer

ROOT = Path(__file__).parents[2]
BASE = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)}


@functools.cache
def server():
    made = ForkServer(BASE)
    atexit.register(made.close)
    return made


def fdl(*words, cwd, code=0, **environ):
    """Run `fdl` with nothing of this environment."""
    done = server().run(words, cwd, {**BASE, "HOME": str(cwd), **environ}, timeout=60)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def checks_of(text):
    return {item["id"]: item for item in json.loads(text)["data"]["checks"]}


def fake_smi(folder, script):
    folder.mkdir(exist_ok=True)
    path = folder / "nvidia-smi"
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(0o755)
    return f"{folder}{os.pathsep}{BASE['PATH']}"


def test_without_an_environment_the_python_of_the_tool_is_looked_at(tmp_path):
    checks = checks_of(fdl("diagnose", "--json", cwd=tmp_path))
    assert checks["py.venv"]["message"].startswith(sys.prefix)
    assert checks["py.venv"]["message"].endswith(": the Python of fdl itself")
    assert checks["torch.present"]["ok"] is True


def test_an_empty_machine(tmp_path):
    checks = checks_of(fdl("diagnose", "--env", "nowhere", "--json", cwd=tmp_path))
    assert checks["torch.present"]["severity"] == "error"
    assert checks["torch.present"]["remedy"] == "`fdl setup`"
    assert checks["py.venv"]["ok"] is False
    groups = [item["group"] for item in checks.values()]
    assert groups == sorted(groups, key=groups.index)
    assert {"host.ram", "host.disk", "docker.daemon", "net.index"} <= set(checks)


def test_check_gives_an_exit_code(tmp_path):
    words = ("diagnose", "--env", "nowhere", "--check", "--json")
    document = json.loads(fdl(*words, cwd=tmp_path, code=1))
    assert document["ok"] is False


@pytest.mark.slow
def test_diagnose_imports_no_torch_httpx_or_rich(tmp_path):
    code = (
        "import sys; from fdl_cli.app import main; code = main(('diagnose', '--json'));"
        "assert not {'torch', 'httpx', 'rich'} & set(sys.modules), sorted(sys.modules);"
        "sys.exit(code)"
    )
    subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True,
        env={**BASE, "HOME": str(tmp_path)}, timeout=60,
    )  # fmt: skip


def test_its_json_is_a_file_of_facts(tmp_path):
    document = json.loads(fdl("diagnose", "--json", cwd=tmp_path))
    machine = machine_of(document, Path("facts.json"))
    assert isinstance(machine.facts, SystemFacts)
    (tmp_path / "facts.json").write_text(json.dumps(document))
    plan = json.loads(fdl("setup", "--dry-run", "--json", "--facts", "facts.json", cwd=tmp_path))
    assert plan["data"]["facts"] == document["data"]["facts"]
    assert plan["data"]["choice"]["variant"] == "cpu"


def test_a_gpu_and_its_driver(tmp_path):
    script = (
        'case "$1" in --query*) echo "0, GPU-12345678-aaaa, NVIDIA H200, 570.195.03, 9.0, 143771, '
        'Disabled";; *) echo "Driver Version: 570.195.03  CUDA Version: 12.8";; esac\n'
    )
    path = fake_smi(tmp_path / "bin", script)
    document = json.loads(fdl("diagnose", "--json", cwd=tmp_path, PATH=path))
    assert document["data"]["facts"]["nvidia"]["cuda"] == [12, 8]
    checks = checks_of(json.dumps(document))
    assert "570.195.03" in checks["gpu.driver"]["message"]
    (tmp_path / "facts.json").write_text(json.dumps(document))
    plan = json.loads(fdl("setup", "--dry-run", "--json", "--facts", "facts.json", cwd=tmp_path))
    assert plan["data"]["choice"]["torch"] == "2.14.1"
    assert plan["data"]["choice"]["warnings"] == ["driver_too_old_for_newest"]


def test_facts_with_an_unreachable_index_plan_from_the_table(tmp_path):
    machine = {"platform": "linux", "machine": "x86_64", "glibc": "2.35", "python": "3.12"}
    for document in (
        {**machine, "index": "unreachable"},
        {**machine, "index": "unreachable", "index_available": {"cpu": ["2.6.0"]}},
    ):
        (tmp_path / "facts.json").write_text(json.dumps(document))
        plan = json.loads(
            fdl("setup", "--dry-run", "--json", "--facts", "facts.json", cwd=tmp_path)
        )
        choice = plan["data"]["choice"]
        assert (choice["torch"], choice["variant"]) == ("2.15.0", "cpu")
        assert "index_unreachable" in choice["warnings"]
        assert choice["verified"] is False
        assert plan["data"]["index"].startswith("the table of")
    (tmp_path / "facts.json").write_text(json.dumps({**machine, "index": "somewhere"}))
    refused = fdl("setup", "--dry-run", "--json", "--facts", "facts.json", cwd=tmp_path, code=2)
    assert "`index` is 'somewhere'" in json.loads(refused)["error"]["message"]


def test_a_driver_too_old_for_every_build_is_an_error(tmp_path):
    gpu = {"name": "NVIDIA GeForce RTX 4090", "compute_cap": "8.9", "memory_mib": 24564}
    nvidia = {"driver": "418.95.05", "cuda_driver_version": "10.1", "gpus": [gpu]}
    machine = {
        "platform": "linux",
        "machine": "x86_64",
        "glibc": "2.35",
        "python": "3.12",
        "nvidia": nvidia,
    }
    (tmp_path / "facts.json").write_text(json.dumps(machine))
    words = ("setup", "--dry-run", "--json", "--facts", "facts.json")
    error = json.loads(fdl(*words, cwd=tmp_path, code=5))["error"]
    assert error["id"] == "driver-too-old"
    assert "needs driver 580.65.06 or newer" in error["message"]
    assert "`fdl setup --cpu`" in error["hint"]
    assert json.loads(fdl(*words, "--cpu", cwd=tmp_path))["data"]["choice"]["variant"] == "cpu"


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18\n", "reboot"),
        ('echo "couldn\'t communicate with the NVIDIA driver"; exit 9\n', "modprobe"),
    ],
)
def test_a_broken_driver_is_named_with_its_fix(tmp_path, script, message):
    path = fake_smi(tmp_path / "bin", script)
    checks = checks_of(fdl("diagnose", "--json", cwd=tmp_path, PATH=path))
    assert checks["gpu.driver"]["severity"] == "error"
    assert message in checks["gpu.driver"]["remedy"]


GARBAGE = r"printf 'caf\351 \000\001 , , N/A\n[Unknown Error]\n'; exit 0" + "\n"


def test_diagnose_names_garbage_of_nvidia_smi_that_ends_with_0(tmp_path):
    path = fake_smi(tmp_path / "bin", GARBAGE)
    shown = fdl("diagnose", "--json", cwd=tmp_path, PATH=path)
    check = checks_of(shown)["gpu.driver"]
    assert (check["severity"], check["data"]["status"]) == ("error", "garbled")
    assert "exit code 0, but its output is garbage" in check["message"]
    assert "caf\ufffd \ufffd\ufffd , , N/A" in check["message"]
    assert "command -v nvidia-smi" in check["remedy"]


def test_setup_warns_of_garbage_of_nvidia_smi_and_takes_the_cpu_build(tmp_path):
    path = fake_smi(tmp_path / "bin", GARBAGE)
    seen = json.loads(fdl("diagnose", "--json", cwd=tmp_path, PATH=path))
    (tmp_path / "facts.json").write_text(json.dumps({**seen, "index": "unreachable"}))
    plan = json.loads(fdl("setup", "--dry-run", "--json", "--facts", "facts.json", cwd=tmp_path))
    assert plan["data"]["choice"]["variant"] == "cpu"
    assert "nvidia_smi_garbled" in plan["data"]["choice"]["warnings"]
    said = [each["message"] for each in plan["warnings"] if each["id"] == "nvidia-smi-garbled"]
    assert len(said) == 1
    assert "garbage" in said[0]


def test_a_hidden_gpu(tmp_path):
    path = fake_smi(tmp_path / "bin", "echo '0, GPU-1, Tesla T4, 580.95.05, 7.5, 15360, [N/A]'\n")
    checks = checks_of(fdl("diagnose", "--json", cwd=tmp_path, PATH=path, CUDA_VISIBLE_DEVICES=""))
    assert checks["gpu.runtime"]["severity"] == "warning"
    assert "unset" in checks["gpu.runtime"]["remedy"]


def environment(folder, version, variant):
    site = folder / ".venv/lib/python3.11/site-packages/torch"
    site.mkdir(parents=True)
    (folder / ".venv/bin").mkdir()
    (folder / ".venv/pyvenv.cfg").write_text("version = 3.11.7\n")
    cuda = f"{variant[2:-1]}.{variant[-1]}" if variant.startswith("cu") else None
    (site / "version.py").write_text(
        f"from typing import Optional\n__version__ = '{version}'\n"
        f"cuda: Optional[str] = {cuda!r}\nhip: Optional[str] = None\n"
    )


def test_a_wheel_of_pypi_is_recognised_by_its_cuda(tmp_path):
    environment(tmp_path, "2.13.0", "cu130")
    checks = checks_of(fdl("diagnose", "--json", cwd=tmp_path))
    assert checks["torch.present"]["data"]["variant"] == "cu130"


def test_drift_between_chosen_and_installed(tmp_path):
    environment(tmp_path, "2.13.0+cpu", "cpu")
    (tmp_path / ".venv" / "fdl-torch.json").write_text('{"name": "2.13.0+cu126"}')
    checks = checks_of(fdl("diagnose", "--json", cwd=tmp_path))
    assert checks["torch.variant-drift"]["severity"] == "error"
    assert checks["torch.variant-drift"]["data"]["chosen"] == "2.13.0+cu126"
    (tmp_path / ".venv" / "fdl-torch.json").unlink()
    (tmp_path / "fdl.local.yml").write_text("torch: cu126  # chosen\n")
    checks = checks_of(fdl("diagnose", "--json", cwd=tmp_path))
    assert "cu126" in checks["torch.variant-drift"]["message"]


def test_a_build_without_machine_code_for_the_gpu(tmp_path):
    environment(tmp_path, "2.13.0+cu130", "cu130")
    path = fake_smi(
        tmp_path / "bin", "echo '0, GPU-1, Tesla V100, 580.95.05, 7.0, 16384, [N/A]'\n"
    )
    checks = checks_of(fdl("diagnose", "--json", cwd=tmp_path, PATH=path))
    assert checks["torch.arch-covers-gpu"]["severity"] == "error"
    assert "7.0" in checks["torch.arch-covers-gpu"]["message"]


def test_the_report_has_no_names_and_no_secrets(tmp_path):
    home = tmp_path / "home-of-anneliese"
    home.mkdir()
    path = fake_smi(
        tmp_path / "bin",
        "echo '0, GPU-12345678-aaaa-bbbb, Tesla T4, 580.95.05, 7.5, 15360, [N/A]'\n"
        "echo API_TOKEN=abcdef https://user:pw@index.invalid/simple >&2\n",
    )
    text = fdl(
        "diagnose",
        "--report",
        cwd=tmp_path,
        PATH=path,
        HOME=str(home),
        USER="anneliese",
        VIRTUAL_ENV=str(home),
    )
    assert "### fdl" in text
    assert "Tesla T4" in text
    for secret in ("anneliese", "12345678", "abcdef", "pw@", str(home)):
        assert secret not in text


@pytest.mark.slow
def test_a_project_and_its_skills(tmp_path):
    (tmp_path / "fdl.yml").write_text("description: x\n")
    checks = checks_of(fdl("diagnose", "--json", cwd=tmp_path))
    assert checks["project.scaffold-version"]["severity"] == "info"
    assert checks["skill.version"]["severity"] == "info"
    fdl("skill", "install", "--for", "agents", cwd=tmp_path)
    assert checks_of(fdl("diagnose", "--json", cwd=tmp_path))["skill.version"]["ok"] is True
    lock = tmp_path / ".agents" / "flodl-skills.lock.json"
    document = json.loads(lock.read_text())
    for item in document["skills"].values():
        item["version"] = "0.0.1"
    lock.write_text(json.dumps(document))
    check = checks_of(fdl("diagnose", "--json", cwd=tmp_path))["skill.version"]
    assert (check["severity"], check["remedy"]) == ("warning", "`fdl skill update`")
    (tmp_path / ".fdl").mkdir()
    (tmp_path / ".fdl" / "scaffold.json").write_text("{")
    check = checks_of(fdl("diagnose", "--json", cwd=tmp_path))["project.scaffold-version"]
    assert check["severity"] == "error"


def test_redaction_leaves_ordinary_text_alone():
    text = "torch 2.13.0 on GPU 0, token of a tokenizer, /usr/lib"
    assert redact(text, {"HOME": "/root", "USER": "root"}) == text


def test_people_get_groups_and_remedies(tmp_path):
    text = fdl("diagnose", "--env", "nowhere", cwd=tmp_path)
    assert (
        "torch\n  error   torch.present: torch is not installed\n          fix: `fdl setup`"
        in text
    )
