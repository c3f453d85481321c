"""Find the folders of templates and skills, in a wheel and in an editable checkout alike."""

from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Literal

from fdl_cli.errors import EnvironmentLackingError

AssetKind = Literal["templates", "skills"]


def assets(kind: AssetKind) -> Traversable:
    """Return the folder of templates or skills.

    A wheel holds them inside the package; an editable install leaves them at the top of the
    checkout, because hatchling's `force-include` does not apply there.

    Raises:
        EnvironmentLackingError: the installation is damaged.
    """
    installed = resources.files("fdl_cli") / "_assets" / kind
    checkout = Path(__file__).parent.parent / kind
    for folder in (installed, checkout):
        if folder.is_dir():
            return folder
    raise EnvironmentLackingError(
        error_id="assets-missing",
        message=f"the folder of {kind} is missing from this installation of fdl",
        hint="reinstall it: `python -m pip install --force-reinstall flodl`",
        file=str(checkout),
    )
