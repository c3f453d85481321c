"""AMD, Intel, the PCI bus, the host: parsers on recorded text and on small false file systems."""

import os

import pytest

from fdl_cli.system import pci
from fdl_cli.system.amd import gfx_name, probe_amd, read_enumerator, read_rocminfo, read_topology
from fdl_cli.system.facts import ProbeReport
from fdl_cli.system.host import normal_machine, read_container, read_os
from fdl_cli.system.intel import family_of, read_intel
from fdl_cli.system.probe import run_program


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (110000, "gfx1100"), (90402, "gfx942"), (90010, "gfx90a"), (100306, "gfx1036"),
        (110501, "gfx1151"), (120001, "gfx1201"), (90012, "gfx90c"), (90006, "gfx906"), (0, None),
    ],
)  # fmt: skip
def test_gfx_names(number, name):
    assert gfx_name(number) == name


def test_kfd_topology():
    text = "cpu_cores_count 0\ngfx_target_version 110000\nvendor_id 4098\ndevice_id 29772\n"
    gpu = read_topology(text)
    assert (gpu.gfx, gpu.pci) == ("gfx1100", "1002:744c")
    assert read_topology("cpu_cores_count 16\ngfx_target_version 0\n") is None


def test_rocminfo_and_the_enumerator():
    text = "Agent 1\n  Name:   AMD Ryzen\nAgent 2\n  Name:   gfx1100\n  Marketing Name: RX 7900\n"
    (gpu,) = read_rocminfo(text)
    assert (gpu.gfx, gpu.name) == ("gfx1100", "RX 7900")
    assert [gpu.gfx for gpu in read_enumerator("gfx000\ngfx1036\ngfx1100\n")] == [
        "gfx1036",
        "gfx1100",
    ]


def test_probing_amd_reads_kfd_and_access(tmp_path):
    nodes = tmp_path / "nodes"
    for number, version in ((0, 0), (1, 110000)):
        (nodes / str(number)).mkdir(parents=True)
        (nodes / str(number) / "properties").write_text(f"gfx_target_version {version}\n")
    device = tmp_path / "kfd"
    device.touch()
    facts, reports = probe_amd(run_program, wsl=False, nodes=nodes, device=device)
    assert [gpu.gfx for gpu in facts.gpus] == ["gfx1100"]
    assert (facts.kfd, facts.access) == (True, True)
    assert reports[0].said == "gfx1100"
    facts, _ = probe_amd(run_program, wsl=False, nodes=nodes, device=tmp_path / "none")
    assert (facts.kfd, facts.access) == (False, None)


def test_nothing_of_amd(tmp_path):
    facts, reports = probe_amd(run_program, wsl=False, nodes=tmp_path / "none")
    assert facts.gpus == ()
    assert [report.verdict for report in reports] == ["missing"]


def test_pci_lines_and_folders(tmp_path):
    line = "0000:03:00.0 vendor=0x8086 device=0xe20b class=0x030000 driver=xe"
    device = pci.read_line(line)
    assert device.text() == line
    folder = tmp_path / "0000:01:00.0"
    folder.mkdir()
    for name, value in (("vendor", "0x10de"), ("device", "0x2684"), ("class", "0x030200")):
        (folder / name).write_text(f"{value}\n")
    (tmp_path / "0000:00:1f.0").mkdir()  # unreadable, and no display device
    (found,) = pci.list_gpus(tmp_path)
    assert (found.name, found.driver) == ("10de:2684", None)
    assert pci.list_gpus(tmp_path / "none") == ()


def test_intel():
    lines = (
        "0000:03:00.0 vendor=0x8086 device=0xe20b class=0x030000 driver=xe",
        "0000:00:02.0 vendor=0x8086 device=0xa7a0 class=0x030000 driver=i915",
    )
    facts = read_intel(tuple(pci.read_line(line) for line in lines))
    assert [gpu.family for gpu in facts.gpus] == ["Battlemage", "Raptor Lake UHD"]
    assert facts.driver == "xe"
    assert family_of("64a0") == "Lunar Lake"
    unbound = pci.read_line("0000:03:00.0 vendor=0x8086 device=0x56a0 class=0x030000")
    assert read_intel((unbound,)).driver is None


def test_machines():
    assert normal_machine("AMD64", "windows") == "x86_64"
    assert normal_machine("arm64", "macos") == "arm64"
    assert normal_machine("arm64", "linux") == "aarch64"
    assert normal_machine("ppc64le", "linux") == "ppc64le"


def test_containers(tmp_path):
    assert read_container({}, tmp_path) is None
    assert read_container({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, tmp_path) == "kubernetes"
    (tmp_path / "proc/1").mkdir(parents=True)
    (tmp_path / "proc/1/cgroup").write_text("12:pids:/docker/abc\n")
    assert read_container({}, tmp_path) == "docker"
    (tmp_path / "run").mkdir()
    (tmp_path / "run/.containerenv").touch()
    assert read_container({}, tmp_path) == "podman"


def test_jetson(tmp_path):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/nv_tegra_release").write_text("# R36 (release), REVISION: 4.0, GCID: 1\n")
    assert read_os({}, tmp_path).tegra == "R36.4.0"


def test_a_probe_keeps_words_code_and_time(tmp_path):
    program = tmp_path / "tool"
    program.write_text("#!/bin/sh\necho out; echo err >&2; exit 3\n")
    program.chmod(0o755)
    report, text = run_program("tool", (str(program),), 5.0)
    assert (report.verdict, report.exit_code, report.said) == ("failed", 3, "out\nerr")
    assert text == "out\nerr\n"
    missing, _ = run_program("tool", (str(tmp_path / "none"),), 5.0)
    assert missing.verdict == "missing"
    program.write_text("#!/bin/sh\nsleep 5\n")
    slow, _ = run_program("tool", (str(program),), 0.2)
    assert slow.verdict == "timeout"
    assert isinstance(slow, ProbeReport)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may open everything")
def test_a_device_that_may_not_be_opened(tmp_path):
    nodes = tmp_path / "nodes" / "1"
    nodes.mkdir(parents=True)
    (nodes / "properties").write_text("gfx_target_version 110000\n")
    device = tmp_path / "kfd"
    device.touch(mode=0o000)
    facts, _ = probe_amd(run_program, wsl=False, nodes=nodes.parent, device=device)
    assert facts.access is False
