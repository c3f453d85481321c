"""Disks that are full and folders that may not be used: errors with what to do, never a report of a bug."""

import errno
import os
import shutil
import subprocess
import venv

import pytest

from fdl_cli.errors import EnvironmentLackingError, storage_error
from fdl_cli.torch_setup.setup_run import require_writable

FOLDERS = ["/home/ann/.cache/flodl", "/home/ann"]


@pytest.mark.parametrize(
    ("number", "place", "error_id", "hint"),
    [
        (errno.ENOSPC, None, "disk-full", "free some space"),
        (errno.EDQUOT, "/data/x", "disk-full", "free some space"),
        (errno.EACCES, "/home/ann/.cache/flodl/x", "place-not-usable", "FLODL_HOME"),
        (errno.EROFS, "/srv/project/.venv", "place-not-usable", "`ls -ld /srv/project/.venv`"),
        (errno.ENOTDIR, "/home/ann/.cache", "place-not-usable", "FLODL_HOME"),
        (errno.ENOENT, "/home/ann", "place-not-usable", "FLODL_HOME"),
    ],
)
def test_storage_error_names_the_place(number, place, error_id, hint):
    error = storage_error(OSError(number, os.strerror(number), place), FOLDERS)
    assert error.error_id == error_id
    assert hint in error.hint
    assert place is None or place in error.message
    assert error.exit_code == 5


@pytest.mark.parametrize("number", [errno.ENOENT, errno.EEXIST, errno.EINVAL])
def test_storage_error_leaves_other_problems_to_be_bugs(number):
    assert storage_error(OSError(number, os.strerror(number), "/srv/x"), FOLDERS) is None


@pytest.mark.parametrize("below", ["", ".venv", "a/b/.venv"])
def test_require_writable_names_the_nearest_folder_that_exists(tmp_path, monkeypatch, below):
    require_writable(tmp_path / below)
    allowed = os.access
    # Root may write everywhere.
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path and allowed(path, mode))
    with pytest.raises(EnvironmentLackingError, match="so nothing was downloaded") as caught:
        require_writable(tmp_path / below)
    assert caught.value.error_id == "place-not-usable"
    assert f"`ls -ld {tmp_path}`" in caught.value.hint


@pytest.mark.slow
@pytest.mark.parametrize("home", ["/dev/null", "/proc/1", "/proc/none"])
def test_setup_with_an_unusable_home_says_so(project, home):
    project.home = f"{home}/flodl"
    document = project.setup(code=5)
    assert document["error"]["id"] in ("place-not-usable", "cache-not-writable")
    assert home in document["error"]["message"]
    assert project.setup("--dry-run")["data"]["dry_run"]


@pytest.mark.slow
@pytest.mark.parametrize("exists", [False, True])
def test_setup_on_a_full_environment_disk_says_so(project, tmp_path, exists):
    small = tmp_path / "small"
    small.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "none", small],
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip("this user cannot mount a small disk")
    try:
        environment = small / "environment"
        if exists:
            venv.create(environment, with_pip=False, symlinks=True)
        before = [*small.rglob("*")]
        room = shutil.disk_usage(small).free
        (small / "filler").write_bytes(b"x" * (room - 8192))
        document = project.setup("--env", str(environment), code=5)
        assert document["error"]["id"] == "disk-full", document
        left = {*small.rglob("*")} - {small / "filler", environment / "fdl-switch.lock"}
        assert left == {*before}
    finally:
        subprocess.run(["umount", small], check=True)
