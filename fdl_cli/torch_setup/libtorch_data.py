"""The answers of `fdl libtorch`."""

from dataclasses import dataclass
from typing import final

from fdl_cli.errors import Notice
from fdl_cli.torch_setup.smoke_test_result import Proof


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRow:
    """One kept build, as `list` shows it."""

    name: str
    torch: str
    variant: str
    python: str
    folder: str
    source: str
    bytes: int
    proved: str
    active: bool


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class VariantRow:
    """The newest torch of one variant for this machine, and whether it would work here."""

    variant: str
    torch: str
    sm: tuple[str, ...]
    certainty: str
    works: bool
    chosen: bool
    why: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchData:
    """The answer of `activate` and `verify`."""

    name: str
    environment: str
    changed: bool
    proof: Proof | None
    notices: tuple[Notice, ...]
