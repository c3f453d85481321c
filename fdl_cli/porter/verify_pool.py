"""Comparison of many files at once: answers are computed side by side and kept until needed."""

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from math import ceil
from pathlib import Path
from typing import Generic, Protocol, TypeVar, final

from fdl_cli.system.facts import HostFacts
from fdl_cli.system.process import end_all

# The memory for a comparison of a usual model with its two copies; only large models take more.
_MEMORY_BYTES = 2 << 30
_SHARE_OF_MEMORY = 0.75
_PAUSE_S = 0.05


class Question(Protocol):
    """A question about one file: the original and its port lie in files."""

    @property
    def original(self) -> Path:
        """The file as it was."""

    @property
    def ported(self) -> Path:
        """Its port."""


class Answer(Protocol):
    """The answer to a question."""

    @property
    def differs(self) -> bool:
        """Whether the port does something else than its original."""

    @property
    def seconds(self) -> float:
        """How long it took."""


Q = TypeVar("Q", bound=Question)
A = TypeVar("A", bound=Answer)


def comparisons_at_once(host: HostFacts) -> int:
    """Return how many comparisons a machine can make at once: each is one busy thread.

    Example:
        >>> from fdl_cli.system.host import read_host
        >>> comparisons_at_once(read_host(Path())) >= 1
        True
    """
    processors = host.cpus or 1
    if sys.platform == "linux":
        processors = min(processors, len(os.sched_getaffinity(0)))
    if host.cpu_quota is not None:
        processors = min(processors, ceil(host.cpu_quota))
    sizes = [size for size in (host.ram_bytes, host.ram_limit_bytes) if size is not None]
    room = int(_SHARE_OF_MEMORY * min(sizes)) // _MEMORY_BYTES if sizes else processors
    return max(1, min(processors, room))


@final
class VerifyPool(Generic[Q, A]):
    """Answers questions about files, up to `jobs` at once when they are known before.

    A file is compared beside the present text of its neighbours. Differences are put right, so a
    difference that was found before another file changed may not be its own: it is looked for
    again. That a file is equal beside neighbours that are not yet right stays true.
    """

    def __init__(self, answer: Callable[[Q], A], jobs: int) -> None:
        self.saved_s = 0.0
        self._answer = answer
        self._jobs = jobs
        self._ready: dict[Path, tuple[bytes, A | None]] = {}
        self._changed = False

    def ask(self, questions: Sequence[Q]) -> Iterator[Q]:
        """Find the answers to several questions; yield each question when its answer is there."""
        if self._jobs < 2 or len(questions) < 2:
            return
        self._changed = False
        with ThreadPoolExecutor(min(self._jobs, len(questions))) as pool:
            asked = {pool.submit(self._answer, question): question for question in questions}
            try:
                for done in as_completed(asked):
                    question = asked[done]
                    self._ready[question.original] = (question.ported.read_bytes(), done.result())
                    yield question
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                _abandon(asked)
                raise

    def __call__(self, question: Q) -> A:
        """Return the answer to a question; an earlier answer counts if the port is the same."""
        ported, found = self._ready.pop(question.original, (b"", None))
        if (
            found is None
            or ported != question.ported.read_bytes()
            or (found.differs and self._changed)
        ):
            found = self._answer(question)
        else:
            self.saved_s += found.seconds
        self._changed |= found.differs
        return found


def _abandon(asked: Iterable[Future[A]]) -> None:
    # The threads wait for programs that do not see Ctrl-C, and may start others after them.
    while not all(future.done() for future in asked):
        end_all()
        time.sleep(_PAUSE_S)
