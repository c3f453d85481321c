"""`./fdl`: the first start, what can go wrong in it, and that it repairs itself.

Python and pip are played by a script, so that every failure can be had at will and in no time.
"""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
TOOLS = (
    "awk", "basename", "cat", "cksum", "cp", "df", "dirname", "env", "grep", "ls", "mkdir", "mv",
    "readlink", "rm", "rmdir", "sed", "sh", "sleep", "tail", "tr", "uname",
)  # fmt: skip

FAKE_PYTHON = r"""#!/bin/sh
echo "$*" >>"$FAKE_LOG"
case "$1 ${2:-}" in
    "-c import sys; print"*) echo "$0 ${FAKE_VERSION:-3.11} ${FAKE_FITS:-True}" ;;
    "-c import ensurepip"*) exit "${FAKE_VENV_MISSING:-0}" ;;
    "-c import pip"*) exit 0 ;;
    "--version "*) echo "Python ${FAKE_VERSION:-3.11}.0" ;;
    "- http"*) exit "${FAKE_PROBE:-1}" ;;
    "-m venv")
        mkdir -p "$3/bin"
        cp "$0" "$3/bin/python"
        printf '#!/bin/sh\nfor word do printf "<%%s>" "$word"; done\n' >"$3/bin/fdl"
        echo 'exit "${FAKE_EXIT:-0}"' >>"$3/bin/fdl"
        chmod +x "$3/bin/fdl" ;;
    "-c import json"*) echo "${FAKE_GPU_PACKAGES:-0}" ;;
    "-m pip")
        case "$*" in
            *--dry-run*) exit 0 ;;
            *+cpu*) [ -z "${FAKE_NO_MARKED:-}" ] ||
                { echo "ERROR: No matching distribution found for torch==2.13.0+cpu"; exit 1; } ;;
        esac
        [ -z "${FAKE_PIP_SAYS:-}" ] || echo "$FAKE_PIP_SAYS" >&2
        [ -z "${FAKE_PIP_SLEEPS:-}" ] || sleep "$FAKE_PIP_SLEEPS"
        exit "${FAKE_PIP_EXIT:-0}" ;;
    *) echo "unexpected: $*" >&2; exit 99 ;;
esac
"""


class Checkout:
    """A copy of what the bootstrap needs, in a folder with a blank in its name."""

    def __init__(self, folder):
        self.root = folder / "my checkout"
        self.tools = folder / "tools"
        self.log = folder / "calls.log"
        self.root.mkdir()
        self.tools.mkdir()
        for name in ("fdl", "pyproject.toml", "constraints.txt"):
            shutil.copy(ROOT / name, self.root)
        for name in (*TOOLS, "chmod"):
            (self.tools / name).symlink_to(shutil.which(name))
        self.python = self.tools / "python3"
        self.python.write_text(FAKE_PYTHON)
        self.python.chmod(0o755)
        self.venv = self.root / ".venv"

    def environ(self, **changes):
        return {
            "PATH": str(self.tools),
            "HOME": str(self.root.parent),
            "FAKE_LOG": str(self.log),
            "FDL_SKIP_DISK_CHECK": "1",
            "FDL_TORCH": "cpu",
            **changes,
        }

    def start(self, *arguments, **changes):
        return subprocess.Popen(
            [str(self.root / "fdl"), *arguments],
            env=self.environ(**changes),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments, **changes):
        process = self.start(*arguments, **changes)
        out, err = process.communicate(timeout=60)
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def calls(self, beginning):
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [line for line in lines if line.startswith(beginning)]

    def leftovers(self):
        return sorted(path.name for path in self.root.glob(".venv*"))


@pytest.fixture
def checkout(tmp_path):
    return Checkout(tmp_path)


def test_the_first_start_installs_and_the_second_only_starts(checkout):
    first = checkout.run("port", "a b", "$x", "--", "*")
    assert (first.returncode, first.stdout) == (0, "<port><a b><$x><--><*>")
    assert "making" in first.stderr
    assert len(checkout.calls("-m pip")) == 1
    checkout.log.unlink()
    second = checkout.run("port")
    assert (second.returncode, second.stdout, second.stderr) == (0, "<port>", "")
    assert checkout.calls("") == []
    assert checkout.leftovers() == [".venv"]


def test_the_exit_code_is_that_of_fdl(checkout):
    assert checkout.run(FAKE_EXIT="7").returncode == 7
    assert checkout.run(FAKE_EXIT="7").returncode == 7


def test_it_works_from_elsewhere_and_through_a_link(checkout, tmp_path):
    link = tmp_path / "links" / "fdl"
    link.parent.mkdir()
    link.symlink_to(checkout.root / "fdl")
    done = subprocess.run(
        [str(link), "x"],
        cwd="/",
        env=checkout.environ(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "<x>")
    assert (checkout.venv / "fdl-state").is_file()


def test_a_changed_lock_installs_again_in_place(checkout):
    checkout.run()
    (checkout.venv / "mine").write_text("kept")
    (checkout.root / "constraints.txt").write_text("torch==9\n")
    assert checkout.run().returncode == 0
    assert len(checkout.calls("-m pip")) == 2
    assert len(checkout.calls("-m venv")) == 1
    assert (checkout.venv / "mine").exists()


def test_without_a_gpu_only_the_cpu_build_is_asked_for(checkout):
    if any(Path(name).exists() for name in ("/dev/nvidia0", "/dev/kfd")):
        pytest.skip("this machine has a GPU")
    checkout.run(FDL_TORCH="")
    (call,) = checkout.calls("-m pip")
    assert " torch==2.13.0+cpu" in call
    assert "--extra-index-url" not in call


def test_the_cpu_index_is_used_when_it_answers(checkout):
    checkout.run(FAKE_PROBE="0")
    (call,) = checkout.calls("-m pip")
    assert "--extra-index-url https://download.pytorch.org/whl/cpu " in call
    assert " torch==2.13.0+cpu" in call


def test_any_build_of_torch_only_when_asked_for(checkout):
    checkout.run(FDL_TORCH="any")
    (call,) = checkout.calls("-m pip")
    assert f"{call} ".count(" torch==2.13.0 ") == 1


def test_an_unmarked_build_is_taken_when_it_is_small(checkout):
    done = checkout.run("x", FAKE_NO_MARKED="1")
    assert (done.returncode, done.stdout) == (0, "<x>")
    marked, asked, unmarked = checkout.calls("-m pip")
    assert " torch==2.13.0+cpu" in marked
    assert "--dry-run" in asked
    assert " torch==2.13.0 " in f"{unmarked} "


FAILURES = {
    "python-too-old": ({"FAKE_VERSION": "3.9", "FAKE_FITS": "False"}, 5, "3.9"),
    "venv-missing": ({"FAKE_VENV_MISSING": "1"}, 5, "python3-venv"),
    "torch-choice": ({"FDL_TORCH": "rocm"}, 2, "FDL_TORCH=cpu"),
    "network": (
        {"FAKE_PIP_EXIT": "1", "FAKE_PIP_SAYS": "Failed to establish a new connection"},
        5,
        "pip config list",
    ),
    "disk-full": (
        {"FAKE_PIP_EXIT": "1", "FAKE_PIP_SAYS": "[Errno 28] No space left on device"},
        5,
        "free about",
    ),
    "torch-is-cuda": ({"FAKE_NO_MARKED": "1", "FAKE_GPU_PACKAGES": "15"}, 5, "FDL_TORCH=any"),
    "torch-unavailable": (
        {
            "FAKE_PIP_EXIT": "1",
            "FAKE_PIP_SAYS": "ERROR: No matching distribution found for torch==2.13.0+cpu",
        },
        5,
        "FDL_TORCH=any",
    ),
    "install-failed": (
        {"FAKE_PIP_EXIT": "1", "FAKE_PIP_SAYS": "something else"},
        5,
        "  cause: something else\n",
    ),
}


@pytest.mark.parametrize("error_id", FAILURES)
def test_a_failed_first_start_explains_itself_and_leaves_nothing(checkout, error_id):
    changes, code, says = FAILURES[error_id]
    done = checkout.run("port", **changes)
    assert (done.returncode, done.stdout) == (code, "")
    assert f"error[{error_id}]: " in done.stderr
    assert "\n  hint: " in done.stderr
    assert says in done.stderr
    assert set(checkout.leftovers()) <= {".venv.log"}
    assert checkout.run("port").returncode == 0, "the next start is not spoilt by the failed one"


def test_no_python_at_all(checkout):
    checkout.python.unlink()
    done = checkout.run()
    assert done.returncode == 5
    assert "error[python-missing]: " in done.stderr
    assert checkout.leftovers() == []


def test_too_little_room_is_seen_before_anything_is_written(checkout):
    (checkout.tools / "df").unlink()
    fake = checkout.tools / "df"
    fake.write_text("#!/bin/sh\necho Filesystem\necho 'disk 9 9 1048576 9% /'\n")
    fake.chmod(0o755)
    done = checkout.run(FDL_SKIP_DISK_CHECK="")
    assert done.returncode == 5
    assert "error[disk-full]: " in done.stderr
    assert "1024 MB are free" in done.stderr
    assert checkout.leftovers() == []


@pytest.mark.parametrize("path", ["", "/nonexistent"])
def test_first_start_without_the_tools_of_the_system_names_path(checkout, path):
    done = subprocess.run(
        ["/bin/sh", checkout.root / "fdl"],
        env={"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr.startswith(
        f"error[tools-missing]: there is no `cat` on PATH, which is '{path}'\n  hint: "
    )
    page = "  page: https://flodl.github.io/flodl/reference/errors/tools-missing.html\n"
    assert done.stderr.endswith(page)
    assert done.stderr.count("\n") == 3
    assert checkout.leftovers() == []


def test_a_folder_that_cannot_be_written(checkout):
    done = checkout.run(FDL_VENV="/proc/fdl/venv")
    assert done.returncode == 5
    assert "error[folder-read-only]: " in done.stderr
    assert "FDL_VENV=" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("group", [True, False])
def test_an_interrupted_install_repairs_itself(checkout, number, group):
    process = checkout.start("port", FAKE_PIP_SLEEPS="3")
    deadline = time.monotonic() + 20
    while not checkout.calls("-m pip"):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    (checkout.venv / "half").write_text("installed")
    if group:
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    # Not communicate(): an orphan may hold the pipes open for a while.
    process.wait(timeout=30)
    process.stdout.close()
    process.stderr.close()
    assert process.returncode != 0
    assert not (checkout.venv / "fdl-state").exists()
    done = checkout.run("port")
    assert (done.returncode, done.stdout) == (0, "<port>")
    assert not (checkout.venv / "half").exists()
    assert checkout.leftovers() == [".venv"]


def test_an_environment_of_somebody_else_is_used_and_never_removed(checkout):
    subprocess.run(
        [str(checkout.python), "-m", "venv", str(checkout.venv)],
        env=checkout.environ(),
        check=True,
    )
    (checkout.venv / "mine").write_text("kept")
    failed = checkout.run(FAKE_PIP_EXIT="1")
    assert failed.returncode == 5
    assert (checkout.venv / "mine").exists()
    assert checkout.run("x").stdout == "<x>"
    assert (checkout.venv / "mine").exists()


def test_a_broken_environment_of_somebody_else_is_left_alone(checkout):
    checkout.venv.mkdir()
    (checkout.venv / "mine").write_text("kept")
    done = checkout.run()
    assert done.returncode == 5
    assert "error[venv-foreign]: " in done.stderr
    assert (checkout.venv / "mine").exists()


@pytest.mark.slow
def test_two_first_starts_at_once_install_once(checkout):
    both = [checkout.start("port", FAKE_PIP_SLEEPS="2") for _ in range(2)]
    for process in both:
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out) == (0, "<port>"), err
    assert len(checkout.calls("-m pip")) == 1
    assert checkout.leftovers() == [".venv"]
