"""A report on the normaliser under one Python, which needs no torch: `python probe.py ROOT PART`.

It is a program, and not a test, because it runs under Pythons that have neither torch nor pytest.
"""

import dis
import json
import sys
import sysconfig
import types
from pathlib import Path

ROOT = Path(sys.argv[1])
# `flodl` itself imports torch; the package of bytecode must not.
package = types.ModuleType("flodl")
package.__path__ = [str(ROOT / "flodl")]
sys.modules["flodl"] = package

from flodl.bytecode import decode, opcodes, operands  # noqa: E402
from flodl.bytecode.instruction import Kind  # noqa: E402

# They never get into a code object, or `co_code` shows the instruction that they stand for.
UNSEEN = {
    "ENTER_EXECUTOR", "EXIT_INIT_CHECK", "INTERPRETER_EXIT", "RESERVED", "ANNOTATIONS_PLACEHOLDER",
    "JUMP", "JUMP_NO_INTERRUPT", "JUMP_IF_FALSE", "JUMP_IF_TRUE", "POP_BLOCK", "SETUP_CLEANUP",
    "SETUP_FINALLY", "SETUP_WITH", "STORE_FAST_MAYBE_NULL", "LOAD_SUPER_METHOD",
    "LOAD_ZERO_SUPER_ATTR", "LOAD_ZERO_SUPER_METHOD", "LOAD_CONST_IMMORTAL", "LOAD_CONST_MORTAL",
}  # fmt: skip
# Modules of the standard library that use every part of the language.
MODULES = ("ast", "argparse", "asyncio/base_events", "asyncio/taskgroups", "contextlib", "dataclasses",
       "inspect", "typing", "pickle", "tarfile", "enum", "socket", "test/test_patma",
       "test/test_grammar", "test/test_except_star", "test/test_type_params")  # fmt: skip


def nested(code):
    yield code
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from nested(const)


def text_of(step):
    words = [step.kind.name]
    if step.kind is Kind.MAKE_FUNCTION:
        return "MAKE_FUNCTION"  # of as many parts as the version of Python likes
    if isinstance(step.value, types.CodeType):
        words.append(step.value.co_name)
    elif step.kind in (Kind.LOAD_CONST, Kind.JUMP_IF) or (step.kind is Kind.CALL and step.value):
        words.append(repr(step.value))
    words += [word for word in (step.name, step.count or "", "negated" * step.negated) if word]
    return " ".join(map(str, words))


# Where versions differ by design: the place of a callable's second slot, and of a function's parts.
DIFFERENT = (Kind.PUSH_NULL, Kind.SET_FUNCTION_PART)


def listings():
    """Return the instructions of the corpus."""
    import corpus

    functions = {name: f for name, f in vars(corpus).items() if isinstance(f, types.FunctionType)}
    functions |= {f"Base.{name}": f for name, f in vars(corpus.Base).items() if callable(f)}
    return {
        name: [
            text_of(step)
            for step in decode.instructions(function.__code__)
            if step.kind not in DIFFERENT
        ]
        for name, function in functions.items()
    }


def without_a_row():
    """Return the opcodes of this Python that no row covers."""
    known = {*opcodes.RULES, *opcodes.NO_OPERATION, *UNSEEN}
    specialised = set(getattr(dis, "_specialized_opmap", ()))
    if not specialised:
        import opcode

        specialised = set(getattr(opcode, "_specialized_opmap", ()))
    return sorted(
        name
        for name in set(dis.opmap) - known - specialised
        if not name.startswith("INSTRUMENTED_")
    )


def check_stack(code):
    """Follow every path of a code object: the stack must have one depth at each instruction."""
    steps = decode.instructions(code)
    stacks = operands._stacks(code, steps)  # fails where two paths disagree
    for position, stack in stacks.items():
        step = steps[position]
        assert len(stack) >= step.pops, (code, step, stack)
        assert step.kind is not Kind.RETURN or len(stack) == 1, (code, step, stack)
    # An instruction that is split may need a place more for a moment.
    assert max(map(len, stacks.values())) <= code.co_stacksize + 1, code
    ours = operands._handlers(code, {step.offset: step.offset for step in steps})
    table = dis._parse_exception_table(code)
    assert [(each.start, each.end, each.depth, each.pushes) for each in ours] == [
        (each.start, each.end, each.depth, each.lasti + 1) for each in table
    ]
    assert all(each.target >= entry.target for each, entry in zip(ours, table, strict=True))


def checked_stacks():
    """Check the code of the modules, and return how many pieces there were."""
    library = Path(sysconfig.get_path("stdlib"))
    files = [library / f"{name}.py" for name in MODULES]
    codes = [
        code
        for path in files
        if path.exists()  # some distributions leave the tests of Python out
        for code in nested(compile(path.read_bytes(), str(path), "exec"))
    ]
    for code in codes:
        check_stack(code)
    return len(codes)


def numbered():
    """Return the arguments whose names this Python tells, next to ours."""
    import opcode

    found = {}
    for pops in (1, 2):
        for number, name in enumerate(getattr(opcode, f"_intrinsic_{pops}_descs", ())):
            if number:
                word = name.removeprefix("INTRINSIC_").lower()
                ours = opcodes._INTRINSICS.get((pops, number), "")
                found[word] = "unary_positive" if ours == "+" else ours
    for number, value in enumerate(getattr(opcode, "_common_constants", ())):
        found[value.__name__] = opcodes._COMMON_CONSTANTS[number]
    return found


PARTS = {
    "listings": listings,
    "without_a_row": without_a_row,
    "numbered": numbered,
    "stacks": checked_stacks,
}

if __name__ == "__main__":
    assert "torch" not in sys.modules
    sys.stdout.write(json.dumps(PARTS[sys.argv[2]]()))
