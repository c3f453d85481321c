"""The causes that pip gives for a failure are found among its notes."""

from fdl_cli.torchenv.pip_tool import pip_causes

BUILD_NEEDS = """\
WARNING: Location 'vendor' is ignored: it is neither a file nor a directory.
  error: subprocess-exited-with-error

  x pip subprocess to install build dependencies did not run successfully.
  │ exit code: 1
  ╰─> [2 lines of output]
      ERROR: Could not find a version that satisfies the requirement editables~=0.3 (from versions: none)
      ERROR: No matching distribution found for editables~=0.3
      [end of output]

  note: This error originates from a subprocess, and is likely not a problem with pip.
error: subprocess-exited-with-error

x pip subprocess to install build dependencies did not run successfully.
│ exit code: 1
╰─> See above for output.

note: This error originates from a subprocess, and is likely not a problem with pip.
"""
BROKEN_BUILD = """\
  error: subprocess-exited-with-error

  x Preparing editable metadata (pyproject.toml) did not run successfully.
  │ exit code: 1
  ╰─> [3 lines of output]
      Traceback (most recent call last):
        File "/tmp/x/hatchling/metadata/core.py", line 57, in dynamic
          raise ValueError(message)
      ValueError: Invalid version: `one`
      [end of output]

note: This error originates from a subprocess, and is likely not a problem with pip.
"""


def test_pip_causes_of_a_missing_build_requirement_names_it():
    assert pip_causes(BUILD_NEEDS) == (
        (
            "ERROR: Could not find a version that satisfies the requirement editables~=0.3 "
            "(from versions: none)"
        ),
        "ERROR: No matching distribution found for editables~=0.3",
    )


def test_pip_causes_of_a_broken_build_is_the_exception():
    assert pip_causes(BROKEN_BUILD) == ("ValueError: Invalid version: `one`",)


def test_pip_causes_without_errors_are_the_last_lines_without_credentials():
    text = "".join(f"line {number}\n\n" for number in range(9)) + "see https://me:secret@host/x\n"
    assert pip_causes(text) == (
        *(f"line {number}" for number in range(4, 9)),
        "see https://host/x",
    )
    assert pip_causes("") == ()
