"""Result of a proof, and the plan that it was compared with."""

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceProof:
    """The result on one device; each step is `ok` or the error."""

    device: str
    name: str
    elementwise: str
    matmul: str
    backward: str

    @property
    def ok(self) -> bool:
        """Return True if all steps went well."""
        return self.elementwise == self.matmul == self.backward == "ok"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """The result of one proof; `problems` are sentences, none when it holds."""

    torch: str
    cuda: str | None
    hip: str | None
    arch_list: tuple[str, ...]
    devices: tuple[DeviceProof, ...]
    problems: tuple[str, ...]
    seconds: float

    @property
    def ok(self) -> bool:
        """Return True if nothing is wrong."""
        return not self.problems


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """The plan's claims that the proof must find; None or empty means: anything."""

    torch: str | None = None
    variant: str | None = None
    sm: tuple[str, ...] = ()
    gpus: int | None = None
