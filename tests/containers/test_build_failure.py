"""Failed builds name the line that matters, its instruction and place, and the cure that fits."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdl_cli.containers.build_failure import QUOTED_LINES, build_failed, read_failure

DOCKERFILE = """\
# A comment, and then the image.
FROM python:3.12-slim AS base

COPY pyproject.toml ./
RUN useradd app \\
    # a comment inside
    && python -m pip install "torch>=2.6"
RUN apt-get install -y no-such-thing
RUN frobnicate --all
"""
PIP_STEP = 'RUN useradd app     && python -m pip install "torch>=2.6"'
NO_TORCH = "ERROR: No matching distribution found for torch>=2.6"

NO_FILE = """\
#6 [2/2] COPY pyproject.toml ./
#6 ERROR: failed to calculate checksum of ref a::b: "/pyproject.toml": not found
------
Dockerfile:4
"""
NO_IMAGE = """\
#2 ERROR: failed to resolve source metadata for docker.io/library/pyton:3: pull access denied
Dockerfile:2
"""


@pytest.fixture
def dockerfile(tmp_path):
    path = tmp_path / "Dockerfile"
    path.write_text(DOCKERFILE)
    return path


def classic(step, *output, code=1):
    """Return output and last word of the builder without BuildKit."""
    lines = ["Step 1/9 : FROM python:3.12-slim AS base", " ---> 0a1b2c", f"Step 5/9 : {step}"]
    command = step.removeprefix("RUN ")
    said = f"The command '/bin/sh -c {command}' returned a non-zero code: {code}"
    return "\n".join([*lines, " ---> Running in 12ab", *output]), said


def buildkit(step, *output, code=1, line=5):
    """Return what BuildKit prints with `--progress=plain`."""
    command = f'process "/bin/sh -c {step.removeprefix("RUN ")}"'
    end = f"{command} did not complete successfully: exit code: {code}"
    return "\n".join(
        [
            "#1 [internal] load build definition from Dockerfile",
            "#1 DONE 0.0s",
            "#7 [base 2/5] COPY pyproject.toml ./",
            "#7 CACHED",
            f"#8 [base 3/5] {step}",
            *(f"#8 {position}.1{position} {each}" for position, each in enumerate(output)),
            f"#8 ERROR: {end}",
            "------",
            f" > [base 3/5] {step}:",
            *(f"{position}.1{position} {each}" for position, each in enumerate(output)),
            "------",
            f"Dockerfile:{line}",
            "--------------------",
            "   4 |     COPY pyproject.toml ./",
            f"   {line} | >>> {step}",
            "--------------------",
            f"target dev: failed to solve: {end}",
        ]
    ), ""


@pytest.mark.parametrize("builder", [classic, buildkit])
def test_failure_of_pip_names_the_requirement_and_the_instruction(builder, dockerfile):
    output, said = builder(
        PIP_STEP,
        "Looking in indexes: https://download.pytorch.org/whl/cpu",
        "\x1b[31mERROR: Could not find a version that satisfies the requirement torch>=2.6\x1b[0m",
        f"\x1b[31m{NO_TORCH}\x1b[0m",
    )
    failure = read_failure(output, dockerfile, said)
    assert failure.line == NO_TORCH
    assert failure.place == f"{dockerfile}:5"
    assert failure.hint.startswith(
        "no index that was asked has `torch>=2.6` for the image's Python"
    )
    assert failure.causes[0] == f"{dockerfile}:5: {PIP_STEP}"
    assert failure.causes[1:] == (
        "Looking in indexes: https://download.pytorch.org/whl/cpu",
        "ERROR: Could not find a version that satisfies the requirement torch>=2.6",
    )


@pytest.mark.parametrize("builder", [classic, buildkit])
@pytest.mark.parametrize(
    ("output", "line", "hint"),
    [
        (
            ["WARNING: Retrying: Failed to establish a new connection: [Errno 101]", NO_TORCH],
            "WARNING: Retrying: Failed to establish a new connection: [Errno 101]",
            "cannot reach that address",
        ),
        (["OSError: [Errno 28] No space left on device", "more"], None, "docker system prune"),
        (["Get:1 http://deb", "E: Unable to locate package nothing"], "E: Unable to locate package nothing",
         "correct the package's name at `FILE:5`"),
        (["/bin/sh: 1: frobnicate: not found"], "/bin/sh: 1: frobnicate: not found",
         "install `frobnicate` in an earlier step than `FILE:5`"),
        (["mkdir: cannot create directory '/x': Permission denied"],
         "mkdir: cannot create directory '/x': Permission denied", "`USER root` before `FILE:5`"),
        (["ERROR: Package 'p' requires a different Python: 3.9.2 not in '>=3.11'"], None,
         "choose a `FROM` image"),
        (["Traceback (most recent call last):", "  File ...", "ValueError: no good", "bye"],
         "ValueError: no good", "correct `FILE:5`"),
        (["1 error generated.", "x.c:3:1: error: expected ;", "make: leaving"],
         "x.c:3:1: error: expected ;", "correct `FILE:5`"),
        (["before"], "a step ended with exit code 1", "correct `FILE:5`"),
        ([], "a step ended with exit code 1", "correct `FILE:5`"),
    ],
)  # fmt: skip
def test_failure_gets_the_line_and_the_cure_of_its_kind(builder, output, line, hint, dockerfile):
    printed, said = builder(PIP_STEP, *output)
    failure = read_failure(printed, dockerfile, said)
    assert failure.line == (line or output[0])
    assert hint.replace("FILE", str(dockerfile)) in failure.hint


@pytest.mark.parametrize("builder", [classic, buildkit])
def test_failure_of_a_killed_step_names_memory(builder, dockerfile):
    output, said = builder(PIP_STEP, "compiling", code=137)
    failure = read_failure(output, dockerfile, said)
    assert "lack of memory" in failure.hint


@pytest.mark.parametrize(
    ("output", "said", "place", "hint"),
    [
        ("Step 3/9 : COPY missing.txt /\n",
         "COPY failed: file not found in build context or excluded by .dockerignore: stat missing.txt",
         "", "not in the context"),
        (NO_FILE, "", ":4", "`.dockerignore` leaves it"),
        ("", "dockerfile parse error on line 8: unknown instruction: RUM", ":8", "syntax of `FILE:8`"),
        (NO_IMAGE, "", ":2", "correct the image of `FROM` at `FILE:2`"),
        ("Step 1/3 : FROM pyton:3\n", "pull access denied for pyton, repository does not exist", "",
         "`docker login` if it is private"),
    ],
)  # fmt: skip
def test_failure_before_any_command_names_file_and_cure(output, said, place, hint, dockerfile):
    failure = read_failure(output, dockerfile, said)
    assert failure.place == (f"{dockerfile}{place}" if place else "")
    assert hint.replace("FILE", str(dockerfile)) in failure.hint
    assert failure.line


def test_failure_shows_no_escapes_no_progress_and_no_empty_causes(dockerfile):
    output, said = classic(
        PIP_STEP,
        "\x1b]0;title\x07\x1b[2K  10%|#   |\r  50%|##  |\r 100%|####|",
        "", "   ", "\x1b[1;31mfatal: it broke\x1b[0m\x08",
        *(f"line {number}" for number in range(30)),
    )  # fmt: skip
    failure = read_failure(output, dockerfile, said)
    assert failure.line == "fatal: it broke"
    assert len(failure.output) == QUOTED_LINES
    assert failure.output[-1] == "line 29"
    assert all(
        cause.strip() and "\x1b" not in cause and "\r" not in cause for cause in failure.causes
    )


def test_failure_as_an_error_says_the_line_first(dockerfile):
    output, said = classic(PIP_STEP, NO_TORCH)
    error = build_failed("the image `x`", read_failure(output, dockerfile, said))
    assert error.message == f"the image `x` cannot be built: {NO_TORCH}"
    assert error.causes == (f"{dockerfile}:5: {PIP_STEP}",)


def test_failure_with_a_long_instruction_is_shortened(dockerfile):
    step = "RUN echo " + "x" * 500
    output, said = classic(step, "fatal: no")
    failure = read_failure(output, dockerfile, said)
    assert len(failure.step) == 100
    assert failure.step.endswith("...")


@given(st.text(), st.text())
def test_failure_of_any_output_has_a_line_and_a_cure(output, said):
    failure = read_failure(output, Path("/nowhere/Dockerfile"), said)
    assert failure.line
    assert failure.hint
    assert all(cause.isprintable() or "\t" in cause for cause in failure.causes)
