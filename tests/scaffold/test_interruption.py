"""Killed at any step, `fdl init` and its update leave what was there before, or all of the new."""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fdl_cli.scaffold.record import RECORD
from fdl_cli.system.transaction import PENDING, FileChange, apply_changes, recover
from tests.scaffold.conftest import make, snapshot

KILLING = Path(__file__).parent / "killing.py"
ROOT = Path(__file__).parent.parent.parent


def killed_at(number: int, folder: Path, *words: str) -> bool:
    """Run fdl, killed before its n-th step; say whether it was (else it had fewer steps)."""
    done = subprocess.run(
        [sys.executable, str(KILLING), str(number), *words],
        cwd=folder,
        env={
            "PYTHONPATH": str(ROOT),
            "PATH": "/usr/bin:/bin",
            "HOME": str(folder.parent / "home"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == -signal.SIGKILL:
        return True
    assert done.returncode == 0, done.stdout + done.stderr
    return False


def visible(folder: Path) -> dict[str, bytes]:
    """Return what people see: everything but the remains that the next run clears away."""
    return {
        path: data
        for path, data in snapshot(folder).items()
        if not path.startswith((".fdl-pending", ".p-"))
    }


@pytest.mark.slow
def test_an_init_killed_at_any_step_leaves_nothing_or_a_project(tmp_path):
    make(tmp_path / "whole" / "p", bare=True)
    whole = snapshot(tmp_path / "whole" / "p")
    folder = tmp_path / "kills"
    folder.mkdir()
    subprocess.run(
        [sys.executable, KILLING, "every", folder, "init", "p", "--bare", "--vcs", "none"],
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path / "home")},
        check=True, capture_output=True,
    )  # fmt: skip
    kills = list(folder.iterdir())
    assert len(kills) > len(whole)
    made = [place for place in kills if (place / "p").exists()]
    assert 0 < len(made) < len(kills)
    for place in made:
        assert snapshot(place / "p") == whole


def old_project(root: Path) -> None:
    """A project of older templates: one file differs, one is gone, one is new, one was edited."""
    make(root, bare=True)
    record = json.loads((root / RECORD).read_text())
    base = record["base"]
    for name in ("pyproject.toml", "fdl.yml", "src/p/train.py"):
        base[name] = f"# an old line\n{base[name]}"
        (root / name).write_text(base[name])
    with (root / "fdl.yml").open("a") as stream:
        stream.write("# mine\n")
    base["Makefile"] = "all:\n"
    (root / "Makefile").write_text("all:\n")
    del base["tests/test_cli.py"]
    (root / "tests/test_cli.py").unlink()
    (root / RECORD).write_text(json.dumps(record))


@pytest.mark.slow
def test_a_killed_update_is_nothing_or_is_finished_by_the_next(tmp_path):
    old_project(tmp_path / "old" / "p")
    before = snapshot(tmp_path / "old" / "p")
    shutil.copytree(tmp_path / "old", tmp_path / "new")
    assert not killed_at(10_000, tmp_path / "new" / "p", "init", "--update", "--allow-dirty")
    after = snapshot(tmp_path / "new" / "p")
    assert before != after
    assert b"# mine" in after["fdl.yml"]
    assert b"# an old line" not in after["fdl.yml"]
    assert "Makefile" not in after
    assert "tests/test_cli.py" in after
    outcomes = set()
    for number in range(1, 200):
        root = tmp_path / f"kill{number}" / "p"
        shutil.copytree(tmp_path / "old" / "p", root)
        was_killed = killed_at(number, root, "init", "--update", "--allow-dirty")
        decided = (root / PENDING / "journal.json").exists()
        if not decided:
            assert visible(root) in (before, after), number
            outcomes.add("before" if visible(root) == before else "after")
        else:
            outcomes.add("decided")
        recover(root)
        assert snapshot(root) == (before if visible(root) == before else after)
        if decided:
            assert snapshot(root) == after
        if not was_killed:
            break
    assert outcomes == {"before", "decided", "after"}


def test_a_failed_write_changes_nothing(tmp_path, monkeypatch):
    (tmp_path / "a").write_text("old")
    changes = [FileChange(path="a", data=b"new"), FileChange(path="b/c", data=b"new")]
    written = []
    real = Path.open

    def full_disk(self, mode="r", *rest, **named):
        if "w" in mode:
            written.append(self)
            if len(written) == 2:
                raise OSError(28, "No space left on device")
        return real(self, mode, *rest, **named)

    monkeypatch.setattr(Path, "open", full_disk)
    with pytest.raises(OSError, match="No space"):
        apply_changes(tmp_path, changes)
    monkeypatch.undo()
    assert snapshot(tmp_path) == {"a": b"old"}
    apply_changes(tmp_path, changes)
    assert snapshot(tmp_path) == {"a": b"new", "b/c": b"new"}


def test_modes_stay_and_links_out_are_refused(tmp_path):
    from fdl_cli.errors import ConflictError

    outside = tmp_path / "outside"
    outside.mkdir()
    root = tmp_path / "root"
    root.mkdir()
    script = root / "run.sh"
    script.write_text("old")
    script.chmod(0o750)
    apply_changes(root, [FileChange(path="run.sh", data=b"new")])
    assert script.stat().st_mode & 0o777 == 0o750
    (root / "link").symlink_to(outside)
    (root / "file").symlink_to(outside / "target")
    for path in ("link/x", "../x", "file"):
        with pytest.raises(ConflictError):
            apply_changes(root, [FileChange(path=path, data=b"x")])
    assert list(outside.iterdir()) == []
