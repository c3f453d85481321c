"""Causes of a failed image build: the line that matters, its instruction, and the cure.

Before: 80 lines with colours and progress, in which pip found no torch
After:  BuildFailure(line="ERROR: No matching distribution found for torch>=2.6",
                     step="RUN python -m pip install ...", place="Dockerfile:27", hint="...")

The classic builder says `Step 5/9 : RUN ...`, BuildKit `#8 [dev 3/5] RUN ...` and `Dockerfile:27`.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from fdl_cli.errors import OperationFailedError

QUOTED_LINES: Final = 8
STEP_WIDTH: Final = 100
_ESCAPES: Final = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[@-Z\\-_])")
_PROGRESS: Final = re.compile(r"#(\d+) (\d+\.\d+ )?")
_CLASSIC_STEP: Final = re.compile(r"Step \d+/\d+ : (.+)")
_CLASSIC_NOISE: Final = ("--->", "Removing intermediate container ")
_BUILDKIT_STEP: Final = re.compile(r"#(\d+) \[[^\]]*\d+/\d+\] (.+)")
_BUILDKIT_ERROR: Final = re.compile(r"#(\d+) ERROR\b")
_BUILDKIT_PLACE: Final = re.compile(r"^([\w./-]+):(\d+)$")
_SUMMARY: Final = re.compile(
    r"failed to solve|did not complete successfully|returned a non-zero code|^-+$|^ *\d+ \||^>"
    r"|exit code: \d+$"
)
_EXIT_CODE: Final = re.compile(r"(?:exit code|non-zero code): (\d+)")
_ANY_ERROR: Final = re.compile(
    r"^(E: |[\w.]*(Error|Exception)\b.*: |(ERROR|error|fatal|FATAL|Fatal|FAILED)\b)|\berror: ",
    re.IGNORECASE,
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class BuildFailure:
    """One failed build; `place` is FILE:LINE of `step`, and both are empty where nobody told them."""

    line: str
    step: str
    place: str
    hint: str
    output: tuple[str, ...]

    @property
    def causes(self) -> tuple[str, ...]:
        """Return the instruction with its place, then the last lines of its output."""
        where = ": ".join(part for part in (self.place, self.step) if part)
        return (*((where,) if where else ()), *self.output)


@final
@dataclass(frozen=True, slots=True)
class _Kind:
    """One kind of failure: its line, and its cure with `{place}` and the groups of the line."""

    pattern: re.Pattern[str]
    hint: str


def _kind(pattern: str, hint: str) -> _Kind:
    return _Kind(re.compile(pattern), hint)


# The first kind with a line wins: pip's "no matching distribution" also follows a lost network.
_KINDS: Final = (
    _kind(
        r"(?i)no space left on device",
        "`docker system df` shows what takes the space, `docker system prune` frees it",
    ),
    _kind(
        r"(?i)cannot allocate memory|\bkilled\b|exit code:? 137|non-zero code: 137",
        "the step was killed, mostly for lack of memory: give the engine more, or do less at once",
    ),
    _kind(
        r"(?i)temporary failure (in name resolution|resolving)|could not resolve|name or service not known"
        r"|failed to establish a new connection|network is unreachable|connection (refused|reset|timed out)"
        r"|\b(connect|read) ?timed? ?out|proxyerror|sslerror|i/o timeout|dial tcp|no such host",
        "the build cannot reach that address: try `network: host` below `build` in compose.yml, name a "
        "proxy (`HTTPS_PROXY` in its `args`), or a mirror (`TORCH_INDEX`, `PIP_INDEX_URL`)",
    ),
    _kind(
        r"(?i)toomanyrequests|429 too many requests|rate limit",
        "the registry wants fewer requests: `docker login`, or wait",
    ),
    _kind(
        r"(?i)pull access denied for|manifest (for \S+ )?(not found|unknown)"
        r"|failed to resolve source metadata",
        "correct the image of `FROM` at `{place}`, or `docker login` if it is private",
    ),
    _kind(
        r"(?i)COPY failed|ADD failed|failed to (calculate checksum|compute cache key)"
        r"|file not found in build context|forbidden path outside the build context",
        "`{place}` names a file that is not in the context: add it, correct the path, or look whether "
        "`.dockerignore` leaves it out",
    ),
    _kind(
        r"(?i)dockerfile parse error|unknown instruction|failed to process .*: syntax error",
        "correct the syntax of `{place}`",
    ),
    _kind(
        r"requires a different Python|Requires-Python",
        "choose a `FROM` image with a Python that the package takes",
    ),
    _kind(
        r"No matching distribution found for (?P<what>\S+)",
        "no index that was asked has `{what}` for the image's Python and platform: correct it in "
        "pyproject.toml, name another index (`TORCH_INDEX`, `PIP_INDEX_URL`), or take another `FROM` image",
    ),
    _kind(
        r"ResolutionImpossible|conflicting dependencies",
        "two requirements exclude each other: loosen one in pyproject.toml",
    ),
    _kind(
        r"E: (Unable to locate package (?P<what>\S+)|Package '?\S+ has no installation candidate)",
        "correct the package's name at `{place}`, and put `apt-get update` into the same RUN",
    ),
    _kind(
        r"(?P<what>[\w./+-]+): (command )?not found$",
        "install `{what}` in an earlier step than `{place}`",
    ),
    _kind(
        r"(?i)permission denied",
        "the user of this step may not do that: `USER root` before `{place}`, or `COPY --chown`",
    ),
)
_OTHER: Final = "correct `{place}`"


def read_failure(output: str, dockerfile: Path, said: str = "") -> BuildFailure:
    """Return the causes of a failed build from its whole output and the engine's last word."""
    lines = [line for line in map(_plain, f"{output}\n{said}".splitlines()) if line]
    step, inside = _failing_step(lines)
    place = _place(lines, step, dockerfile)
    own = [line for line in map(_without_progress, inside) if line and not _SUMMARY.search(line)]
    candidates = [*reversed(own), *map(_without_progress, reversed(lines[-QUOTED_LINES:]))]
    for kind in _KINDS:
        for line in candidates:
            found = kind.pattern.search(line)
            if found:
                hint = kind.hint.format(place=place or dockerfile, **found.groupdict())
                return _failure(line, step, place, hint, own)
    line = next((line for line in reversed(own) if _ANY_ERROR.search(line)), "")
    code = next((found[1] for line in lines if (found := _EXIT_CODE.search(line))), None)
    if not line and code is not None:
        line = f"a step ended with exit code {code}"
    line = line or (own[-1] if own else _plain(said) or "the builder gave no reason")
    return _failure(line, step, place, _OTHER.format(place=place or dockerfile), own)


def build_failed(what: str, failure: BuildFailure) -> OperationFailedError:
    """Return the error of a failed build: the line that matters first, then where, then the output."""
    return OperationFailedError(
        error_id="build-failed",
        message=f"{what} cannot be built: {failure.line}",
        hint=failure.hint,
        causes=failure.causes,
    )


def build_shown(what: str, dockerfile: Path) -> OperationFailedError:
    """Return the error of a failed build whose output went to the terminal, past this program."""
    return OperationFailedError(
        error_id="build-failed",
        message=f"{what} cannot be built; the lines above say why",
        hint=f"correct `{dockerfile}`; in a pipe (`... 2>&1 | cat`) the line that matters comes first",
    )


def _failure(line: str, step: str, place: str, hint: str, own: list[str]) -> BuildFailure:
    shown = step if len(step) <= STEP_WIDTH else f"{step[: STEP_WIDTH - 3]}..."
    quoted = tuple(each for each in own if each != line)[-QUOTED_LINES:]
    return BuildFailure(line=line, step=shown, place=place, hint=hint, output=quoted)


def _plain(line: str) -> str:
    return shown_at_last(line).strip()


def shown_at_last(line: str) -> str:
    r"""Return what a terminal would show of a line at last: no escapes, nothing written over.

    Example:
        >>> shown_at_last("\x1b[31m 10%\r100%\x1b[0m done")
        '100% done'
    """
    shown = _ESCAPES.sub("", line).rstrip("\r").rpartition("\r")[2]
    return "".join(each for each in shown if each.isprintable() or each == "\t").rstrip()


def _without_progress(line: str) -> str:
    return _PROGRESS.sub("", line, count=1) if _PROGRESS.match(line) else line


def _failing_step(lines: list[str]) -> tuple[str, list[str]]:
    """Return the instruction that failed and the lines of its output."""
    for error in reversed(lines):
        failed = _BUILDKIT_ERROR.match(error)
        if failed:
            mine = [line for line in lines if line.startswith(f"#{failed[1]} ")]
            steps = [found[2] for line in mine if (found := _BUILDKIT_STEP.match(line))]
            output = [line for line in mine if not _BUILDKIT_STEP.match(line)]
            return (steps[0] if steps else ""), [line for line in output if line != error] or [
                error
            ]
    for position in range(len(lines) - 1, -1, -1):
        found = _CLASSIC_STEP.match(lines[position])
        if found:
            after = [line for line in lines[position + 1 :] if not line.startswith(_CLASSIC_NOISE)]
            return found[1], after
    return "", lines


def _place(lines: list[str], step: str, dockerfile: Path) -> str:
    """Return FILE:LINE of the instruction, told by BuildKit or found in the file."""
    for line in reversed(lines):
        told = _BUILDKIT_PLACE.match(line)
        if told and told[1].endswith(dockerfile.name):
            return f"{dockerfile}:{told[2]}"
    numbered = next(
        (found for line in lines if (found := re.search(r"parse error (?:on )?line (\d+)", line))),
        None,
    )
    if numbered:
        return f"{dockerfile}:{numbered[1]}"
    wanted = " ".join(step.split())
    for number, text in _instructions(dockerfile):
        if wanted and text == wanted:
            return f"{dockerfile}:{number}"
    return ""


def _instructions(dockerfile: Path) -> list[tuple[int, str]]:
    """Return the instructions of a Dockerfile, continued lines joined, with their first lines."""
    try:
        text = dockerfile.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    found: list[tuple[int, str]] = []
    is_open = False
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        part = line.rstrip().removesuffix("\\")
        if is_open:
            first, before = found.pop()
            found.append((first, f"{before} {part}"))
        else:
            found.append((number, part))
        is_open = line.rstrip().endswith("\\")
    return [(number, " ".join(part.split())) for number, part in found]
