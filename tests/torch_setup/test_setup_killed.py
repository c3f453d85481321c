"""Killed at any moment, a setup leaves the old torch or the new one, and the next run ends well."""

import random
import signal
import sys
import time

import pytest
from fake_torch import torch_wheel

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        sys.version_info[:2] != (3, 11), reason="the fake wheels are for Python 3.11"
    ),
]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=["kill", "ctrl-c"])
def test_killed_at_random_moments(project, number):
    rng = random.Random(int(number))
    project.setup()
    assert project.installed() == "2.12.1+cpu"
    project.index.add(torch_wheel("2.13.0", ballast=1_500_000))
    project.index.rate = 1.2e6
    for path in project.home.rglob("torch-index.json"):
        path.unlink()
    seen = set()
    for _ in range(25):
        words = ("setup", "-y", "--json", "--index-url", f"{project.index.url}/whl")
        child = project.start(*words)
        time.sleep(rng.uniform(0.2, 3.2))
        child.send_signal(number)
        child.communicate(timeout=30)
        seen.add(project.installed())
    assert seen <= {"2.12.1+cpu", "2.13.0+cpu"}
    project.index.rate = None
    project.setup()
    assert project.installed() == "2.13.0+cpu"
    leftovers = [path.name for path in (project.folder / ".venv").glob(".fdl-[no]*")]
    assert leftovers == []
    drafts = list((project.home / "data" / "libtorch").glob(".new-*"))
    assert drafts == []


def test_an_exchange_that_was_cut_off_is_finished(project, monkeypatch):
    """Stop after every single step of the exchange; the next call must finish it."""
    import shutil

    from fdl_cli.torch_setup.install import switch as room
    from fdl_cli.torch_setup.install.builds import list_builds

    project.setup()
    environment = project.folder / ".venv"
    project.index.add(torch_wheel("2.13.0"))
    project.fdl(
        "libtorch", "download", "--index-url", f"{project.index.url}/whl", "--torch", "2.13.0"
    )
    (new,) = [b for b in list_builds(project.home / "data/libtorch") if b.torch == "2.13.0"]
    pristine = project.folder / "pristine"
    shutil.copytree(environment, pristine, symlinks=True)

    class CutOffError(Exception):
        pass

    steps = 0
    replace = room.Path.replace
    while True:
        shutil.rmtree(environment)
        shutil.copytree(pristine, environment, symlinks=True)
        budget = [steps]

        def counted(self, target, budget=budget):
            # The journal itself must be written; everything after it may be cut off.
            if (environment / room.JOURNAL).exists() and not str(target).endswith(room.JOURNAL):
                if budget[0] == 0:
                    raise CutOffError
                budget[0] -= 1
            return replace(self, target)

        monkeypatch.setattr(room.Path, "replace", counted)
        try:
            room.switch(new, environment, environment / "bin" / "python", previous=None)
        except CutOffError:
            finished = False
        else:
            finished = True
        monkeypatch.setattr(room.Path, "replace", replace)
        assert room.finish_interrupted(environment) is not finished
        assert project.installed() == "2.13.0+cpu"
        names = [p.name for p in environment.glob("lib/python3.11/site-packages/torch-*")]
        assert names == ["torch-2.13.0+cpu.dist-info"]
        if finished:
            break
        steps += 1
    assert steps >= 5


@pytest.mark.parametrize("keep", [None, "before"])
@pytest.mark.parametrize("calls", [0, 1])
def test_exchange_cut_off_while_it_removes_files_leaves_nothing(
    tmp_path, monkeypatch, keep, calls
):
    import json

    from fdl_cli.torch_setup.install import switch as room

    for name in (room.NEW, room.OLD):
        (tmp_path / name / "lib").mkdir(parents=True)
        (tmp_path / name / "lib" / f"file{name}").touch()
    journal = {"phase": "placing", "site": "lib", "remove": [], "keep": keep}
    (tmp_path / room.JOURNAL).write_text(json.dumps(journal), encoding="utf-8")
    removed, rmtree = [], room.shutil.rmtree

    def killed(path, **options):
        if len(removed) == calls:
            raise SystemExit
        removed.append(path)
        rmtree(path, **options)

    monkeypatch.setattr(room.shutil, "rmtree", killed)
    with pytest.raises(SystemExit):
        room.finish_interrupted(tmp_path)
    monkeypatch.undo()
    assert room.finish_interrupted(tmp_path)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == ({"lib", room.KEPT} if keep else {"lib"})
    assert (tmp_path / "lib" / f"file{room.NEW}").exists()
