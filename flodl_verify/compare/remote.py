"""The judge's view of the two sides, each of which runs in a process to itself.

Example: `RemoteSide.build(case)` lets the worker build a model and returns a `RemoteModel`, whose
`call(...)` returns all that the call could have changed.

The judge never imports user code, and believes nothing: it checks every answer against its form. An
answer of another form is a `SideGoneError`, as the death of the process is.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol, final

from flodl_verify.sandbox.attempt import FAILURE_CODES, Failure, FailureCode, OutOfTimeError
from flodl_verify.sandbox.isolated_import import Label
from flodl_verify.sides.divergence import Operation
from flodl_verify.sides.subject import AttributeNames, Observation
from flodl_verify.sides.wire import Fields, MalformedMessageError, Stored, checked, decoded
from flodl_verify.sides.world_changes import Change, as_fields, of_fields
from flodl_verify.values.snapshot import Snapshot

# For questions that have a limit of time inside.
UNLIMITED_S = 24 * 3600.0
MODEL_KINDS = frozenset({"model", "model class", "model class without forward"})
INITIAL_SECTIONS = frozenset({
    "state_dict", "parameter order", "buffer order", "weights", "random draws",
})  # fmt: skip
CALL_SECTIONS = frozenset({
    "output", "inputs", "random draws", "grad mode", "buffers", "attributes",
})  # fmt: skip
METHOD_SECTIONS = frozenset({"result", "random draws"})
STEP_SECTIONS = frozenset({"losses", "weights"})
# Those of a call with a backward pass.
GRADIENT_SECTIONS = frozenset({"loss", "gradients", "input gradients"})

_CODES: dict[str, FailureCode] = {code: code for code in FAILURE_CODES}

Data = bytes | memoryview
# How the process of a side left the comparison.
End = Literal["died", "timed-out", "malformed"]
MAX_WORDS = 2000
MAX_PICTURE = 400_000


@final
class SideGoneError(Exception):
    """The process of a side has ended, or gives answers that are none."""

    def __init__(self, label: Label, trouble: str, end: End) -> None:
        super().__init__(trouble)
        self.label = label
        self.trouble = trouble
        self.end: End = end


@final
class UnusableAnswerError(Exception):
    """The original cannot be compared on a case, with the reason."""

    def __init__(self, text: str, code: str, line: int | None) -> None:
        super().__init__(text)
        self.text = text
        self.code = code
        self.line = line


class Channel(Protocol):
    """A connection to a worker."""

    def ask(self, question: Fields, data: Data | None) -> tuple[Fields, Stored]:
        """Return the answer to a question, and the data that came with it.

        Raises:
            SideGoneError: there is no answer.
        """


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CaseRef:
    """A case that a worker has, by number; `origin` says where it was found."""

    number: int
    origin: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One call of a model: number of its inputs, mode, seed, and whether a backward pass follows."""

    inputs: int
    seed: int
    mode: Literal["eval", "train"]
    backward: bool = False
    input_gradients: bool = False
    grad_mode: bool = True


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FoundChange:
    """A change of the world that the original notices in `mode`, and inputs that it takes then."""

    label: str
    change: Change
    mode: Literal["eval", "train"]
    inputs: int


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FoundAbilities:
    """The most demanding call that the original takes, and other inputs that it takes as well."""

    plan: Plan
    batch: tuple[tuple[str, int], ...]
    sizes: tuple[tuple[str, int], ...]
    scales: tuple[tuple[str, int], ...]
    options: tuple[tuple[str, int], ...]
    methods: tuple[tuple[str, int], ...]
    no_backward: str
    heavy: bool
    whole: int | None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """The outcome of importing a program.

    `kinds` says what each class name stands for, `importance` how many other classes it holds or is in.
    """

    failure: Failure | None
    refused: Failure | None
    kinds: Mapping[str, str]
    draws: Mapping[str, str]
    importance: Mapping[str, int]
    words: str
    settings: Fields


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The cases of a search, by class name, and why there are none for others."""

    cases: Mapping[str, tuple[CaseRef, ...]]
    reasons: Mapping[str, str]
    trouble: str | None
    late: tuple[str, ...]

    @property
    def unfinished(self) -> tuple[str, ...]:
        """Names that have no case because there was no time to look for one."""
        return tuple(name for name in self.late if not self.cases.get(name))

    def is_late(self, name: str) -> bool:
        """Return True if a name has no case because there was no time to look for one."""
        return name in self.late


@final
class Clock:
    """The time that is left for the questions of both sides."""

    def __init__(self) -> None:
        self._deadline: float | None = None

    @contextmanager
    def until(self, deadline: float) -> Iterator[None]:
        """Let questions of the block have their answers before a time of the monotonic clock."""
        before, self._deadline = self._deadline, deadline
        try:
            yield
        finally:
            self._deadline = before

    def left_s(self) -> float:
        """Return the seconds that are left.

        Raises:
            OutOfTimeError: there are none.
        """
        if self._deadline is None:
            return UNLIMITED_S
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise OutOfTimeError
        return left


@final
class RemoteSide:
    """One program, in its process."""

    def __init__(self, label: Label, channel: Channel, clock: Clock) -> None:
        self.label: Label = label
        self._channel = channel
        self._clock = clock
        self._taken: set[tuple[str, int]] = set()
        # Numbers of models that are freed before the next one is built.
        self.dropped: list[int] = []

    def ask(self, op: str, data: Data | None = None, **fields: Any) -> tuple[Fields, Stored]:
        """Return the answer to a question.

        Raises:
            OutOfTimeError: it took too long.
            FailedError: user code raised.
            UnusableAnswerError: the original cannot be compared so.
        """
        question = {"limit_s": self._clock.left_s(), **fields, "op": op}
        answer, stored = self._channel.ask(question, data)
        with self.believing():
            if "over" in answer:
                raise OutOfTimeError
            if "failure" in answer:
                raise FailedError(failure_of(answer["failure"]))
            if "unusable" in answer:
                told = checked(answer["unusable"], dict)
                raise UnusableAnswerError(
                    words(told["text"]), words(told["code"]), line_of(told["line"])
                )
            return checked(answer["ok"], dict), stored

    @contextmanager
    def believing(self) -> Iterator[None]:
        """Turn what is wrong with an answer into the end of the side."""
        try:
            yield
        except (MalformedMessageError, KeyError, TypeError, ValueError) as problem:
            trouble = f"its answer was no answer: {problem}"
            raise SideGoneError(self.label, trouble, "malformed") from problem

    def open(self, settings: Fields | None = None) -> Opening:
        """Import the program."""
        return self._opening("open", settings=settings)

    def open_again(self) -> Opening:
        """Import the program once more."""
        return self._opening("open again")

    def _opening(self, op: str, **fields: Any) -> Opening:
        told, _ = self.ask(op, **fields)
        with self.believing():
            return Opening(
                failure=None if told["failure"] is None else failure_of(told["failure"]),
                refused=None if told["refused"] is None else failure_of(told["refused"]),
                kinds=_texts(told["kinds"]),
                draws=_texts(told["draws"]),
                importance={
                    words(name): checked(count, int)
                    for name, count in checked(told["importance"], dict).items()
                },
                words=words(told["words"]),
                settings=checked(told.get("settings", {}), dict),
            )

    def search(self, budget_s: float, recording: bytes | None) -> Found:
        """Look for cases of all classes."""
        place = None if recording is None else [0, len(recording)]
        return self._found("search", recording, budget_s=budget_s, recording=place)

    def search_again(self, names: tuple[str, ...], budget_s: float) -> Found:
        """Look for cases of some classes once more."""
        return self._found("search again", budget_s=budget_s, names=list(names))

    def _found(self, op: str, data: bytes | None = None, **fields: Any) -> Found:
        told, _ = self.ask(op, data, **fields)
        with self.believing():
            trouble = told["trouble"]
            return Found(
                cases={
                    name: tuple(
                        CaseRef(number=checked(number, int), origin=words(origin))
                        for number, origin in checked(refs, list)
                    )
                    for name, refs in checked(told["cases"], dict).items()
                },
                reasons=_texts(told["reasons"]),
                trouble=None if trouble is None else words(trouble),
                late=tuple(words(name) for name in checked(told["late"], list)),
            )

    def probe(self, case: CaseRef) -> FoundAbilities:
        """Find out what the original can do on a case, and whether it repeats itself."""
        told, _ = self.ask("probe", case=case.number)
        with self.believing():
            plan = checked(told["plan"], dict)
            whole = told["whole"]
            return FoundAbilities(
                plan=Plan(
                    inputs=checked(plan["inputs"], int),
                    seed=checked(plan["seed"], int),
                    mode="eval" if plan["mode"] == "eval" else "train",
                    backward=checked(plan["backward"], bool),
                    input_gradients=checked(plan["input_gradients"], bool),
                    grad_mode=checked(plan["grad_mode"], bool),
                ),
                batch=_variants(told["batch"]),
                sizes=_variants(told["sizes"]),
                scales=_variants(told["scales"]),
                options=_variants(told["options"]),
                methods=_variants(told["methods"]),
                no_backward=words(told["no_backward"]),
                heavy=checked(told["heavy"], bool),
                whole=None if whole is None else checked(whole, int),
            )

    def changes(self, case: CaseRef, plan: Plan, budget_s: float) -> tuple[FoundChange, ...]:
        """Look for changes of the world that the original notices, on a model made for it."""
        told, _ = self.ask("changes", case=case.number, budget_s=budget_s, **asdict(plan))
        with self.believing():
            return tuple(
                FoundChange(
                    label=words(label),
                    change=of_fields(checked(fields, dict)),
                    mode="eval" if mode == "eval" else "train",
                    inputs=checked(inputs, int),
                )
                for label, fields, mode, inputs in checked(told["changes"], list)
            )

    def take(self, what: Literal["case", "inputs"], number: int, giver: RemoteSide) -> None:
        """Let this side have a case or inputs that the other one found."""
        if (what, number) in self._taken:
            return
        key: dict[str, Any] = {what: number}
        told, stored = giver.ask(f"give {what}", **key)
        with giver.believing():
            data = stored.blob(told["place"])
        self.ask(f"take {what}", data, place=[0, len(data)], **key)
        self._taken.add((what, number))

    def build(self, case: CaseRef) -> RemoteModel:
        """Build a model."""
        told, _ = self.ask("build", case=case.number, drop=self.dropped)
        self.dropped = []
        with self.believing():
            number, trains = checked(told["model"], int), checked(told["trains"], bool)
        return RemoteModel(self, number, trains=trains)

    def trace(self, case: CaseRef, mode: str) -> list[Operation] | None:
        """Run a case operation by operation; None when it fails."""
        told, _ = self.ask("trace", case=case.number, mode=mode)
        with self.believing():
            rows = told["operations"]
            if rows is None:
                return None
            return [
                Operation(
                    name=words(name),
                    digest=words(digest),
                    line=line_of(line),
                    module=words(module),
                )
                for name, digest, line, module in checked(rows, list)
            ]

    def draw(self, case: CaseRef) -> str:
        """Return a picture of a model, or nothing where there is none."""
        told, _ = self.ask("draw", case=case.number)
        with self.believing():
            picture = checked(told["picture"], str)
        return picture if len(picture) <= MAX_PICTURE else ""


@final
class RemoteModel:
    """A model of one side."""

    def __init__(self, side: RemoteSide, number: int, *, trains: bool) -> None:
        self.side = side
        self.number = number
        self.trains = trains

    def drop(self) -> None:
        """Let the worker free the model before it builds another one."""
        self.side.dropped.append(self.number)

    def initial(self) -> dict[str, Snapshot]:
        """Return the state after the constructor."""
        return self._sections("initial", INITIAL_SECTIONS)

    def call(self, plan: Plan, attribute_names: AttributeNames | None = None) -> Observation:
        """Call the model; return all that the call could have changed."""
        told, stored = self.side.ask(
            "call", model=self.number, attribute_names=attribute_names, **asdict(plan)
        )
        with self.side.believing():
            return Observation(
                sections=_decoded_sections(told["sections"], stored, CALL_SECTIONS),
                attribute_names=tuple(
                    (words(path), tuple(words(name) for name in names))
                    for path, names in checked(told["attribute_names"], list)
                ),
                num_tensors=checked(told["num_tensors"], int),
                num_differentiable=checked(told["num_differentiable"], int),
                unread=tuple(words(item) for item in checked(told["unread"], list)),
            )

    def call_method(self, name: str, inputs: int) -> dict[str, Snapshot]:
        """Call a method from outside."""
        return self._sections("method", METHOD_SECTIONS, name=name, inputs=inputs)

    def train_steps(self, inputs: int, count: int) -> dict[str, Snapshot]:
        """Take steps of SGD; return losses and weights."""
        return self._sections("steps", STEP_SECTIONS, inputs=inputs, count=count)

    def perturb(self) -> None:
        """Move every weight a little."""
        self.side.ask("perturb", model=self.number)

    def change(self, change: Change) -> None:
        """Change the world of the model."""
        self.side.ask("change", model=self.number, change=as_fields(change))

    def undo_change(self) -> None:
        """Take the last change back."""
        self.side.ask("undo change", model=self.number)

    def load_own(self) -> None:
        """Load the model's own state into it."""
        self.side.ask("load own", model=self.number)

    def load_from(self, source: RemoteModel) -> None:
        """Load the state of the other side's model, strictly."""
        told, stored = source.side.ask("give state", model=source.number)
        with source.side.believing():
            data = stored.whole()
            rows, extra = checked(told["rows"], list), checked(told["extra"], list)
        del stored
        self.side.ask("take state", data, model=self.number, rows=rows, extra=extra)

    def _sections(self, op: str, required: frozenset[str], **fields: Any) -> dict[str, Snapshot]:
        told, stored = self.side.ask(op, model=self.number, **fields)
        with self.side.believing():
            return _decoded_sections(told["sections"], stored, required)


@final
class FailedError(Exception):
    """User code raised an exception."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.text)
        self.failure = failure


def failure_of(fields: object) -> Failure:
    """Return the failure that an answer tells of."""
    told = checked(fields, dict)
    code = _CODES[checked(told["code"], str)]
    return Failure(text=words(told["text"]), line=line_of(told["line"]), code=code)


def words(value: object) -> str:
    """Return a text of an answer, in one line of a limited length, without control characters."""
    text: str = checked(value, str)
    return "".join(item if item.isprintable() else " " for item in text[:MAX_WORDS])


def line_of(value: object) -> int | None:
    """Return a line number of an answer."""
    line: int | None = value if value is None else checked(value, int)
    return line if line is None or 0 <= line < 1 << 31 else None


def _texts(value: object) -> dict[str, str]:
    return {words(key): words(item) for key, item in checked(value, dict).items()}


def _variants(value: object) -> tuple[tuple[str, int], ...]:
    return tuple((words(label), checked(number, int)) for label, number in checked(value, list))


def _decoded_sections(
    sections: object, stored: Stored, required: frozenset[str]
) -> dict[str, Snapshot]:
    """Return the snapshots of an answer, which has no others than those that are known."""
    found = checked(sections, dict)
    if not required <= found.keys() <= required | GRADIENT_SECTIONS:
        raise MalformedMessageError(f"the sections {sorted(found)}")
    return {name: decoded(rows, stored) for name, rows in found.items()}
