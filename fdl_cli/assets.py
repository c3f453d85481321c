"""Folders of templates and skills, in a wheel and in an editable checkout alike."""

from pathlib import Path
from typing import Literal

from fdl_cli.errors import EnvironmentLackingError

AssetKind = Literal["templates", "skills"]


def assets(kind: AssetKind) -> Path:
    """Return the folder of templates or skills.

    A wheel holds them inside the package; an editable install leaves them at the top of the
    checkout, because hatchling's `force-include` does not apply there. Wheels are unpacked, so
    they are found beside this file: `importlib.resources` takes 10 ms to say the same.

    Raises:
        EnvironmentLackingError: the installation is damaged.
    """
    package = Path(__file__).parent
    checkout = package.parent / kind
    for folder in (package / "_assets" / kind, checkout):
        if folder.is_dir():
            return folder
    raise EnvironmentLackingError(
        error_id="assets-missing",
        message=f"the folder of {kind} is missing from this installation of fdl",
        hint="reinstall it: `python -m pip install --force-reinstall 'flodl[cli]'`",
        file=str(checkout),
    )
