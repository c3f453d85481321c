"""Run everything that must hold for this checkout: style, types, layers, script, tests.

`./fdl test` runs all of it; `./fdl test ARGUMENTS` hands the arguments to pytest and runs only
that. The tests of the runtime, the prover and the porter also run under another Python, before the
whole suite. There the fast tests run before the slow ones, in one pytest run, whose summary is the
last line.
"""

import concurrent.futures
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import other_pythons

ROOT = Path(__file__).parent.parent
BIN = Path(sys.executable).parent

CHECKS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("style", (str(BIN / "ruff"), "check", "--quiet", ".")),
    ("format", (str(BIN / "ruff"), "format", "--quiet", "--check", ".")),
    ("types", (str(BIN / "mypy"),)),
    ("layers", (str(BIN / "lint-imports"),)),
    ("script", (str(BIN / "shellcheck"), "fdl", ".ci/run")),
    ("lock", (sys.executable, ".ci/lock.py", "--check")),
)


# Program -> Debian package: tests of the real thing skip where it is missing.
PROGRAMS = {
    "zsh": "zsh",
    "fish": "fish",
    "chromium": "chromium",
    "dockerd": "docker.io",
    "g++": "g++",
}


def install_programs() -> None:
    """Install what tests drive, on a machine that is there for nothing else: root, CI, Debian's apt."""
    missing = [package for name, package in PROGRAMS.items() if shutil.which(name) is None]
    if not missing or not os.environ.get("CI") or os.name != "posix" or os.geteuid() != 0:
        return
    if shutil.which("apt-get") is None:
        return
    started = time.monotonic()
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update"], ["install", "-y", "--no-install-recommends", *missing]):
        done = subprocess.run(
            ["apt-get", "-qq", *words],
            env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
    verdict = "ok" if done.returncode == 0 else f"FAILED: {done.stderr.strip()[-300:]}"
    shown = " ".join(missing)
    print(f"programs {verdict}  {time.monotonic() - started:.1f} s: {shown}", flush=True)


def check(name: str, command: tuple[str, ...]) -> bool:
    """Run one check; its output is shown only when it fails."""
    started = time.monotonic()
    done = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    verdict = "ok" if done.returncode == 0 else f"FAILED (exit code {done.returncode})"
    print(f"{name:<8} {verdict}  {time.monotonic() - started:.1f} s", flush=True)
    if done.returncode != 0:
        print(done.stdout, flush=True)
    return done.returncode == 0


def run_tests(arguments: list[str]) -> int:
    """Run pytest; 'no tests were collected' is a failure too."""
    # Two processes share the cores; torch must not start a thread per core in each.
    environ = {**os.environ, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
    words = arguments or ["-q", "-n", "2", "--durations=10"]
    command = [sys.executable, "-m", "pytest", *words]
    return subprocess.run(command, cwd=ROOT, env=environ, check=False).returncode


def main() -> int:
    """Run the checks and the tests; all of them, even when an early one fails."""
    arguments = sys.argv[1:]
    if arguments:
        return run_tests(arguments)
    install_programs()  # without them their tests skip, and say so
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        # Downloads and the checks share the time.
        prepared = {
            minor: pool.submit(other_pythons.prepare, minor) for minor in other_pythons.others()
        }
        failed = [name for name, command in CHECKS if not check(name, command)]
        failed += [
            f"tests on Python 3.{minor}"
            for minor, future in prepared.items()
            if not other_pythons.run_tests(minor, future)
        ]
    if failed:
        print(f"failed before the tests: {', '.join(failed)}", flush=True)
    return run_tests([]) or (1 if failed else 0)


if __name__ == "__main__":
    sys.exit(main())
