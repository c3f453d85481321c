"""The fact table: which torch builds exist, for which Python, system and GPUs."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any, Final, Literal, cast, final

from fdl_cli.system.facts import OsFacts

PlatformKey = Literal[
    "linux_x86_64",
    "linux_aarch64",
    "windows_amd64",
    "windows_arm64",
    "macos_arm64",
    "macos_x86_64",
]
Capability = tuple[int, int]
Numbers = tuple[int, ...]

_KEYS: Final[dict[tuple[str, str], PlatformKey]] = {
    ("linux", "x86_64"): "linux_x86_64",
    ("linux", "aarch64"): "linux_aarch64",
    ("windows", "x86_64"): "windows_amd64",
    ("windows", "arm64"): "windows_arm64",
    ("macos", "arm64"): "macos_arm64",
    ("macos", "x86_64"): "macos_x86_64",
}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """One published build of torch for one platform.

    `sm` is machine code, `ptx` what a driver may still compile; `default` marks the build that
    PyPI serves. `known` is false when the facts are inherited from an older version.
    """

    version: str
    variant: str
    pythons: tuple[str, ...]
    sm: tuple[Capability, ...] = ()
    ptx: tuple[Capability, ...] = ()
    gfx: tuple[str, ...] = ()
    bundled: bool = True
    advertised: bool = True
    default: bool = False
    glibc: Numbers | None = None
    macos: Numbers | None = None
    certainty: str = "D"
    known: bool = True

    @property
    def key(self) -> Numbers:
        """Return the version as numbers, for comparing."""
        return numbers(self.version)

    @property
    def minor(self) -> Numbers:
        """Return major and minor."""
        return self.key[:2]

    @property
    def cuda(self) -> Capability | None:
        """Return the CUDA version of the build; None for every other kind."""
        digits = self.variant.removeprefix("cu")
        if not digits.isdecimal():
            return None
        return int(digits[:-1]), int(digits[-1])

    @property
    def rocm(self) -> Numbers | None:
        """Return the ROCm version of the build; None for every other kind."""
        return numbers(self.variant[4:]) if self.variant.startswith("rocm") else None

    @property
    def name(self) -> str:
        """Return `2.14.1+cu126`."""
        return f"{self.version}+{self.variant}"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBuild:
    """A build that an index holds; facts that the index does not tell are None.

    `tagged` says whether the file's version carries the variant, as in `2.14.1+cu126`.
    """

    version: str
    variant: str
    pythons: tuple[str, ...] | None = None
    tagged: bool = True


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """The table, its date, and the tables about drivers and GPUs that go with it."""

    as_of: str
    builds: Mapping[PlatformKey, tuple[Build, ...]]
    family_minimum: Mapping[int, tuple[str, str]]
    branches: tuple[tuple[int, Capability], ...]
    last_branch: Mapping[str, int]
    only_exact: frozenset[Capability]
    excluded: Mapping[Capability, frozenset[Capability]]
    integrated_gfx: frozenset[str]
    sizes: Mapping[str, int]


def numbers(text: str) -> Numbers:
    """Turn `2.14.1` into `(2, 14, 1)`."""
    return tuple(int(part) for part in text.split("."))


def capability(text: str) -> Capability:
    """Turn `8.9` into `(8, 9)`."""
    major, _, minor = text.partition(".")
    return int(major), int(minor)


def platform_key(system: OsFacts) -> PlatformKey | None:
    """Return the row of the table for a system; None when torch has no wheels for it."""
    return _KEYS.get((system.platform, system.machine))


@cache
def load() -> Catalogue:
    """Read the table that is part of this package."""
    text = (resources.files("fdl_cli.torch_setup") / "data" / "builds.json").read_text("utf-8")
    table = json.loads(text)
    requirement = table["device_requirement"]
    return Catalogue(
        as_of=str(table["as_of"]),
        builds={key: tuple(_builds(table, key)) for key in _KEYS.values()},
        family_minimum={
            int(major): (str(low[0]), str(low[1]))
            for major, low in table["driver_family_minimum"].items()
        },
        branches=tuple(
            (int(row[0]), capability(row[1])) for row in table["driver_branch_to_cuda"]
        ),
        last_branch={
            name: int(branch) for name, branch in table["last_driver_branch_for_gpu"].items()
        },
        only_exact=frozenset(
            capability(name) for name, rule in requirement.items() if rule == "only"
        ),
        excluded={
            capability(name): frozenset(divmod(int(code), 10) for code in rule[1])
            for name, rule in requirement.items()
            if rule != "only"
        },
        integrated_gfx=frozenset(table["amd_integrated_gfx"]),
        sizes={name: int(size) for name, size in table["pypi_sizes_bytes"].items()},
    )


def with_index(builds: tuple[Build, ...], held: tuple[HeldBuild, ...]) -> tuple[Build, ...]:
    """Return the builds that an index really holds; facts that it cannot tell come from the table.

    The index is the authority for what exists. A version that the table does not know inherits
    the facts of the newest older one of its variant, and is marked as not known.
    """
    found = (_match(builds, item) for item in held)
    return tuple(build for build in found if build is not None)


def of_version(builds: tuple[Build, ...], wish: str) -> tuple[Build, ...]:
    """Return the builds of a wished version, which may name only major and minor.

    A patch release older than the table's of the same minor exists too, with the same facts.
    """
    wanted = numbers(wish)
    if len(wanted) == 2:
        return tuple(build for build in builds if build.minor == wanted)
    exact = tuple(build for build in builds if build.key == wanted)
    if exact:
        return exact
    return tuple(
        replace(build, version=wish, known=False)
        for build in builds
        if build.minor == wanted[:2] and build.key > wanted
    )


def _match(builds: tuple[Build, ...], item: HeldBuild) -> Build | None:
    wanted = numbers(item.version)
    same = [build for build in builds if build.variant == item.variant]
    exact = [build for build in same if build.minor == wanted[:2]]
    older = [build for build in same if build.key < wanted] or same
    kin = _kin(builds, item.variant) if not same else []
    pool = exact or older or kin
    if not pool:
        return None
    model = max(pool, key=lambda build: build.key)
    certain = bool(exact)
    return replace(
        model,
        version=item.version,
        variant=item.variant,
        known=certain,
        default=model.default and certain,
        pythons=model.pythons if item.pythons is None else item.pythons,
    )


def _kin(builds: tuple[Build, ...], variant: str) -> list[Build]:
    """Return builds of the nearest variant of the same CUDA or ROCm major."""
    probe = Build(version="0.0.0", variant=variant, pythons=())
    if probe.cuda is not None:
        same = [b for b in builds if b.cuda is not None and b.cuda[0] == probe.cuda[0]]
        return [b for b in same if b.cuda == max(c.cuda for c in same if c.cuda is not None)]
    if probe.rocm is not None:
        same = [b for b in builds if b.rocm is not None and b.rocm[0] == probe.rocm[0]]
        return [b for b in same if b.rocm == max(c.rocm for c in same if c.rocm is not None)]
    return []


def _builds(table: Mapping[str, Any], key: PlatformKey) -> Iterator[Build]:
    for version, row in table["versions"].items():
        if key.startswith("macos"):
            yield from _macos_builds(version, row, key)
        else:
            yield from _variant_builds(version, row, key)
            yield from _rocm_and_xpu(table, version, row, key)


def _macos_builds(version: str, row: Mapping[str, Any], key: str) -> Iterator[Build]:
    floor = row["macos"].get(key.removeprefix("macos_"))
    if floor is not None:
        yield Build(
            version=version,
            variant="cpu",
            pythons=tuple(row["python"]),
            default=True,
            macos=numbers(floor),
            certainty="A",
        )


def _variant_builds(version: str, row: Mapping[str, Any], key: str) -> Iterator[Build]:
    for variant, cell in row.get(key, {}).items():
        yield Build(
            version=version,
            variant=variant,
            pythons=tuple(cell.get("python") or _pythons(row, key)),
            sm=tuple(capability(text) for text in cell["sm"]),
            ptx=tuple(capability(text) for text in cell["ptx"]),
            advertised=bool(cell["advertised"]),
            default=variant == row["pypi_default_linux"],
            glibc=numbers(cell["glibc"]) if cell.get("glibc") else None,
            certainty=str(cell["certainty"]),
        )


def _rocm_and_xpu(
    table: Mapping[str, Any], version: str, row: Mapping[str, Any], key: str
) -> Iterator[Build]:
    pythons = _pythons(row, key)
    # From 2.6 on these wheels are manylinux_2_28, one version before all others.
    floor = (2, 28) if numbers(version) >= (2, 6) else (2, 17)
    if key == "linux_x86_64":
        for variant in cast("list[str]", row["rocm"]):
            yield Build(
                version=version,
                variant=variant,
                pythons=pythons,
                gfx=tuple(table["rocm_gfx"][variant]),
                bundled=table["rocm_layout"][variant] == "bundled",
                glibc=floor,
                certainty="B",
            )
    if (key == "linux_x86_64" and "linux" in row["xpu"]) or (
        key == "windows_amd64" and "windows" in row["xpu"]
    ):
        yield Build(
            version=version,
            variant="xpu",
            pythons=pythons,
            glibc=floor if key == "linux_x86_64" else None,
            certainty="B",
        )


def _pythons(row: Mapping[str, Any], key: str) -> tuple[str, ...]:
    extra: list[str] = []
    if key == "linux_x86_64":
        extra += row.get("python_linux_extra", [])
    if key.startswith("linux"):
        extra += row.get("python_linux_index_extra", [])
    return (*row["python"], *extra)
