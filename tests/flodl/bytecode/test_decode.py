"""Decoding: what a frame runs, where jumps go, and what is refused."""

import sys
from types import SimpleNamespace

import pytest

from flodl import BytecodeError
from flodl.bytecode import decode
from flodl.bytecode.decode import instructions, running_offset
from flodl.bytecode.instruction import Kind


@pytest.fixture
def forgetful(monkeypatch):
    """Decode anew, and let no other test see what was decoded."""
    monkeypatch.setattr(decode, "_decoded", decode._decoded.__wrapped__)


def example(x, y):
    for each in x:
        if each is not None and each < y:
            return [each, *y]
    return x


def test_instructions_of_an_unknown_version_are_refused(monkeypatch, forgetful):
    monkeypatch.setattr(decode, "VERSION", (3, 99))
    with pytest.raises(BytecodeError, match=r"CPython 3\.11, .*3\.14 only; .*`uv venv --python"):
        instructions(example.__code__)


def test_instructions_of_another_implementation_are_refused(monkeypatch, forgetful):
    monkeypatch.setattr(sys, "implementation", SimpleNamespace(name="pypy"))
    with pytest.raises(BytecodeError, match="cannot trace a flow on pypy"):
        instructions(example.__code__)


def test_instructions_with_an_unknown_opcode_are_refused(monkeypatch, forgetful):
    monkeypatch.delitem(decode.RULES, "FOR_ITER")
    line = example.__code__.co_firstlineno + 1
    where = rf"test_decode\.py:{line}: cannot trace `example`: the instruction FOR_ITER \d+ of"
    with pytest.raises(BytecodeError, match=where + r" Python 3\..* is unknown; update flodl"):
        instructions(example.__code__)


def test_targets_of_jumps_are_instructions():
    steps = instructions(example.__code__)
    offsets = [step.offset for step in steps]
    assert offsets == sorted(offsets)
    targets = [step.target for step in steps if step.target is not None]
    assert len(targets) >= 3
    assert set(targets) <= set(offsets)


def test_positions_are_those_of_the_source():
    steps = instructions(example.__code__)
    compared = next(step for step in steps if step.kind is Kind.COMPARE)
    line = example.__code__.co_firstlineno + 2
    assert compared.position == (line, line, 32, 40)


class Watching(type):
    """A class whose `isinstance` notes the instruction that asks."""

    seen: list[int] = []

    def __instancecheck__(cls, instance):
        cls.seen.append(running_offset(sys._getframe(1)))
        return True

    def __call__(cls):
        cls.seen.append(running_offset(sys._getframe(1)))


class Watched(metaclass=Watching):
    pass


def asking(x):
    return isinstance(x, Watched)


def calling():
    return Watched()


@pytest.mark.parametrize("function", [asking, calling])
def test_running_offset_stays_the_call_when_python_specialises_it(function):
    Watching.seen.clear()
    arguments = (1,) * function.__code__.co_argcount
    for _ in range(100):
        function(*arguments)
    call = next(step for step in instructions(function.__code__) if step.kind is Kind.CALL)
    assert set(Watching.seen) == {call.offset}
