"""Where operands come from: along every path, and the same on every version of Python."""

from types import FunctionType

import pytest

from flodl.bytecode.decode import instructions
from flodl.bytecode.instruction import Kind
from flodl.bytecode.operands import callee, operands


def walrus(f, x):
    return x if (y := f(x)) is None else y


def two_branches(f, g, x):
    return (f(x) if x else g(x)) is None


def in_a_loop(f, xs):
    for x in xs:
        try:
            y = f(x)
        except ValueError:
            continue
        if y is None:
            return x
    return None


def joined(f, x):
    return (f(x) or x) is None


def with_a_manager(f, x):
    with x:
        return f(x) is None


def sources_of(function: FunctionType, kind: Kind) -> tuple[str, ...]:
    """Return the names of what brings the last operand of the instructions of a kind.

    Since 3.13 a short end of a function is compiled once for each branch that leads there.
    """
    steps, taken = instructions(function.__code__), operands(function.__code__)
    return tuple(
        sorted(
            f"{steps[each].kind.name} {steps[each].name}".strip()
            for step, sources in zip(steps, taken, strict=True)
            if step.kind is kind
            for each in sources[-1]
        )
    )


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (walrus, ("CALL",)),
        (two_branches, ("CALL", "CALL")),
        (in_a_loop, ("LOAD_LOCAL y",)),
        (joined, ("CALL", "LOAD_LOCAL x")),
        (with_a_manager, ("CALL",)),
    ],
    ids=lambda each: each.__name__ if isinstance(each, FunctionType) else "",
)
def test_operands_of_a_none_test_are_found_on_every_path(function, expected):
    assert sources_of(function, Kind.IS_NONE) == expected


def test_operands_in_a_loop_with_a_handler_keep_the_iterator():
    steps, taken = instructions(in_a_loop.__code__), operands(in_a_loop.__code__)
    stored = {(Kind.STORE_LOCAL, "x"): set(), (Kind.STORE_LOCAL, "y"): set()}
    for step, sources in zip(steps, taken, strict=True):
        if (step.kind, step.name) in stored:
            stored[step.kind, step.name] |= {steps[each].kind for each in sources[0]}
    assert list(stored.values()) == [{Kind.FOR_ITER}, {Kind.CALL}]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("f(x)", {"f"}),
        ("x.f(g(x), y=x)", {"f"}),
        ("(x.f)(*x, **x)", {"f"}),
        ("f(x)(g)", set()),
        ("(f if x else g)(x)", {"f", "g"}),
    ],
)
def test_callee_is_what_the_outer_call_calls(text, names):
    code = compile(text, "<text>", "eval")
    steps, taken = instructions(code), operands(code)
    found: set[str] = set()
    for position, step in enumerate(steps[:-1]):
        if (
            step.kind in (Kind.CALL, Kind.CALL_UNPACKED)
            and steps[position + 1].kind is Kind.RETURN
        ):
            found |= {steps[each].name for each in callee(step, taken[position])}
    assert found - {""} == names
