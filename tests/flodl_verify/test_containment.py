"""User code that is being compared cannot reach the network or write over the user's files."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import warnings
import weakref
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from flodl_verify.sandbox.attempt import Failure, OutOfTimeError, attempt, time_limit
from flodl_verify.sandbox.containment import (
    StopRunError,
    contained,
    stop_after_steps,
    stop_at_first_backward,
)

pytestmark = pytest.mark.torch


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    project, workdir = tmp_path / "project", tmp_path / "work"
    project.mkdir()
    workdir.mkdir()
    (project / "data.txt").write_text("data", encoding="utf-8")
    return project, workdir


def test_data_is_found_and_new_files_stay_in_scratch(places: tuple[Path, Path]) -> None:
    project, workdir = places
    before = Path.cwd()
    with contained(workdir, (project,)):
        assert Path("data.txt").read_text(encoding="utf-8") == "data"
        Path("checkpoint.pt").write_text("new", encoding="utf-8")
        Path("runs").mkdir()
    assert Path.cwd() == before
    assert [item.name for item in project.iterdir()] == ["data.txt"]


def test_a_folder_around_the_scratch_is_shown_without_it(tmp_path: Path) -> None:
    workdir = tmp_path / "work"
    for folder in (workdir, tmp_path / "data" / "work"):
        folder.mkdir(parents=True)
        (folder / "part.txt").write_text("part", encoding="utf-8")
    with contained(workdir, (tmp_path,)):
        shown = sorted(str(path) for path in Path().rglob("*"))
    assert shown == ["data", "data/work", "data/work/part.txt"]
    with contained(tmp_path, (tmp_path,)):  # as for the text of a notebook
        assert Path("data/work/part.txt").is_file()
        assert not list(Path().rglob(Path.cwd().parent.name))


@pytest.mark.parametrize(
    "harm",
    [
        lambda file: file.write_text("gone", encoding="utf-8"),
        lambda file: os.open(file, os.O_WRONLY | os.O_APPEND),
        lambda file: torch.save({}, file),
        lambda file: torch.save({}, str(file)),
        lambda file: file.unlink(),
        lambda file: file.with_name("made").mkdir(),
        lambda file: file.rename(file.with_name("moved")),
        lambda file: (Path("new").touch(), Path("new").rename(file)),
        lambda file: socket.create_connection(("192.0.2.1", 80), timeout=1),
        lambda file: socket.getaddrinfo("example.org", 80),
        lambda file: subprocess.run(["wget", "https://example.org"], check=False),
        lambda file: os.system("curl https://example.org"),
    ],
    ids=[
        "write", "append", "save", "save to a name", "unlink", "mkdir", "rename", "rename onto",
        "connect", "lookup", "wget", "curl",
    ],
)  # fmt: skip
def test_harm_is_refused(harm: object, places: tuple[Path, Path]) -> None:
    project, workdir = places
    file = project / "data.txt"
    with contained(workdir, (project,)):
        outcome = attempt(lambda: harm(file))
    assert isinstance(outcome, Failure), outcome
    assert "while a port is verified" in outcome.text
    assert file.read_text(encoding="utf-8") == "data"
    assert [item.name for item in project.iterdir()] == ["data.txt"]


def test_what_a_script_writes_over_is_its_own(places: tuple[Path, Path]) -> None:
    project, workdir = places
    results = project / "results"
    results.mkdir()
    for name in ("net.pth", "log.txt", "old.txt", "first.txt"):
        (results / name).write_text("mine", encoding="utf-8")
    with contained(workdir, (project,)):
        torch.save({"a": 1}, "results/net.pth")
        torch.save({"a": 1}, "data.txt")
        assert torch.load("results/net.pth") == torch.load("data.txt") == {"a": 1}
        with Path("results/log.txt").open("a", encoding="utf-8") as log:
            log.write(" and more")
        assert Path("results/log.txt").read_text(encoding="utf-8") == "mine and more"
        Path("results/old.txt").unlink()
        Path("results/first.txt").rename("results/second.txt")
        Path("results/new.txt").write_text("new", encoding="utf-8")
    found = {item.name: item.read_text(encoding="utf-8") for item in results.iterdir()}
    assert found == dict.fromkeys(("net.pth", "log.txt", "old.txt", "first.txt"), "mine")
    assert (project / "data.txt").read_text(encoding="utf-8") == "data"


BARRIER = """
import ctypes, os, sys, tempfile
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from flodl_verify.sandbox.write_barrier import forbid_writes
project, work = Path(sys.argv[2]), Path(sys.argv[3])
tempfile.tempdir = str(work)
if not forbid_writes([work]):
    sys.exit(77)
c = ctypes.CDLL(None)
for place in (project / "data.txt", project / "new.txt", work / "own.txt"):
    # Without Python's own functions for files, as libraries write.
    print(c.open(os.fsencode(place), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600) >= 0)
print(os.system(f"echo gone 2>/dev/null > {project}/data.txt") == 0)
print(Path(project, "data.txt").read_text())
with tempfile.TemporaryFile() as file, open(os.devnull, "w") as null:
    file.write(b"temporary")
    null.write("nothing")
"""


@pytest.mark.slow
def test_the_kernel_refuses_what_libraries_write(places: tuple[Path, Path]) -> None:
    project, workdir = places
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", BARRIER, root, str(project), str(workdir)],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    if done.returncode == 77:
        pytest.skip("this kernel has no Landlock")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["False", "False", "True", "False", "data"]
    assert [item.name for item in project.iterdir()] == ["data.txt"]


def test_the_guard_is_off_afterwards(places: tuple[Path, Path]) -> None:
    project, workdir = places
    with contained(workdir, (project,)):
        pass
    (project / "data.txt").write_text("mine", encoding="utf-8")


def test_output_and_warnings_go_nowhere(
    places: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    project, workdir = places
    with contained(workdir, (project,)):
        sys.stdout.write("noise")
        warnings.warn("noise", stacklevel=1)
    assert capsys.readouterr().out == ""


@pytest.mark.slow  # the first optimizer of a process imports the compiler
def test_a_run_stops_before_one_step_too_many() -> None:
    parameter = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    steps = 0

    def train() -> None:
        nonlocal steps
        for _ in range(10):
            parameter.sum().backward()
            optimizer.step()
            steps += 1

    with stop_after_steps(2), pytest.raises(StopRunError):
        train()
    assert steps == 2
    optimizer.step()


def test_a_run_stops_at_its_first_backward() -> None:
    value = torch.ones(1, requires_grad=True)
    with pytest.raises(StopRunError), stop_at_first_backward():
        value.sum().backward()
    assert value.grad is None
    value.sum().backward()
    assert value.grad is not None


def test_time_limits_nest_and_let_no_user_code_catch_them() -> None:
    def run_for_ever() -> None:
        while True:
            attempt(lambda: sum(range(1000)))

    with time_limit(30.0), pytest.raises(OutOfTimeError), time_limit(0.05):
        run_for_ever()
    with pytest.raises(OutOfTimeError), time_limit(0.0):
        pass


def _del() -> object:
    class Slow:
        def __del__(self) -> None:
            while True:
                pass

    return Slow()


def _weakref() -> object:
    class Plain:
        pass

    def callback(_reference: object) -> None:
        while True:
            pass

    plain = Plain()
    _KEPT.append(weakref.ref(plain, callback))
    return plain


_KEPT: list[object] = []


@pytest.mark.parametrize("make", [_del, _weakref])
def test_time_limit_over_in_a_finalizer_ends_what_follows(make: Callable[[], object]) -> None:
    # Python drops the error of a finalizer: without a second ring the loop below never ends.
    def drop_and_run_for_ever() -> None:
        slow = make()
        del slow
        while True:
            pass

    hook = sys.unraisablehook
    with pytest.raises(OutOfTimeError), time_limit(0.05):
        drop_and_run_for_ever()
    assert sys.unraisablehook is hook


def test_time_limit_reports_other_errors_of_finalizers(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def __del__(self) -> None:
            raise ValueError

    seen: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda lost: seen.append(lost.exc_type))
    with time_limit(30.0):
        Broken()
    assert seen == [ValueError]


def test_a_failure_names_the_line_of_its_file() -> None:
    def broken() -> None:
        raise ValueError("first line\nsecond line")

    outcome = attempt(broken, Path(__file__))
    assert isinstance(outcome, Failure)
    assert outcome.text == "ValueError: first line"
    assert outcome.line == broken.__code__.co_firstlineno + 1
