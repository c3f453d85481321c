"""The meaning of each CPython instruction in the normalised set, for CPython 3.11 to 3.14.

A row says what one instruction becomes. An opcode without a row is an error: an instruction that was
skipped or guessed could make a flow wrong without a message.

    STORE_FAST_LOAD_FAST a, b   ->   STORE_LOCAL a, LOAD_LOCAL b
    LOAD_ATTR forward, method   ->   LOAD_ATTR forward, PUSH_NULL
    STORE_SLICE                 ->   BUILD slice, STORE_SUBSCRIPT
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from flodl.bytecode.instruction import Instruction, Kind, Position

Rule: TypeAlias = Callable[[dis.Instruction], tuple[Instruction, ...]]

VERSION: Final = sys.version_info[:2]
SUPPORTED: Final = ((3, 11), (3, 12), (3, 13), (3, 14))

NO_OPERATION: Final = frozenset({
    "CACHE", "NOP", "RESUME", "EXTENDED_ARG", "PRECALL", "KW_NAMES", "NOT_TAKEN",
    "MAKE_CELL", "COPY_FREE_VARS",  # they prepare the frame, not the stack
})  # fmt: skip
"""Instructions that become nothing; what they say of a call is a part of the call."""

_SUBSCRIPT_OPERATOR = 26  # since 3.14 a subscript is a binary operator
_TRUTH_IS_EXPLICIT = VERSION >= (3, 13)  # before, a jump itself tested the truth of any value


def _one(raw: dis.Instruction, kind: Kind, pops: int, pushes: int, **rest: Any) -> Instruction:
    place = raw.positions
    position = Position(*place) if place is not None else Position(None, None, None, None)
    return Instruction(kind, raw.offset, position, pops, pushes, **rest)


def _argument(raw: dis.Instruction) -> int:
    return int(raw.arg or 0)


def _plain(kind: Kind, pops: int, pushes: int, name: str = "", count: int = 0) -> Rule:
    return lambda raw: (_one(raw, kind, pops, pushes, name=name, count=count),)


def _named(kind: Kind, pops: int, pushes: int) -> Rule:
    return lambda raw: (_one(raw, kind, pops, pushes, name=str(raw.argval)),)


def _pair(first: tuple[Kind, int, int], second: tuple[Kind, int, int]) -> Rule:
    def split(raw: dis.Instruction) -> tuple[Instruction, ...]:
        names = (str(name) for name in raw.argval)
        rows = zip((first, second), names, strict=True)
        return tuple(_one(raw, *row, name=name) for row, name in rows)

    return split


def _negatable(kind: Kind) -> Rule:
    return lambda raw: (_one(raw, kind, 2, 1, negated=bool(raw.arg)),)


def _collected(kind: Kind, name: str, pops: int = 1) -> Rule:
    return lambda raw: (_one(raw, kind, pops, 0, name=name, count=_argument(raw)),)


def _built(name: str, per_item: int = 1, extra: int = 0) -> Rule:
    def build(raw: dis.Instruction) -> tuple[Instruction, ...]:
        count = _argument(raw)
        return (_one(raw, Kind.BUILD, per_item * count + extra, 1, name=name, count=count),)

    return build


def _slice_of(kind: Kind, pops: int, pushes: int) -> Rule:
    return lambda raw: (
        _one(raw, Kind.BUILD, 2, 1, name="slice", count=2),
        _one(raw, kind, pops, pushes),
    )


def _push_null(raw: dis.Instruction) -> Instruction:
    return _one(raw, Kind.PUSH_NULL, 0, 1)


def _constant(raw: dis.Instruction) -> tuple[Instruction, ...]:
    return (_one(raw, Kind.LOAD_CONST, 0, 1, value=raw.argval),)


def _return_constant(raw: dis.Instruction) -> tuple[Instruction, ...]:
    return *_constant(raw), _one(raw, Kind.RETURN, 1, 0)


def _common_constant(raw: dis.Instruction) -> tuple[Instruction, ...]:
    index = _argument(raw)
    names = _COMMON_CONSTANTS[index : index + 1]
    return tuple(_one(raw, Kind.LOAD_BUILTIN, 0, 1, name=name) for name in names)


def _global(raw: dis.Instruction) -> tuple[Instruction, ...]:
    load = _one(raw, Kind.LOAD_GLOBAL, 0, 1, name=str(raw.argval))
    if not _argument(raw) & 1:
        return (load,)
    null = _push_null(raw)
    return (load, null) if _TRUTH_IS_EXPLICIT else (null, load)  # 3.13 moved the slot, too


def _attribute(raw: dis.Instruction) -> tuple[Instruction, ...]:
    load = _one(raw, Kind.LOAD_ATTR, 1, 1, name=str(raw.argval))
    is_method = raw.opname == "LOAD_METHOD" if VERSION < (3, 12) else bool(_argument(raw) & 1)
    return (load, _push_null(raw)) if is_method else (load,)


def _super_attribute(raw: dis.Instruction) -> tuple[Instruction, ...]:
    # `super(__class__, self).name` without a `super` object. Its three operands lie there as for a
    # call, except that there is no second slot.
    call = _one(raw, Kind.CALL, 3, 1, value=(), count=2)
    return call, *_attribute(raw)


def _operator(raw: dis.Instruction) -> tuple[Instruction, ...]:
    if raw.arg == _SUBSCRIPT_OPERATOR:
        return (_one(raw, Kind.SUBSCRIPT, 2, 1),)
    return (_one(raw, Kind.BINARY, 2, 1, name=raw.argrepr),)


def _comparison(raw: dis.Instruction) -> tuple[Instruction, ...]:
    compare = _one(raw, Kind.COMPARE, 2, 1, name=str(raw.argval))
    if _TRUTH_IS_EXPLICIT and _argument(raw) & 16:
        return compare, _truth(raw)
    return (compare,)


def _truth(raw: dis.Instruction) -> Instruction:
    return _one(raw, Kind.TO_BOOL, 1, 1)


def _not(raw: dis.Instruction) -> tuple[Instruction, ...]:
    inverted = _one(raw, Kind.UNARY, 1, 1, name="not")
    return (inverted,) if _TRUTH_IS_EXPLICIT else (_truth(raw), inverted)


def _jump(raw: dis.Instruction) -> tuple[Instruction, ...]:
    return (_one(raw, Kind.JUMP, 0, 0, target=int(raw.argval)),)


def _jump_if(raw: dis.Instruction) -> tuple[Instruction, ...]:
    name = raw.opname
    end = {"target": int(raw.argval), "jump_effect": -1}
    if name.endswith("NONE"):
        is_none = _one(raw, Kind.IS_NONE, 1, 1)
        return is_none, _one(raw, Kind.JUMP_IF, 1, 0, value="NOT" not in name, **end)
    jump = _one(raw, Kind.JUMP_IF, 1, 0, value=name.endswith("TRUE"), **end)
    return (jump,) if _TRUTH_IS_EXPLICIT else (_truth(raw), jump)


def _jump_or_pop(raw: dis.Instruction) -> tuple[Instruction, ...]:
    jump = _one(
        raw, Kind.JUMP_IF, 1, 0, value="TRUE" in raw.opname, target=int(raw.argval), jump_effect=-1
    )
    copy = _one(raw, Kind.COPY, 0, 1, count=1)
    return copy, _truth(raw), jump, _one(raw, Kind.POP_TOP, 1, 0)


def _next_item(raw: dis.Instruction) -> tuple[Instruction, ...]:
    # Since 3.12 the end of the loop takes the iterator away, and a placeholder for the item.
    effect = -1 if VERSION < (3, 12) else 1
    return (_one(raw, Kind.FOR_ITER, 0, 1, target=int(raw.argval), jump_effect=effect),)


def _send(raw: dis.Instruction) -> tuple[Instruction, ...]:
    effect = -1 if VERSION < (3, 12) else 0
    return (_one(raw, Kind.SEND, 2, 2, target=int(raw.argval), jump_effect=effect),)


def _call(raw: dis.Instruction) -> tuple[Instruction, ...]:
    count = _argument(raw)
    return (_one(raw, Kind.CALL, count + 2, 1, value=(), count=count),)


def _call_unpacked(raw: dis.Instruction) -> tuple[Instruction, ...]:
    pops = 4 if VERSION >= (3, 14) else 3 + (_argument(raw) & 1)
    return (_one(raw, Kind.CALL_UNPACKED, pops, 1),)


def _function(raw: dis.Instruction) -> tuple[Instruction, ...]:
    parts = _argument(raw).bit_count() if VERSION < (3, 13) else 0
    return (_one(raw, Kind.MAKE_FUNCTION, 1 + parts, 1, count=parts),)


def _format(raw: dis.Instruction) -> tuple[Instruction, ...]:
    conversion, has_specification = raw.argval
    name = conversion.__name__ if conversion else ""
    return (_one(raw, Kind.FORMAT, 2 if has_specification else 1, 1, name=name),)


def _convert(raw: dis.Instruction) -> tuple[Instruction, ...]:
    return (_one(raw, Kind.CONVERT, 1, 1, name=raw.argval.__name__),)


def _unpack(raw: dis.Instruction) -> tuple[Instruction, ...]:
    count = _argument(raw)
    return (_one(raw, Kind.UNPACK, 1, count, count=count),)


def _unpack_starred(raw: dis.Instruction) -> tuple[Instruction, ...]:
    before, after = _argument(raw) & 0xFF, _argument(raw) >> 8
    return (_one(raw, Kind.UNPACK_STARRED, 1, before + 1 + after, count=before),)


def _at_depth(kind: Kind, pushes: int) -> Rule:
    return lambda raw: (_one(raw, kind, 0, pushes, count=_argument(raw)),)


def _raise(raw: dis.Instruction) -> tuple[Instruction, ...]:
    return (_one(raw, Kind.RAISE, _argument(raw), 0, count=_argument(raw)),)


def _special_method(raw: dis.Instruction) -> tuple[Instruction, ...]:
    kind = Kind.ENTER_WITH if raw.argrepr in ("__enter__", "__aenter__") else Kind.LOAD_EXIT
    return (_one(raw, kind, 1, 2, name=raw.argrepr),)


def _interpolation(raw: dis.Instruction) -> tuple[Instruction, ...]:
    has_specification = _argument(raw) & 1
    return (_one(raw, Kind.BUILD, 2 + has_specification, 1, name="interpolation"),)


def _intrinsic(pops: int) -> Rule:
    def call(raw: dis.Instruction) -> tuple[Instruction, ...]:
        name = _INTRINSICS.get((pops, _argument(raw)), "")
        if name == "+":
            return (_one(raw, Kind.UNARY, 1, 1, name=name),)
        return (_one(raw, Kind.INTRINSIC, pops, 1, name=name),) if name else ()

    return call


def _dropped_intrinsic(name: str) -> Rule:
    return lambda raw: (
        _one(raw, Kind.INTRINSIC, 1, 1, name=name),
        _one(raw, Kind.POP_TOP, 1, 0),
    )


# Arguments that `dis` of some version gives as a number only. The numbers are the same in every version.
_INTRINSICS: Final = {
    (1, 1): "print", (1, 2): "import_star", (1, 3): "stopiteration_error",
    (1, 4): "async_gen_wrap", (1, 5): "+", (1, 6): "list_to_tuple", (1, 7): "typevar",
    (1, 8): "paramspec", (1, 9): "typevartuple", (1, 10): "subscript_generic",
    (1, 11): "typealias", (2, 1): "prep_reraise_star", (2, 2): "typevar_with_bound",
    (2, 3): "typevar_with_constraints", (2, 4): "set_function_type_params",
    (2, 5): "set_typeparam_default",
}  # fmt: skip
_COMMON_CONSTANTS: Final = ("AssertionError", "NotImplementedError", "tuple", "all", "any")

_LOCAL = _named(Kind.LOAD_LOCAL, 0, 1)
_CELL = _named(Kind.LOAD_CELL, 0, 1)
_LOADED = (Kind.LOAD_LOCAL, 0, 1)
_STORED = (Kind.STORE_LOCAL, 1, 0)

RULES: Final[dict[str, Rule]] = {
    # Values and variables.
    "LOAD_CONST": _constant,
    "LOAD_SMALL_INT": _constant,
    "LOAD_COMMON_CONSTANT": _common_constant,
    "LOAD_ASSERTION_ERROR": _plain(Kind.LOAD_BUILTIN, 0, 1, "AssertionError"),
    "LOAD_BUILD_CLASS": _plain(Kind.LOAD_BUILTIN, 0, 1, "__build_class__"),
    "LOAD_FAST": _LOCAL,
    "LOAD_FAST_CHECK": _LOCAL,
    "LOAD_FAST_BORROW": _LOCAL,
    "LOAD_FAST_AND_CLEAR": _named(Kind.SAVE_LOCAL, 0, 1),
    "LOAD_FAST_LOAD_FAST": _pair(_LOADED, _LOADED),
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW": _pair(_LOADED, _LOADED),
    "STORE_FAST": _named(Kind.STORE_LOCAL, 1, 0),
    "STORE_FAST_LOAD_FAST": _pair(_STORED, _LOADED),
    "STORE_FAST_STORE_FAST": _pair(_STORED, _STORED),
    "DELETE_FAST": _named(Kind.DELETE_LOCAL, 0, 0),
    "LOAD_DEREF": _CELL,
    "LOAD_CLASSDEREF": _CELL,
    "LOAD_FROM_DICT_OR_DEREF": _named(Kind.LOAD_CELL, 1, 1),
    "STORE_DEREF": _named(Kind.STORE_CELL, 1, 0),
    "DELETE_DEREF": _named(Kind.DELETE_CELL, 0, 0),
    "LOAD_CLOSURE": _named(Kind.LOAD_CLOSURE, 0, 1),
    "LOAD_GLOBAL": _global,
    "STORE_GLOBAL": _named(Kind.STORE_GLOBAL, 1, 0),
    "DELETE_GLOBAL": _named(Kind.DELETE_GLOBAL, 0, 0),
    "LOAD_NAME": _named(Kind.LOAD_NAME, 0, 1),
    "LOAD_FROM_DICT_OR_GLOBALS": _named(Kind.LOAD_NAME, 1, 1),
    "STORE_NAME": _named(Kind.STORE_NAME, 1, 0),
    "DELETE_NAME": _named(Kind.DELETE_NAME, 0, 0),
    "LOAD_LOCALS": _plain(Kind.LOAD_NAMESPACE, 0, 1),
    "SETUP_ANNOTATIONS": _plain(Kind.ANNOTATE_NAMESPACE, 0, 0),
    # Attributes and items.
    "LOAD_ATTR": _attribute,
    "LOAD_METHOD": _attribute,
    "LOAD_SUPER_ATTR": _super_attribute,
    "STORE_ATTR": _named(Kind.STORE_ATTR, 2, 0),
    "DELETE_ATTR": _named(Kind.DELETE_ATTR, 1, 0),
    "BINARY_SUBSCR": _plain(Kind.SUBSCRIPT, 2, 1),
    "STORE_SUBSCR": _plain(Kind.STORE_SUBSCRIPT, 3, 0),
    "DELETE_SUBSCR": _plain(Kind.DELETE_SUBSCRIPT, 2, 0),
    "BINARY_SLICE": _slice_of(Kind.SUBSCRIPT, 2, 1),
    "STORE_SLICE": _slice_of(Kind.STORE_SUBSCRIPT, 3, 0),
    # Operators.
    "UNARY_NEGATIVE": _plain(Kind.UNARY, 1, 1, "-"),
    "UNARY_POSITIVE": _plain(Kind.UNARY, 1, 1, "+"),
    "UNARY_INVERT": _plain(Kind.UNARY, 1, 1, "~"),
    "UNARY_NOT": _not,
    "BINARY_OP": _operator,
    "COMPARE_OP": _comparison,
    "IS_OP": _negatable(Kind.IS),
    "CONTAINS_OP": _negatable(Kind.CONTAINS),
    "TO_BOOL": lambda raw: (_truth(raw),),
    # Calls.
    "PUSH_NULL": lambda raw: (_push_null(raw),),
    "CALL": _call,
    "CALL_KW": _call,
    "CALL_FUNCTION_EX": _call_unpacked,
    # New objects.
    "BUILD_TUPLE": _built("tuple"),
    "BUILD_LIST": _built("list"),
    "BUILD_SET": _built("set"),
    "BUILD_STRING": _built("string"),
    "BUILD_SLICE": _built("slice"),
    "BUILD_MAP": _built("dict", per_item=2),
    "BUILD_CONST_KEY_MAP": _built("dict", extra=1),
    "BUILD_TEMPLATE": _plain(Kind.BUILD, 2, 1, "template"),
    "BUILD_INTERPOLATION": _interpolation,
    "LIST_APPEND": _collected(Kind.APPEND, "list"),
    "SET_ADD": _collected(Kind.APPEND, "set"),
    "MAP_ADD": _collected(Kind.APPEND, "dict", pops=2),
    "LIST_EXTEND": _collected(Kind.EXTEND, "list"),
    "SET_UPDATE": _collected(Kind.EXTEND, "set"),
    "DICT_UPDATE": _collected(Kind.EXTEND, "dict"),
    "DICT_MERGE": _collected(Kind.EXTEND, "dict"),
    "CONVERT_VALUE": _convert,
    "FORMAT_VALUE": _format,
    "FORMAT_SIMPLE": _plain(Kind.FORMAT, 1, 1),
    "FORMAT_WITH_SPEC": _plain(Kind.FORMAT, 2, 1),
    "MAKE_FUNCTION": _function,
    "SET_FUNCTION_ATTRIBUTE": _plain(Kind.SET_FUNCTION_PART, 2, 1),
    "CALL_INTRINSIC_1": _intrinsic(1),
    "CALL_INTRINSIC_2": _intrinsic(2),
    "LIST_TO_TUPLE": _plain(Kind.INTRINSIC, 1, 1, "list_to_tuple"),
    "ASYNC_GEN_WRAP": _plain(Kind.INTRINSIC, 1, 1, "async_gen_wrap"),
    "PREP_RERAISE_STAR": _plain(Kind.INTRINSIC, 2, 1, "prep_reraise_star"),
    "IMPORT_STAR": _dropped_intrinsic("import_star"),
    "PRINT_EXPR": _dropped_intrinsic("print"),
    # The stack itself.
    "COPY": _at_depth(Kind.COPY, 1),
    "SWAP": _at_depth(Kind.SWAP, 0),
    "POP_TOP": _plain(Kind.POP_TOP, 1, 0),
    "END_FOR": _plain(Kind.END_FOR, 2 if VERSION < (3, 13) else 1, 0),
    "POP_ITER": _plain(Kind.POP_TOP, 1, 0),
    "UNPACK_SEQUENCE": _unpack,
    "UNPACK_EX": _unpack_starred,
    # Control flow.
    "JUMP_FORWARD": _jump,
    "JUMP_BACKWARD": _jump,
    "JUMP_BACKWARD_NO_INTERRUPT": _jump,
    **{
        f"POP_JUMP_{way}IF_{condition}": _jump_if
        for way in ("", "FORWARD_", "BACKWARD_")
        for condition in ("TRUE", "FALSE", "NONE", "NOT_NONE")
    },
    "JUMP_IF_FALSE_OR_POP": _jump_or_pop,
    "JUMP_IF_TRUE_OR_POP": _jump_or_pop,
    "GET_ITER": _plain(Kind.GET_ITER, 1, 1),
    "FOR_ITER": _next_item,
    "RETURN_VALUE": _plain(Kind.RETURN, 1, 0),
    "RETURN_CONST": _return_constant,
    "RAISE_VARARGS": _raise,
    # Context managers and exceptions.
    "BEFORE_WITH": _plain(Kind.ENTER_WITH, 1, 2, "__enter__"),
    "BEFORE_ASYNC_WITH": _plain(Kind.ENTER_WITH, 1, 2, "__aenter__"),
    "LOAD_SPECIAL": _special_method,
    "WITH_EXCEPT_START": _plain(Kind.EXIT_WITH, 0, 1),
    "PUSH_EXC_INFO": _plain(Kind.PUSH_EXCEPTION, 1, 2),
    "POP_EXCEPT": _plain(Kind.POP_EXCEPTION, 1, 0),
    "CHECK_EXC_MATCH": _plain(Kind.MATCH_EXCEPTION, 1, 1),
    "CHECK_EG_MATCH": _plain(Kind.MATCH_EXCEPTION_GROUP, 2, 2),
    "RERAISE": _plain(Kind.RERAISE, 1, 0),
    # Imports.
    "IMPORT_NAME": _named(Kind.IMPORT, 2, 1),
    "IMPORT_FROM": _named(Kind.IMPORT_FROM, 0, 1),
    # `match`.
    "MATCH_CLASS": _plain(Kind.MATCH_CLASS, 3, 1),
    "MATCH_MAPPING": _plain(Kind.MATCH_MAPPING, 0, 1),
    "MATCH_SEQUENCE": _plain(Kind.MATCH_SEQUENCE, 0, 1),
    "MATCH_KEYS": _plain(Kind.MATCH_KEYS, 0, 1),
    "GET_LEN": _plain(Kind.GET_LEN, 0, 1),
    # Generators and coroutines.
    "RETURN_GENERATOR": _plain(Kind.START_GENERATOR, 0, 1),
    "YIELD_VALUE": _plain(Kind.YIELD, 1, 1),
    "SEND": _send,
    "END_SEND": _plain(Kind.END_SEND, 2, 1),
    "CLEANUP_THROW": _plain(Kind.CLEANUP_THROW, 3, 2),
    "GET_AWAITABLE": _plain(Kind.GET_AWAITABLE, 1, 1),
    "GET_YIELD_FROM_ITER": _plain(Kind.GET_AWAITABLE, 1, 1),
    "GET_AITER": _plain(Kind.GET_ASYNC_ITER, 1, 1),
    "GET_ANEXT": _plain(Kind.GET_ASYNC_NEXT, 0, 1),
    "END_ASYNC_FOR": _plain(Kind.END_ASYNC_FOR, 2, 0),
}
"""The operation of each instruction; an empty result says that the argument is unknown."""
