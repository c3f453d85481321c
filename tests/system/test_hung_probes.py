"""A probe that hung gets little time for an hour; an answer, a restart or a damaged file ends that."""

import json
import stat
import time
from pathlib import Path

import pytest

from fdl_cli.system import hung_probes, nvidia_probe
from fdl_cli.system.collect import collect
from fdl_cli.system.facts import ProbeReport, PythonFacts
from fdl_cli.system.hung_probes import KEPT_SECONDS, SECOND_TRY_SECONDS, HungProbes, with_memory

ARGV = ("nvidia-smi", "--query")


class Driver:
    """A runner that notes the seconds it was given, and hangs or answers."""

    def __init__(self):
        self.verdict = "timeout"
        self.given = []

    def __call__(self, source, argv, seconds):
        self.given.append(seconds)
        said = f"no answer within {seconds:g} s"
        return ProbeReport(
            source=source,
            asked=" ".join(argv),
            verdict=self.verdict,
            exit_code=None,
            seconds=seconds,
            said=said,
        ), ""


@pytest.fixture
def home(tmp_path):
    return {"FLODL_HOME": str(tmp_path)}


def ask(driver, home, seconds=10.0, argv=ARGV):
    """Ask as a command of its own does: with a fresh memory."""
    report, _ = with_memory(driver, HungProbes(home))("nvidia-smi", argv, seconds)
    return report


def file_of(home):
    return Path(home["FLODL_HOME"]) / "cache" / "hung-probes.json"


def test_hung_probe_gets_a_second_in_the_next_commands(home):
    driver = Driver()
    first, second, third = (ask(driver, home) for _ in range(3))
    assert driver.given == [10.0, SECOND_TRY_SECONDS, SECOND_TRY_SECONDS]
    assert first.said == "no answer within 10 s"
    assert second.said == third.said
    assert second.said == "no answer within 1 s; it hung 0 min ago too, so it got 1 s"


def test_hung_probe_of_other_words_gets_its_whole_time(home):
    driver = Driver()
    ask(driver, home)
    ask(driver, home, argv=("rocminfo",))
    assert driver.given == [10.0, 10.0]


def test_hung_probe_with_a_shorter_limit_keeps_it(home):
    driver = Driver()
    ask(driver, home, seconds=0.5)
    ask(driver, home, seconds=0.5)
    assert driver.given == [0.5, 0.5]


@pytest.mark.parametrize("verdict", ["ok", "failed"])
def test_hung_probe_that_answers_is_forgotten(home, verdict):
    driver = Driver()
    ask(driver, home)
    driver.verdict = verdict
    ask(driver, home)
    driver.verdict = "timeout"
    ask(driver, home)
    assert driver.given == [10.0, SECOND_TRY_SECONDS, 10.0]


def test_probe_that_answers_writes_no_file(home):
    driver = Driver()
    driver.verdict = "ok"
    ask(driver, home)
    assert not file_of(home).exists()


def test_hung_probe_is_forgotten_after_an_hour(home, monkeypatch):
    driver = Driver()
    ask(driver, home)
    now = time.time()
    monkeypatch.setattr(hung_probes.time, "time", lambda: now + KEPT_SECONDS + 1)
    ask(driver, home)
    assert driver.given == [10.0, 10.0]


def test_hung_probe_from_the_future_is_ignored(home, monkeypatch):
    driver = Driver()
    ask(driver, home)
    now = time.time()
    monkeypatch.setattr(hung_probes.time, "time", lambda: now - 600)
    ask(driver, home)
    assert driver.given == [10.0, 10.0]


def test_hung_probe_is_forgotten_after_a_restart_of_the_machine(home):
    driver = Driver()
    ask(driver, home)
    noted = json.loads(file_of(home).read_text())
    file_of(home).write_text(json.dumps({**noted, "boot": "another"}))
    ask(driver, home)
    assert driver.given == [10.0, 10.0]


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", "null", '{"boot": 1}', '{"boot": "BOOT", "hung": []}',
     '{"boot": "BOOT", "hung": {"nvidia-smi --query": "soon"}}',
     '{"boot": "BOOT", "hung": {"nvidia-smi --query": null}}', "\udcff"],
)  # fmt: skip
def test_damaged_memory_is_ignored_and_renewed(home, text):
    driver = Driver()
    ask(driver, home)
    boot = json.loads(file_of(home).read_text())["boot"]
    file_of(home).write_bytes(text.replace("BOOT", boot).encode(errors="surrogateescape"))
    ask(driver, home)
    ask(driver, home)
    assert driver.given == [10.0, 10.0, SECOND_TRY_SECONDS]


def test_cache_that_cannot_be_written_changes_nothing(tmp_path):
    (tmp_path / "cache").write_text("a file where the folder should be")
    driver, home = Driver(), {"FLODL_HOME": str(tmp_path)}
    assert ask(driver, home).verdict == "timeout"
    assert ask(driver, home).verdict == "timeout"
    assert driver.given == [10.0, 10.0]


@pytest.mark.slow
def test_collect_with_a_driver_that_hangs_waits_for_it_once(tmp_path, monkeypatch):
    program = tmp_path / "bin" / "nvidia-smi"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    environ = {
        "PATH": f"{program.parent}:/usr/bin:/bin",
        "FLODL_HOME": str(tmp_path / "home"),
    }
    monkeypatch.setenv("PATH", environ["PATH"])
    monkeypatch.setattr(nvidia_probe, "SECONDS", 3.0)
    took = []
    for _ in range(2):
        started = time.monotonic()
        facts = collect(environ, tmp_path, PythonFacts(version="3.11"))
        took.append(time.monotonic() - started)
        assert "timeout" in str(facts)
    assert took[0] >= 3.0
    assert took[1] < took[0] - 1.0
