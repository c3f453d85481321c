"""A real Docker engine for the tests that need one: started here, with an image made here.

No registry is asked: the base image holds this machine's own shell and a few programs.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import time
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.containers import host_made

BASE = "fdl-tests/base:1"
PROGRAMS = ("sh", "cat", "id", "env", "touch", "sleep", "stty", "df", "tr", "ls", "seq", "test")


def start_reason() -> str | None:
    """Return why no engine can be started here, or None; installs one where that is fine."""
    if os.name != "posix" or os.geteuid() != 0:
        return "only root can start an engine of its own"
    if shutil.which("dockerd") is not None:
        return None
    disposable = Path("/.dockerenv").exists() or os.environ.get("CI")
    if not disposable or shutil.which("apt-get") is None:
        return "dockerd is not installed (Debian: apt-get install docker.io)"
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update"], ["install", "-y", "--no-install-recommends", "docker.io"]):
        done = subprocess.run(
            ["apt-get", "-qq", *words], env=environ, capture_output=True, timeout=240, check=False
        )
    return None if done.returncode == 0 else "docker.io could not be installed"


def base_image(path: Path) -> None:
    """Write a root file system with a shell: the programs of this machine and their libraries."""
    files: set[Path] = set()
    for name in PROGRAMS:
        program = shutil.which(name, path="/usr/bin:/bin")
        assert program is not None, name
        files.add(Path(program))
        listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False)
        for word in listed.stdout.split():
            if word.startswith("/"):
                files.add(Path(word))
    with tarfile.open(path, "w", dereference=True) as tar:
        names = {
            file: Path("bin", file.name) if file.name in PROGRAMS else file.relative_to("/")
            for file in sorted(files)
        }
        folders = {parent for name in names.values() for parent in name.parents}
        for folder in (*sorted(folders - {Path()}), *map(Path, ("etc", "proc"))):
            add_folder(tar, folder, 0o755)
        for folder in map(Path, ("tmp", "workspace")):
            add_folder(tar, folder, 0o1777)
        for file, name in names.items():
            tar.add(file, arcname=str(name))


def add_folder(tar: tarfile.TarFile, folder: Path, mode: int) -> None:
    info = tarfile.TarInfo(str(folder))
    info.type, info.mode = tarfile.DIRTYPE, mode
    tar.addfile(info)


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start an engine and return its address; it ends with the tests."""
    reason = start_reason()
    if reason is not None:
        pytest.skip(reason)
    # A socket's path may have a hundred characters, and pytest's folders are longer.
    folder = Path(os.environ.get("TMPDIR", "/tmp")) / f"fdl-engine-{os.getpid()}"
    folder.mkdir(mode=0o755)
    # Layers are copied where the kernel cannot stack them; that is slow and always works.
    process = start_engine(folder, "overlay2") or start_engine(folder, "vfs")
    if process is None:
        last = (folder / "log").read_text().splitlines()[-1:]
        shutil.rmtree(folder)
        pytest.skip(f"no engine can be started here: {last}")
    try:
        load_base(f"unix://{folder}/s.sock", folder)
        (folder / "s.sock").chmod(0o666)
        yield f"unix://{folder}/s.sock"
    finally:
        process.terminate()
        process.wait(60)
        unmount_below(folder)
        # Ten thousands of files: `rm` is several times quicker than Python here.
        subprocess.run(["rm", "-rf", str(folder)], check=False, capture_output=True)


@pytest.fixture(scope="session")
def compose_plugin(engine: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a HOME whose docker program knows compose; Debian's newer release has it as a package."""
    home = tmp_path_factory.mktemp("compose-home")
    host_made.open_to_all(home)
    plugins = home / ".docker" / "cli-plugins"
    plugins.mkdir(parents=True)
    for folder in ("/usr/local/lib/docker", "/usr/lib/docker", "/usr/libexec/docker"):
        if Path(folder, "cli-plugins", "docker-compose").exists():
            return home
    if shutil.which("apt-get") is None:
        pytest.skip("docker compose is not installed, and this is no Debian to fetch it from")
    work = tmp_path_factory.mktemp("compose-package")
    (work / "lists" / "partial").mkdir(parents=True)
    keys = "/usr/share/keyrings/debian-archive-keyring.gpg"
    (work / "sources.list").write_text(
        f"deb [signed-by={keys}] http://deb.debian.org/debian trixie main\n"
    )
    apt = (
        "apt-get", "-qq", "-o", f"Dir::Etc::SourceList={work}/sources.list", "-o",
        "Dir::Etc::SourceParts=/dev/null", "-o", f"Dir::State::Lists={work}/lists",
        "-o", "APT::Sandbox::User=root",
    )  # fmt: skip
    for words in (["update"], ["download", "docker-compose"]):
        subprocess.run([*apt, *words], cwd=work, capture_output=True, timeout=240, check=False)
    package = next(work.glob("docker-compose*.deb"), None)
    if package is None:
        pytest.skip("docker compose is not installed and cannot be fetched")
    subprocess.run(["dpkg-deb", "-x", package, work / "x"], capture_output=True, check=False)
    found = [path for path in (work / "x").rglob("docker-compose") if path.is_file()]
    shutil.copy(max(found, key=lambda path: path.stat().st_size), plugins / "docker-compose")
    (plugins / "docker-compose").chmod(0o755)
    return home


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheels of everything but flodl, in `others`, and that of flodl beside them."""
    folder = tmp_path_factory.mktemp("wheels")
    wanted = ("torch", "numpy", "editables", "hatchling", "pytest", "ruff", "mypy")
    host_made.fill_wheelhouse(folder / "others", *wanted, *host_made.needed_beside_links())
    host_made.fill_pip(folder / "others")
    (ours,) = (folder / "others").glob("flodl-*.whl")
    ours.rename(folder / ours.name)
    host_made.open_to_all(folder / "others")
    return folder


@pytest.fixture(scope="session")
def tool(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tool in a fresh environment, installed from its wheel and with nothing else."""
    folder = tmp_path_factory.mktemp("tool")
    host_made.open_to_all(folder / "env")
    venv.create(folder / "env", with_pip=False, symlinks=True)
    (ours,) = wheels.glob("flodl-*.whl")
    subprocess.run(
        [
            sys.executable, "-m", "pip", "--python", folder / "env" / "bin" / "python", "install",
            "-q", "--no-index", "--find-links", wheels / "others", f"{ours}[cli]",
        ],
        check=True, capture_output=True, timeout=300,
    )  # fmt: skip
    return folder / "env" / "bin" / "fdl"


@pytest.fixture(scope="session")
def python_image(engine: str, wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Import this machine's Python under the names that our Dockerfiles begin from."""
    folder = tmp_path_factory.mktemp("python-image")
    names = ("python:3.12-slim-bookworm", "python:3.11-slim")
    host_made.python_image(folder / "root.tar", wheels / "others")
    host_made.import_image(engine, folder / "root.tar", *names)
    return names[0]


def unmount_below(folder: Path) -> None:
    """Give back what an engine leaves mounted, or its folder could not be removed."""
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    for place in reversed([line.split()[1] for line in mounts]):
        if place.startswith(f"{folder}/"):
            subprocess.run(["umount", "-l", place], check=False, capture_output=True)


def start_engine(folder: Path, storage: str) -> "subprocess.Popen[bytes] | None":
    """Start an engine with a storage driver; None if it ends at once."""
    command = [
        "dockerd", "--iptables=false", "--ip6tables=false", "--bridge=none",
        f"--storage-driver={storage}", "-H", f"unix://{folder}/s.sock",
        "--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec", "-p", f"{folder}/pid",
    ]  # fmt: skip
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    deadline = time.monotonic() + 40
    while process.poll() is None and time.monotonic() < deadline:
        if "API listen on" in (folder / "log").read_text() and (folder / "s.sock").exists():
            return process
        time.sleep(0.1)
    process.kill()
    process.wait(10)
    return None


def load_base(address: str, folder: Path) -> None:
    import docker

    base_image(folder / "base.tar")
    api = docker.APIClient(base_url=address)
    with (folder / "base.tar").open("rb") as file:
        api.import_image_from_data(
            file.read(), repository=BASE.split(":", maxsplit=1)[0], tag=BASE.split(":")[1],
            changes=["ENV PATH=/bin"],
        )  # fmt: skip
    api.close()
