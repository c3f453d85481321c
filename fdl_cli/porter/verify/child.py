"""One task of a proof in a server; every part of its answer is checked before use."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import fdl_cli
from fdl_cli.porter.ir.evidence import VerifyRequest
from fdl_cli.porter.verify.server import (
    MAX_RECORDING_BYTES,
    Connection,
    NoAnswerError,
    server_of,
)
from flodl_verify.protocol import (
    NOT_RUN_REASONS,
    OPTIMIZING,
    PLAIN,
    STATUSES,
    CheckEvidence,
    ClassEvidence,
    NotRunReason,
    Request,
    Status,
    Task,
)

MEMORY_MB = 6144
GRACE_S = 5.0
# A report that says more is cut: the texts come from programs that are compared.
MAX_TEXT = 4000
MAX_PICTURE = 400_000
_NOWHERE = "http://127.0.0.1:9"
# A program's environment in a proof: where things lie and how to write, but no secrets.
_PASSED = frozenset({
    "CONDA_DEFAULT_ENV", "CONDA_PREFIX", "DYLD_LIBRARY_PATH", "HF_HOME", "HF_HUB_CACHE", "HOME", "LANG",
    "LANGUAGE", "LD_LIBRARY_PATH", "LOGNAME", "NLTK_DATA", "PATH", "PYTHONPATH", "SHELL", "TERM",
    "TORCH_HOME", "TRANSFORMERS_CACHE", "TZ", "USER", "VIRTUAL_ENV", "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME", "XDG_DATA_HOME",
})  # fmt: skip
_SETTINGS = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "",
    "MPLBACKEND": "Agg",
    # Programs that user code starts are out of reach of the guards in the process itself.
    **dict.fromkeys(("http_proxy", "https_proxy", "ftp_proxy", "all_proxy"), _NOWHERE),
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), _NOWHERE),
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    # GitPython starts git when it is imported, which is refused; it can do without.
    "GIT_PYTHON_REFRESH": "quiet",
}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Seconds for the whole task, and for each class in it."""

    task_s: float
    class_s: float


@final
@dataclass(slots=True, kw_only=True)
class Answer:
    """The answer of a task.

    `done` is False when it ended early; `running` names the class and side last at work. `trouble` says
    how it ended; `malformed` is an answer that no process of ours gives, and `changed` a port of another
    text than the one to be proved. `needed_s` are the seconds that the task would have needed, where its
    time was over. `proved_sha256` is the digest of the text of the port that was compared.
    """

    classes: tuple[ClassEvidence, ...] = ()
    done: bool = False
    running: tuple[str, str] | None = None
    source_runs: bool = True
    error: str | None = None
    trouble: str = ""
    timed_out: bool = False
    malformed: bool = False
    changed: bool = False
    needed_s: float | None = None
    proved_sha256: str = ""
    curve: Mapping[str, Any] | None = None
    speed: Mapping[str, Any] | None = None
    recording: bytes | None = None


def run_task(
    request: VerifyRequest,
    task: Task,
    names: tuple[str, ...],
    recording: Path | None,
    limits: Limits,
) -> Answer:
    """Run one task in a process; one that dies, hangs or lies is an answer, not an error."""
    started = time.monotonic()
    server = server_of(request.python, proof_environment())
    connection = server.begin(_first_word(request.original))
    answer = Answer()
    asked = Request(
        task=task,
        original=request.original.resolve(),
        ported=request.ported.absolute(),
        ported_sha256=request.ported_sha256,
        classes=names,
        examples=request.examples,
        search_path=tuple(folder.resolve() for folder in request.search_path),
        ported_search_path=tuple(folder.absolute() for folder in request.ported_search_path),
        drawings=request.drawings,
        recording=None if recording is None else recording.resolve(),
        limit_s=limits.task_s,
        started_at=time.time(),
        class_limit_s=limits.class_s,
        memory_mb=MEMORY_MB,
        threads=_own_threads(),
    )
    connection.send(asked.fields())
    ended = False
    try:
        deadline = started + limits.task_s + GRACE_S
        while not ended:
            ended = _take(connection, connection.receive(deadline), names, answer, deadline)
    except TimeoutError:
        answer.trouble = f"stopped after {limits.task_s + GRACE_S:.0f} s"
        answer.timed_out = True
    except NoAnswerError as problem:
        answer.trouble = str(problem) or _one_line(server.trouble())
    except (KeyError, TypeError, ValueError) as problem:
        answer.malformed = True
        answer.trouble = f"its answer was no answer: {type(problem).__name__}: {problem}"
    finally:
        connection.end(ended=ended)
    return answer


def _own_threads() -> int | None:
    """Return how many threads the user gives to torch; a proof itself has one."""
    word = os.environ.get("OMP_NUM_THREADS", "")
    return int(word) if word.isdecimal() and int(word) > 0 else None


def _first_word(script: Path) -> bytes:
    return OPTIMIZING if b"optim" in script.read_bytes() else PLAIN


def _take(
    connection: Connection,
    message: Mapping[str, Any],
    names: tuple[str, ...],
    answer: Answer,
    deadline: float,
) -> bool:
    """Take one message of a task; return True for its last one.

    Raises:
        KeyError: it lacks a field.
        TypeError: a field is of another type.
        ValueError: a field has a value that it cannot have.
    """
    event = message["event"]
    match event:
        case "started":
            connection.note_processes([message["pid"], *message.get("workers", [])])
        case "running":
            answer.running = _text(message["name"]), _side(message["side"])
        case "class":
            _take_class(message["result"], names, answer)
        case "error":
            answer.error = _text(message["error"])
            answer.source_runs = _typed(message["source_runs"], bool)
        case "need":
            answer.needed_s = _typed(message["seconds"], float)
        case "curve":
            answer.curve = _typed(message["curve"], dict)
        case "speed":
            answer.speed = _typed(message["speed"], dict)
        case "recording":
            size = _typed(message["size"], int)
            if not 0 <= size <= MAX_RECORDING_BYTES:
                raise ValueError(f"a recording of {size} bytes")
            answer.recording = connection.exactly(size, deadline)
        case _:
            _take_last(event, message, answer)
            return True
    return False


def _take_last(event: object, message: Mapping[str, Any], answer: Answer) -> None:
    match event:
        case "gone":
            answer.running = _text(message["name"]), _side(message["side"])
            answer.trouble = _text(message["trouble"])
            answer.timed_out = message["end"] == "timed-out"
            answer.malformed = message["end"] == "malformed"
        case "changed":
            answer.changed = True
        case "done":
            answer.proved_sha256 = _text(message["ported_sha256"])
            answer.done = True
        case other:
            raise ValueError(f"an event {other!r}")


def _side(value: object) -> str:
    return "port" if value == "port" else "original"


def _take_class(fields: Mapping[str, Any], names: tuple[str, ...], answer: Answer) -> None:
    found = _class_of(fields, names)
    # An earlier report of a class is replaced: more is known.
    others = tuple(known for known in answer.classes if known.name != found.name)
    answer.classes = (*others, found)


def _class_of(fields: Mapping[str, Any], names: tuple[str, ...]) -> ClassEvidence:
    name = _text(fields["name"])
    if name not in names:
        raise ValueError(f"a class {name!r} that is not compared")
    line = fields["line"]
    code, reason = fields["error_code"], fields["reason"]
    return ClassEvidence(
        name=name,
        status=_status(fields["status"]),
        detail=_text(fields["detail"]),
        checks=tuple(
            CheckEvidence(
                name=_text(item["name"]),
                status=_status(item["status"]),
                detail=_text(item["detail"]),
            )
            for item in _typed(fields["checks"], list)
        ),
        example=_text(fields["example"]),
        error_code=None if code is None else _text(code),
        line=line if line is None else _typed(line, int),
        drawing=_typed(fields["drawing"], str)[:MAX_PICTURE],
        reason=None if reason is None else _REASONS[_typed(reason, str)],
    )


_REASONS: dict[str, NotRunReason] = {item: item for item in NOT_RUN_REASONS}


def _status(value: object) -> Status:
    return STATUSES[STATUSES.index(_typed(value, str))]


def _text(value: object) -> str:
    return _one_line(_typed(value, str))


def _one_line(text: str) -> str:
    """Return a text that a terminal can show: of limited length, without control characters."""
    return "".join(item if item.isprintable() else " " for item in text[:MAX_TEXT])


def _typed(value: object, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError(f"a {type(value).__name__} where a {kind.__name__} was due")
    return value


def proof_environment() -> dict[str, str]:
    """Return the environment of a proof: the permitted variables, one thread, no GPU, no network."""
    passed = {
        name: value
        for name, value in os.environ.items()
        if name in _PASSED or name.startswith("LC_")
    }
    return {**passed, **_SETTINGS}


def child_environment(workdir: Path) -> dict[str, str]:
    """Return the environment of a process that draws: as that of a proof, with the runtime importable."""
    environment = {**os.environ, **_SETTINGS, "PYTHONDONTWRITEBYTECODE": "1"}
    # The user's Python need not have flodl installed. A folder with links to the runtime and the prover
    # alone brings them there without the other packages of fdl's own environment.
    folder = workdir.resolve() / "runtime"
    folder.mkdir(exist_ok=True)
    for name in ("flodl", "flodl_verify"):
        link = folder / name
        if not link.exists():
            package = Path(fdl_cli.__file__).resolve().parent.parent / name
            link.symlink_to(package, target_is_directory=True)
    known = environment.get("PYTHONPATH")
    environment["PYTHONPATH"] = f"{folder}{os.pathsep}{known}" if known else str(folder)
    environment["NUMBA_CACHE_DIR"] = str(workdir.resolve() / "numba")
    environment["PYTHONHASHSEED"] = "0"
    return environment
