"""Torch of an environment, read from its files: importing torch takes seconds."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from fdl_cli.system.python_env import Environment

RECORD_NAME: Final = "fdl-torch.json"
_VALUE = re.compile(
    r"^(__version__|cuda|hip|xpu)\s*(?::[^=]*)?=\s*(?:'([^']*)'|\"([^\"]*)\"|None)", re.MULTILINE
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledTorch:
    """The torch in an environment: version without tag, variant, and where it lies."""

    version: str
    variant: str
    folder: str

    @property
    def name(self) -> str:
        """Return `2.14.1+cu126`."""
        return f"{self.version}+{self.variant}"


def site_packages(environment: Environment) -> tuple[Path, ...]:
    """Return the folders of an environment that hold packages."""
    places = sorted(environment.folder.glob("lib/python3*/site-packages"))
    windows = environment.folder / "Lib" / "site-packages"
    return (*places, windows) if windows.is_dir() else tuple(places)


def read_installed(environment: Environment) -> InstalledTorch | None:
    """Return the torch of an environment; None when there is none."""
    for folder in site_packages(environment):
        found = read_version_file(folder / "torch" / "version.py")
        if found is not None:
            return found
    return None


def read_version_file(path: Path) -> InstalledTorch | None:
    """Read `torch/version.py`, which says more than the package's metadata.

    The wheel on PyPI has no local tag in its metadata although it is a CUDA build; here it has.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        return None
    values = {name: single or double for name, single, double in _VALUE.findall(text)}
    version, _, tag = values.get("__version__", "").partition("+")
    if not version:
        return None
    variant = tag or _variant(values)
    return InstalledTorch(version=version, variant=variant, folder=str(path.parent))


def read_record(environment: Environment) -> dict[str, Any] | None:
    """Return the record of `fdl setup` beside the environment; None without a readable one."""
    try:
        record = json.loads((environment.folder / RECORD_NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) else None


def _variant(values: dict[str, str]) -> str:
    if values.get("cuda"):
        return "cu" + values["cuda"].replace(".", "")
    if values.get("hip"):
        return "rocm" + ".".join(values["hip"].split(".")[:2])
    return "xpu" if values.get("xpu") else "cpu"
