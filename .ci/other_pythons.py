"""Tests of the runtime, the prover, the porter and a new project under the other versions of Python.

The whole suite runs under one Python, that of `.venv`. Bytecode, warnings and messages differ between
versions, so these tests also run under the oldest and the newest version that we promise, each with the
newest torch for it. Such a Python is found on the machine; where CI runs as root and there is none, it
is taken out of a small Debian:

    ~/.cache/fdl/pythons/debian-trixie/usr/bin/python3.13     from debootstrap
    ~/.cache/fdl/environments/3.13-5d41402abc4b/              a venv with what the tests import
    ~/.cache/fdl/wheels/3.13/                                 what pip has fetched

All of it stays there for the next run.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import ssl
import subprocess
import sys
import time
import tomllib
import urllib.request
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import pythons

ROOT = Path(__file__).parent.parent
THIS = sys.version_info.minor
# Minor version -> the release of Debian that has it.
RELEASES = {11: "bookworm", 13: "trixie"}
# 3.13.0 makes torch.compile warn that its guards are slow, and warnings are errors here.
OLDEST = {11: (3, 11, 0), 13: (3, 13, 1)}
PACKAGES = ("debootstrap", "debian-archive-keyring", "patchelf")
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
# The newest torch brings its own versions of these.
UNPINNED = {"torch", "torchvision"}
NATIVE = "test_train_after_yes_sets_the_project_up_and_trains"
# Their slow tests run under one Python, because no version changes what they look at: steps and regions made
# by the C++ compiler, trainings of several processes, trainings of thousands of steps, removed features,
# stand-ins, torch.compile as the first caller, files that survive a kill, servers, and pages in a browser.
# Their fast tests run under each, as do slow tests of tracing, guards, export and the prover.
ONCE = (
    "tests/flodl/checkpoint",
    "tests/flodl/distributed",
    "tests/flodl/hf/test_exchange.py",
    "tests/flodl/hf/test_steps.py",
    "tests/flodl/migration/test_feature_removals.py",
    "tests/flodl/monitor",
    "tests/flodl/runs",
    "tests/flodl/step",
    "tests/flodl/test_first_caller.py",
    "tests/flodl/test_soak.py",
    "tests/flodl/train",
    "tests/flodl/visual",
    "tests/flodl_verify/test_stubs.py",
)
LEFT_OUT = tuple(f"--ignore={each}" for each in ONCE)
# Of the porter, which makes the same text under each version, the slow tests of what bytecode and torch do.
PORTER = (
    "tests/porter/test_cases.py",
    "tests/porter/test_made_in_every_call.py",
    "tests/porter/test_sure_values.py",
    "tests/porter/test_tensors_read_live.py",
    "tests/porter/test_tools_trace_torchvision.py",
)
# All tests of runtime and prover but those. The last one goes from a wheel to a training.
TESTS = (
    (*LEFT_OUT, "tests/flodl", "tests/flodl_verify"),
    ("-m", "not slow and not campaign", *ONCE, "tests/porter"),
    (
        "-rs",
        "-m",
        "slow",
        *PORTER,
        f"tests/torch_setup/test_new_project.py::{NATIVE}",
    ),
)
MOST_ENVIRONMENTS = 2


class NotAvailableError(Exception):
    """A Python or its packages cannot be had; the text says why."""


def others() -> list[int]:
    """Return the minor versions that the suite promises, without that of this Python."""
    return [minor for minor in RELEASES if minor != THIS]


def say(minor: int, verdict: str, started: float) -> None:
    """Print one line in the form of the other checks."""
    print(f"python 3.{minor} {verdict}  {time.monotonic() - started:.1f} s", flush=True)


def prepare(minor: int) -> Path:
    """Return a Python 3.`minor` that has what the tests import.

    Raises:
        NotAvailableError: there is none, and none can be made.
    """
    cache = pythons.cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    with locked(cache / "lock"):
        python = pythons.find(minor, OLDEST[minor])
        if python is None:
            python = build(minor, cache)
        return install(python, minor, cache)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let one process at a time write to the cache."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def run(words: list[str], failure: str) -> str:
    """Run a program and return its output.

    Raises:
        NotAvailableError: it failed; the text has the last lines of what it said.
    """
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(
        words, cwd=ROOT, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        last = "\n".join(done.stdout.strip().splitlines()[-5:])
        raise NotAvailableError(f"{failure} (exit code {done.returncode}):\n{last}")
    return done.stdout


def build(minor: int, cache: Path) -> Path:
    """Make a small Debian in the cache and return its Python, which starts without a chroot."""
    if not os.environ.get("CI"):
        raise NotAvailableError(
            f"there is no Python {'.'.join(map(str, OLDEST[minor]))} or newer of 3.{minor} on PATH; "
            f"`uv python install 3.{minor}` brings one"
        )
    missing = [name for name in ("debootstrap", "patchelf") if shutil.which(name) is None]
    if os.geteuid() != 0 or (missing and shutil.which("apt-get") is None):
        raise NotAvailableError(
            f"there is no Python 3.{minor}, and to make one takes root and debootstrap"
        )
    if missing:
        run(["apt-get", "-qq", "update"], "`apt-get update` failed")
        words = ["apt-get", "-qq", "install", "-y", "--no-install-recommends", *PACKAGES]
        run(words, "the packages that make a root cannot be installed")
    release = RELEASES[minor]
    root, new = cache / "pythons" / f"debian-{release}", cache / "pythons" / f"new-{release}"
    for folder in (root, new):  # what was left half done, or was moved and does not start
        shutil.rmtree(folder, ignore_errors=True)
    new.parent.mkdir(exist_ok=True)
    # The headers are for torch.compile, which compiles its own C++.
    include = "--include=python3,libpython3-dev"
    run(
        ["debootstrap", "--variant=minbase", include, release, str(new)],
        f"`debootstrap {release}` failed",
    )
    make_startable(new, root, f"python3.{minor}")
    shutil.rmtree(new / "var" / "cache" / "apt", ignore_errors=True)
    new.rename(root)
    pythons.version_of.cache_clear()
    python = pythons.find(minor, OLDEST[minor])
    if python is None:
        raise NotAvailableError(f"the Python of `debootstrap {release}` in {root} does not start")
    return python


def make_startable(new: Path, root: Path, name: str) -> None:
    """Let the Python of a Debian that will lie at `root` use the libraries there, not the machine's.

    A chroot would need mounts, and everything that tests start inside. With the loader and the search
    path in the file, it is a program like any other.
    """
    python = new / "usr" / "bin" / name
    loader = run(["patchelf", "--print-interpreter", str(python)], "patchelf failed").strip()
    libraries = next((new / "usr" / "lib").glob("*-linux-gnu")).relative_to(new)
    # Two changes of the same kind in one call spoil the file in patchelf 0.14. torch needs libstdc++,
    # and that of the machine may be older or newer than this C library.
    for change in (
        ["--set-interpreter", str(root / libraries / Path(loader).name)],
        ["--add-needed", "libstdc++.so.6"],
        ["--force-rpath", "--set-rpath", str(root / libraries)],
    ):
        run(["patchelf", *change, str(python)], "patchelf failed")


def requirements() -> list[str]:
    """Return what the project and its tests need, torch, and pip, which a venv here is made without."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    names = ("cli", "dev", "torch")
    wanted = {*project["dependencies"], "pip"}.union(*(extras[name] for name in names))
    return sorted(text for text in wanted if not text.startswith("flodl["))


def constraints() -> str:
    """Return the locked versions, without those that belong to a version of torch."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = (line for line in lines if not line.startswith("#"))
    return "".join(f"{line}\n" for line in pinned if line.partition("==")[0] not in UNPINNED)


def install(python: Path, minor: int, cache: Path) -> Path:
    """Return the Python of a venv in the cache that has the requirements."""
    text = "\n".join(
        [str(python), str(pythons.version_of(python)), *requirements(), constraints()]
    )
    key = hashlib.sha256(text.encode()).hexdigest()[:12]
    folder = cache / "environments" / f"3.{minor}-{key}"
    made, complete = folder / "bin" / "python", folder / "complete"
    if complete.exists():
        complete.touch()
        return made
    shutil.rmtree(folder, ignore_errors=True)
    run([str(python), "-m", "venv", "--without-pip", str(folder)], f"`{python} -m venv` failed")
    pins = folder / "constraints.txt"
    pins.write_text(constraints(), encoding="utf-8")
    print(f"python 3.{minor}: installing what its tests import into {folder}", flush=True)
    index = ["--extra-index-url", CPU_INDEX] if cpu_index_answers(made) else []
    wheels = cache / "wheels" / f"3.{minor}"
    pip = [sys.executable, "-m", "pip", "--python", str(made), "--no-input", "--quiet",
           "--disable-pip-version-check", "--no-cache-dir"]  # fmt: skip
    wanted = ["--constraint", str(pins), *requirements()]
    failure = f"pip cannot install what the tests import for Python 3.{minor}"
    # pip keeps what it fetches only if the index allows that, but it never fetches what lies here.
    run(
        [*pip, "wheel", "--progress-bar", "off", "--wheel-dir", str(wheels), *index, *wanted],
        failure,
    )
    run([*pip, "install", "--no-index", "--find-links", str(wheels), *wanted], failure)
    complete.touch()
    forget_environments(folder.parent, f"3.{minor}-*")
    forget_wheels(wheels, made)
    return made


def cpu_index_answers(python: Path) -> bool:
    """Return True if there is no GPU and the index of small builds of torch can be reached."""
    if Path("/dev/nvidia0").exists():
        return False
    bundle = os.environ.get("PIP_CERT") or os.environ.get("SSL_CERT_FILE")
    context = ssl.create_default_context(cafile=bundle)
    version = "cp{}{}".format(*(pythons.version_of(python) or (0, 0)))
    try:
        with urllib.request.urlopen(f"{CPU_INDEX}/torch/", timeout=4, context=context) as answer:
            return version in answer.read().decode()
    except (OSError, ValueError):
        return False


def forget_environments(folder: Path, pattern: str) -> None:
    """Remove all environments of one version but the newest ones: each takes gigabytes."""
    made = sorted(folder.glob(pattern), key=last_use)
    for each in made[:-MOST_ENVIRONMENTS]:
        shutil.rmtree(each, ignore_errors=True)


def last_use(environment: Path) -> float:
    """Return when an environment was last asked for; 0 if it was never complete."""
    complete = environment / "complete"
    return complete.stat().st_mtime if complete.exists() else 0


def forget_wheels(wheels: Path, python: Path) -> None:
    """Remove the wheels of versions that the newest environment does not use."""
    installed = {
        path.name.removesuffix(".dist-info").lower()
        for path in python.parent.parent.glob("lib/python*/site-packages/*.dist-info")
    }
    for wheel in wheels.glob("*.whl"):
        if "-".join(wheel.name.split("-")[:2]).lower() not in installed:
            wheel.unlink()


def run_tests(minor: int, prepared: Future[Path]) -> bool:
    """Run the tests under another Python and show their output; return False if they failed.

    Without such a Python CI fails; elsewhere the tests are skipped, with the reason.
    """
    started = time.monotonic()
    try:
        python = prepared.result()
    except NotAvailableError as error:
        is_ci = bool(os.environ.get("CI"))
        say(minor, f"{'FAILED' if is_ci else 'skipped'}: {error}", started)
        return not is_ci
    # Random examples were searched under the first Python: a few will do.
    environ = {"FDL_HYPOTHESIS": "quick", **os.environ}
    environ |= {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [str(python), "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider"]
    codes = [
        subprocess.run([*command, *words], cwd=ROOT, env=environ, check=False).returncode
        for words in TESTS
    ]
    code = next(filter(None, codes), 0)
    say(minor, "ok" if code == 0 else f"FAILED (exit code {code})", started)
    return code == 0
