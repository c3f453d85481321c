"""Distributions installed in a folder of packages, and those of them that belong to torch."""

import csv
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final, final

from fdl_cli.torch_setup.install.wheel_tree import Dist

# Distributions that come and go with a build of torch. `nvidia-ml-py` and the like do not.
_FAMILY: Final = re.compile(
    r"torch|(pytorch-)?triton(-rocm|-xpu|-windows)?|cuda-(toolkit|bindings|pathfinder)"
    r"|nvidia-(cublas|cuda|cudnn|cufft|cufile|curand|cusolver|cusparse|cusparselt|nccl"
    r"|nvjitlink|nvshmem|nvtx)(-.*)?"
    r"|intel-(cmplr|opencl|openmp|pti|sycl)-?.*|dpcpp-cpp-rt|mkl|onemkl-.*|oneccl.*|impi-rt"
    r"|tbb|tcmlib|umf"
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SiteDist:
    """An installed distribution; `files` are relative to the packages folder, None if unknown."""

    name: str
    version: str
    info: str
    files: tuple[str, ...] | None


def normal_name(name: str) -> str:
    """Return the one spelling of a project's name.

    Example:
        >>> normal_name("Typing_Extensions")
        'typing-extensions'
    """
    return re.sub(r"[-_.]+", "-", name).lower()


def belongs_to_torch(name: str) -> bool:
    """Return True if a distribution comes and goes with a build of torch."""
    return _FAMILY.fullmatch(normal_name(name)) is not None


def read_site(site: Path) -> dict[str, SiteDist]:
    """Return the installed distributions by their normal names."""
    found: dict[str, SiteDist] = {}
    for info in sorted(site.glob("*.dist-info")):
        name, _, version = info.name.removesuffix(".dist-info").partition("-")
        found[normal_name(name)] = SiteDist(
            name=normal_name(name),
            version=version,
            info=info.name,
            files=_read_record(info / "RECORD"),
        )
    return found


def is_satisfied(existing: SiteDist, incoming: tuple[Dist, ...]) -> bool:
    """Return True if an installed dependency meets what the incoming distributions require of it."""
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.version import InvalidVersion, Version

    try:
        version = Version(existing.version)
    except InvalidVersion:
        return False
    for dist in incoming:
        for text in dist.requires:
            try:
                requirement = Requirement(text)
            except InvalidRequirement:
                return False
            if normal_name(requirement.name) != existing.name:
                continue
            if not requirement.specifier.contains(version, prereleases=True):
                return False
    return True


def exclusive_entries(
    outgoing: tuple[SiteDist, ...], staying: tuple[SiteDist, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split the outgoing files into whole top-level entries and single files in shared folders."""
    kept = {_top(file) for dist in staying for file in dist.files or ()}
    leaving = {file for dist in outgoing for file in dist.files or ()}
    whole = sorted({_top(file) for file in leaving if _inside(file)} - kept)
    single = sorted(file for file in leaving if not _inside(file) or _top(file) in kept)
    return tuple(whole), tuple(single)


def _top(file: str) -> str:
    first = file.partition("/")[0]
    return PurePosixPath(file).parts[0] if first in ("", ".") else first


def _inside(file: str) -> bool:
    return ".." not in file.split("/")


def _read_record(path: Path) -> tuple[str, ...] | None:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return tuple(row[0] for row in csv.reader(file) if row)
    except OSError:
        return None
