"""The process that compiles a step: what it does to the library that torch made."""

import ctypes
import shutil
import subprocess

import pytest

from flodl.step.compiler import forbid_executable_stack

needs_binutils = pytest.mark.skipif(
    not (shutil.which("g++") and shutil.which("readelf")), reason="needs g++ and readelf"
)


def stack_of(library):
    """Return the rights of the stack that a library asks for, such as RWE."""
    words = ["readelf", "--program-headers", "--wide", str(library)]
    printed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    [line] = [line for line in printed.splitlines() if "GNU_STACK" in line]
    return line.split()[-2]


@needs_binutils
def test_library_with_an_executable_stack_is_made_loadable(tmp_path):
    source, library = tmp_path / "answer.c", tmp_path / "answer.so"
    source.write_text("int answer(void) { return 42; }")
    # `-x c`: the name stays as it is written.
    words = [
        "g++",
        "-x",
        "c",
        "-shared",
        "-fPIC",
        "-Wl,-z,execstack",
        "-o",
        str(library),
        str(source),
    ]
    subprocess.run(words, check=True)
    assert stack_of(library) == "RWE"
    forbid_executable_stack(library)
    assert stack_of(library) == "RW"
    assert ctypes.CDLL(str(library)).answer() == 42


def test_library_of_another_format_stays_as_it_is(tmp_path):
    library = tmp_path / "step.so"
    library.write_bytes(b"\xcf\xfa\xed\xfe" + bytes(range(200)))
    before = library.read_bytes()
    forbid_executable_stack(library)
    assert library.read_bytes() == before
