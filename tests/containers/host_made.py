"""What a build in a container needs, made from this machine alone: a Python image and wheels.

No registry and no package index is asked. The image holds this machine's own Python with the
libraries that it needs; the wheels are packed again from what is installed here. torch is too large
to be copied into every layer: its wheel only points to `/host-site`, where a container finds this
machine's own when that folder is mounted.
"""

import base64
import hashlib
import io
import platform
import shutil
import stat
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HOST_SITE = "/host-site"
ROOT = Path(__file__).parents[2]
# Installed here, and only pointed to.
POINTED_TO = ("torch", "numpy")
PROGRAMS = (
    "sh", "bash", "cat", "chmod", "chown", "cp", "df", "env", "id", "ln", "ls", "mkdir", "mv",
    "rm", "sleep", "test", "touch", "tr", "uname", "useradd",
)  # fmt: skip
ACCOUNTS = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\n",
    "etc/group": "root:x:0:\n",
    "etc/shadow": "root:*:19000:0:99999:7:::\n",
    "etc/gshadow": "root:*::\n",
    "etc/login.defs": "UID_MIN 1000\nGID_MIN 1000\nUSERGROUPS_ENAB yes\n",
}
SYSTEM = "/usr/bin:/bin:/usr/sbin:/sbin"
# Written by whoever installs a wheel, not part of it.
UNMADE = ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json")
NO_PART_OF_IT = (
    "__pycache__",
    "site-packages",
    "test",
    "tests",
    "idlelib",
    "tkinter",
    "turtledemo",
)


DEBIAN_BALLAST = ("dev/", "usr/include/", "usr/share/doc/", "usr/share/locale/", "var/")


def site_packages() -> Path:
    """Return the folder that holds this machine's torch."""
    return Path(str(metadata.distribution("torch").locate_file("")))


def torch_variant() -> str:
    """Return the name of this torch's build, as in the official index."""
    import torch

    return "cpu" if torch.version.cuda is None else f"cu{torch.version.cuda.replace('.', '')}"


def python_image(path: Path, wheels: Path) -> None:
    """Write a root file system with this Python and the wheels at `/wheels`."""
    if debian_root() is None:
        image_of_this_machine(path, wheels)
    else:
        image_of_debian(path, wheels)


def debian_root() -> Path | None:
    """Return the root of the Debian that this Python lies in, unless that is the machine itself.

    `.ci/other_pythons.py` makes one where the machine lacks a version of Python.
    """
    root = Path(sys.base_prefix).parent
    return root if root != Path("/") and (root / "etc" / "debian_version").is_file() else None


def image_of_debian(path: Path, wheels: Path) -> None:
    """Write the root of this Python's Debian.

    Its Python names its loader and libraries by their places on this machine. A link makes these places
    known in a container too.
    """
    root = debian_root()
    assert root is not None
    above = [str(folder).lstrip("/") for folder in root.parents if folder != Path("/")]

    def kept(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
        if info.name in above:  # Debian closes `/root` to others
            info.mode |= 0o055
        return without_papers(info)

    with tarfile.open(path, "w") as tar:
        for entry in sorted(root.iterdir()):
            tar.add(entry, entry.name, filter=kept)
        for name in (*reversed(above), "work", "workspace"):
            if not (root / name).is_dir():
                add_folder(tar, name, 0o1777 if name.startswith("work") else 0o755)
        add_link(tar, str(root).lstrip("/"), "/")
        python = f"/usr/bin/python{sys.version_info[0]}.{sys.version_info[1]}"
        for name in ("python3", "python"):
            add_link(tar, f"usr/local/bin/{name}", python)
        tar.add(wheels, "wheels")


def image_of_this_machine(path: Path, wheels: Path) -> None:
    """Write a root with this Python at `/usr/local` and programs of this machine."""
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    base = Path(sys.base_prefix)
    stdlib = base / "lib" / version
    programs = [Path(found) for name in PROGRAMS if (found := shutil.which(name, path=SYSTEM))]
    python = (base / "bin" / version).resolve()
    needed = {*programs, python, *stdlib.glob("lib-dynload/*.so")}
    with tarfile.open(path, "w", dereference=True) as tar:
        for folder in ("bin", "etc", "proc", "root", "usr/local/bin", "usr/local/lib", "usr/bin"):
            add_folder(tar, folder, 0o755)
        for folder in ("tmp", "work", "workspace"):
            add_folder(tar, folder, 0o1777)
        for program in programs:
            tar.add(program, f"bin/{program.name}")
        for name in (version, "python3", "python"):
            tar.add(python, f"usr/local/bin/{name}")
        tar.add(stdlib, f"usr/local/lib/{version}", filter=without_ballast)
        for library in sorted(libraries(needed)):
            name = str(library).lstrip("/")
            inside = library.is_relative_to(base)
            tar.add(library, f"usr/local/lib/{library.name}" if inside else name)
        for name, text in ACCOUNTS.items():
            add_text(tar, name, text)
        tar.add(wheels, "wheels")


def libraries(files: Iterable[Path]) -> set[Path]:
    """Return the shared libraries that programs and modules need, the loader among them."""
    found: set[Path] = set()
    extra = site_packages() / "torch" / "lib"
    names = [*map(str, files), *map(str, extra.glob("libtorch_cpu.so"))]
    listed = subprocess.run(["ldd", *names], capture_output=True, text=True, check=False)
    for word in listed.stdout.split():
        if word.startswith("/") and not word.endswith(":") and Path(word).is_file():
            found.add(Path(word))
    return {path for path in found if not path.is_relative_to(site_packages())}


def without_ballast(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Leave out what no container needs: tests, compiled files, other packages."""
    parts = info.name.split("/")
    ballast = any(part in NO_PART_OF_IT or part.startswith("config-") for part in parts)
    return None if ballast else info


def without_papers(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Leave out what no container needs of a Debian: manuals, headers, the packages it came from."""
    is_ballast = info.name.startswith(DEBIAN_BALLAST) or info.name.endswith((".a", ".pyc"))
    return None if is_ballast else info


def add_link(tar: tarfile.TarFile, name: str, target: str) -> None:
    """Add a symbolic link."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, target
    tar.addfile(info)


def add_folder(tar: tarfile.TarFile, name: str, mode: int) -> None:
    """Add an empty folder, with those above it."""
    parts = name.split("/")
    there = set(tar.getnames())
    for end in range(1, len(parts) + 1):
        info = tarfile.TarInfo("/".join(parts[:end]))
        if info.name in there:
            continue
        info.type, info.mode = tarfile.DIRTYPE, mode if end == len(parts) else 0o755
        tar.addfile(info)


def add_text(tar: tarfile.TarFile, name: str, text: str) -> None:
    """Add a file with this text."""
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(text.encode()), 0o644
    tar.addfile(info, io.BytesIO(text.encode()))


def linked_packages() -> list[str]:
    """Return the entries of `site_packages` that are torch, numpy and most of what they need."""
    from tests.cli.test_user_python import belongs_to_torch

    entries = [path.name for path in site_packages().iterdir() if path.suffix != ".pth"]
    return sorted(name for name in entries if belongs_to_torch(name.lower()))


def needed_beside_links() -> list[str]:
    """Return the requirements of torch that `linked_packages` leaves out."""
    from tests.cli.test_user_python import belongs_to_torch

    return [
        need for need in metadata.requires("torch") or () if not belongs_to_torch(need.lower())
    ]


def fill_wheelhouse(folder: Path, *names: str) -> None:
    """Pack wheels of installed distributions and all that they need; flodl is built, with its tool."""
    folder.mkdir(parents=True, exist_ok=True)
    command = ["-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run([sys.executable, *command], check=True, capture_output=True, cwd=folder)
    (ours,) = folder.glob("flodl-*.whl")
    with zipfile.ZipFile(ours) as wheel:
        (info,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        text = wheel.read(info).decode()
    lines = (line.partition(": ") for line in text.splitlines())
    asked = [Requirement(wanted) for head, _, wanted in lines if head == "Requires-Dist"]
    tool = [
        f"{each.name}{each.specifier}"
        for each in asked
        if each.marker is None or each.marker.evaluate({"extra": "cli"})
    ]
    for dist in closure([*names, *tool]):
        if canonicalize_name(dist.name) in POINTED_TO:
            point_to_host(dist, folder)
        else:
            pack(dist, folder)


def closure(requirements: Iterable[str]) -> Iterator[metadata.Distribution]:
    """Yield the installed distributions that some requirements lead to, each once."""
    seen: set[str] = set()
    waiting = [Requirement(text) for text in requirements]
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        if name in seen or (
            wanted.marker is not None and not wanted.marker.evaluate({"extra": ""})
        ):
            continue
        seen.add(name)
        dist = metadata.distribution(name)
        yield dist
        if name not in POINTED_TO:
            waiting += [Requirement(text) for text in dist.requires or ()]


def pack(dist: metadata.Distribution, folder: Path) -> None:
    """Pack an installed distribution as the wheel that it came from."""
    own = {entry.name for entry in dist.entry_points if entry.group.endswith("_scripts")}
    stem = f"{canonicalize_name(dist.name).replace('-', '_')}-{dist.version}"
    files: dict[str, Path] = {}
    for file in dist.files or ():
        source = Path(str(dist.locate_file(file)))
        if file.suffix == ".pyc" or not source.is_file() or file.name in UNMADE:
            continue
        if ".." not in file.parts:
            files[str(file)] = source
        elif file.parent.name == "bin" and file.name not in own:
            files[f"{stem}.data/scripts/{file.name}"] = source
    lines = (dist.read_text("WHEEL") or "").splitlines()
    tags = [line.removeprefix("Tag:").strip().split("-") for line in lines if line[:4] == "Tag:"]
    tag = "-".join(".".join(dict.fromkeys(part)) for part in zip(*tags, strict=True))
    contents = {name: source.read_bytes() for name, source in files.items()}
    write_wheel(folder / f"{stem}-{tag}.whl", contents)


def point_to_host(dist: metadata.Distribution, folder: Path) -> None:
    """Write a wheel of the same name and version that holds nothing but a path."""
    name = canonicalize_name(dist.name)
    version = dist.version
    tag = "py3-none-any"
    if name == "torch":
        # `fdl setup` chooses among builds for a platform.
        minor = f"cp{sys.version_info[0]}{sys.version_info[1]}"
        tag = f"{minor}-{minor}-manylinux_2_28_{platform.machine()}"
        # Whoever asks for 2.13.0 may have this one, whoever asks for 2.13.0+cpu must.
        version = f"{version.partition('+')[0]}+{torch_variant()}"
    info = f"{name}-{version}.dist-info"
    contents = {
        f"fdl_tests_{name}.pth": f"{HOST_SITE}\n".encode(),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: "
        + tag.encode()
        + b"\n",
    }
    write_wheel(folder / f"{name}-{version}-{tag}.whl", contents)


def write_wheel(path: Path, contents: dict[str, bytes]) -> None:
    """Write a wheel with a RECORD of everything in it."""
    tops = {name.partition("/")[0] for name in contents}
    (info,) = (name for name in tops if name.endswith(".dist-info"))
    rows = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as wheel:
        for name, data in contents.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            rows.append(f"{name},sha256={digest},{len(data)}\n")
            entry = zipfile.ZipInfo(name)
            mode = 0o755 if ".data/scripts/" in name else 0o644
            entry.external_attr = (stat.S_IFREG | mode) << 16
            wheel.writestr(entry, data)
        wheel.writestr(f"{info}/RECORD", "".join([*rows, f"{info}/RECORD,,\n"]))


def import_image(address: str, path: Path, *names: str) -> None:
    """Import a root file system under some names; its builds find packages in `/wheels` only."""
    import docker

    api = docker.APIClient(base_url=address, timeout=300)
    values = "PATH=/usr/local/bin:/bin LD_LIBRARY_PATH=/usr/local/lib"
    changes = [f"ENV {values} PIP_NO_INDEX=1 PIP_FIND_LINKS=/wheels"]
    repository, _, tag = names[0].partition(":")
    with path.open("rb") as file:
        api.import_image_from_data(file.read(), repository=repository, tag=tag, changes=changes)
    for name in names[1:]:
        api.tag(names[0], *name.split(":"))
    api.close()


def open_to_all(folder: Path) -> None:
    """Let another user reach a folder of this test."""
    for parent in folder.parents:
        if str(parent) not in ("/", "/tmp") and parent.owner() == "root":
            parent.chmod(parent.stat().st_mode | 0o055)


def as_user(uid: int) -> tuple[str, ...]:
    """Return the words that run a program as another user who may still read this Python."""
    return (
        "setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups",
        "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search",
    )  # fmt: skip


def fill_pip(folder: Path) -> None:
    """Pack the pip that is installed here too."""
    if not any(folder.glob("pip-*.whl")):
        pack(metadata.distribution("pip"), folder)
