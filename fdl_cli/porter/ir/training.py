"""Facts about the training loops of a file, and how they are to be moved."""

from dataclasses import dataclass, replace
from typing import Final, Literal, final

from fdl_cli.porter.ir.findings import Reason
from fdl_cli.porter.ir.source import Span

TrainingLevel = Literal["keep", "setup", "builder"]
# The call of a builder that keeps the optimizer as it was given, bit for bit.
UNFUSED: Final = ".fused(False)"
# The next level of a move when one is not equal, or not possible.
LOWER: Final[dict[TrainingLevel, TrainingLevel]] = {
    "builder": "setup",
    "setup": "keep",
    "keep": "keep",
}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SetupIR:
    """A loop whose step becomes one call of a session of `Trainer.setup`.

    `before` is where the session is made: where the loop, or the loop around it, starts. `options`
    are keyword arguments of `setup`; `removed` are statements that become part of the step; `closure`
    is what the step is called with, `taken` the lines of what the session does.
    """

    before: int
    optimizer: str
    options: tuple[str, ...]
    removed: tuple[Span, ...]
    step: Span
    closure: str
    taken: tuple[int, ...]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PartIR:
    """Lines of a loop that become the body of a function.

    `lines` are ranges (first and last, both included) without the statements `removed`; `replaced`
    are words inside them that are written otherwise. `opening` comes first, `closing` last. `shared`
    are the names that it sets for the other functions and for what follows.
    """

    lines: tuple[tuple[int, int], ...]
    removed: tuple[Span, ...] = ()
    replaced: tuple[tuple[Span, str], ...] = ()
    opening: tuple[str, ...] = ()
    closing: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    empty: bool = False


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltIR:
    """A loop that `Trainer.builder` takes over, with the loop over epochs around it if that is plain.

    `first` and `last` are its line numbers. `parameter`, `batch`, `loss`, `training`,
    `metrics` and `epoch_parameter` are what the functions call their arguments. `taken` are the
    lines of what the builder does itself. `kernel` is the class of the optimizer, where torch has a fused
    kernel for it. `globals_` are names that they share
    through the module, all others belong to the function around the loop; those in `unbound` are
    named nowhere else in it. `calls` are the decisions for the builder, in their order.
    """

    first: int
    last: int
    optimizer: str
    parameter: str
    loss: str
    calls: tuple[str, ...]
    train: PartIR
    after_step: PartIR
    before_epoch: PartIR
    after_epoch: PartIR
    epoch_parameter: str
    training: str
    batch: str
    metrics: str
    taken: tuple[int, ...]
    globals_: frozenset[str]
    unbound: tuple[str, ...]
    unit: str
    kernel: str = ""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LoopIR:
    """A loop with a backward pass: how its step or the whole of it moves, or why it does not."""

    line: int
    model: str
    setup: SetupIR | None
    not_set_up: Reason | None
    built: BuiltIR | None
    not_built: Reason | None

    def fused(self) -> "LoopIR":
        """Return the same loop with a builder that may use the fused kernel of its optimizer."""
        if self.built is None:
            return self
        calls = tuple(call for call in self.built.calls if call != UNFUSED)
        return replace(self, built=replace(self.built, calls=calls))

    def reached(self, level: TrainingLevel) -> TrainingLevel:
        """Return how far this loop moves when a level is wanted."""
        if level == "builder" and self.built is not None:
            return "builder"
        return "keep" if level == "keep" or self.setup is None else "setup"

    def taken(self, level: TrainingLevel) -> tuple[int, ...]:
        """Return the lines whose work the library does at a level."""
        if level == "builder" and self.built is not None:
            return self.built.taken
        return () if level == "keep" or self.setup is None else self.setup.taken

    def reasons(self, level: TrainingLevel) -> tuple[Reason, ...]:
        """Return why the loop does not move as far as is wanted."""
        wanted = {"keep": (), "setup": (self.not_set_up,), "builder": (self.not_built,)}[level]
        return tuple(reason for reason in wanted if reason is not None)
