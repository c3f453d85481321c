"""Instructions of the normalised instruction set.

One set serves every version of CPython. It is a little finer than CPython's own: an instruction that
does two things is two instructions here. For example `if self.scale is not None: x = x * self.scale`:

    3.11                              3.13                             normalised
    LOAD_FAST self                    LOAD_FAST self                   LOAD_LOCAL self
    LOAD_ATTR scale                   LOAD_ATTR scale                  LOAD_ATTR scale
    POP_JUMP_FORWARD_IF_NONE          POP_JUMP_IF_NONE                 IS_NONE, JUMP_IF True
    LOAD_FAST x                       LOAD_FAST_LOAD_FAST x, self      LOAD_LOCAL x
    LOAD_FAST self                                                     LOAD_LOCAL self
    LOAD_ATTR scale                   LOAD_ATTR scale                  LOAD_ATTR scale
    BINARY_OP *                       BINARY_OP *                      BINARY *
    STORE_FAST x                      STORE_FAST x                     STORE_LOCAL x

The stack is CPython's own. A call has two slots for what it calls: the callable, and either a `self`
or an empty slot, in an order that depends on the version.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, NamedTuple, final


@final
class Kind(Enum):
    """One operation of the normalised set; `->` shows how it changes the stack."""

    # Values and variables. `name` is the variable, `value` the constant.
    LOAD_CONST = auto()  # -> value
    LOAD_BUILTIN = auto()  # -> builtin that no assignment can replace, such as AssertionError
    LOAD_LOCAL = auto()  # -> variable of this function
    STORE_LOCAL = auto()  # a ->
    DELETE_LOCAL = auto()  # ->
    SAVE_LOCAL = auto()  # -> variable that an inlined comprehension hides for a while
    LOAD_CELL = auto()  # -> variable shared with a nested function; CPython: DEREF
    STORE_CELL = auto()  # a ->
    DELETE_CELL = auto()  # ->
    LOAD_CLOSURE = auto()  # -> the cell itself, for a nested function
    LOAD_GLOBAL = auto()  # -> global or builtin
    STORE_GLOBAL = auto()  # a ->
    DELETE_GLOBAL = auto()  # ->
    LOAD_NAME = auto()  # -> variable of a class body or a module; may take a dict from the stack
    STORE_NAME = auto()  # a ->
    DELETE_NAME = auto()  # ->
    LOAD_NAMESPACE = auto()  # -> locals() of a class body
    ANNOTATE_NAMESPACE = auto()  # -> ; makes __annotations__ of a class body or a module

    # Attributes and items. `name` is the attribute.
    LOAD_ATTR = auto()  # a -> a.name
    STORE_ATTR = auto()  # b a -> ; a.name = b
    DELETE_ATTR = auto()  # a -> ; del a.name
    SUBSCRIPT = auto()  # a i -> a[i]
    STORE_SUBSCRIPT = auto()  # b a i -> ; a[i] = b
    DELETE_SUBSCRIPT = auto()  # a i -> ; del a[i]

    # Operators. `name` is the operator as it is written; `negated` means `is not`, `not in`.
    UNARY = auto()  # a -> -a
    BINARY = auto()  # a b -> a + b; `+=` is an operator too
    COMPARE = auto()  # a b -> a < b
    IS = auto()  # a b -> a is b
    IS_NONE = auto()  # a -> a is None
    CONTAINS = auto()  # a b -> a in b
    TO_BOOL = auto()  # a -> bool(a)

    # Calls. `count` is the number of arguments, `value` the names of the keyword arguments.
    PUSH_NULL = auto()  # -> the second slot of a callable: its `self`, or empty
    CALL = auto()  # callable and slot, arguments -> result
    CALL_UNPACKED = auto()  # callable and slot, tuple, dict or slot -> result; f(*a, **k)

    # New objects. `name` is the kind of object, `count` how many items the stack holds.
    BUILD = auto()  # a b c -> (a, b, c); tuple, list, set, dict, string, slice, template, ...
    APPEND = auto()  # item -> ; the collection is `count` below; list, set, dict
    EXTEND = auto()  # items -> ; the collection is `count` below; list, set, dict
    CONVERT = auto()  # a -> repr(a); str, repr, ascii
    FORMAT = auto()  # a, or a and specification -> text; `name`: conversion that it does first
    MAKE_FUNCTION = auto()  # parts, code -> function
    SET_FUNCTION_PART = auto()  # part function -> function
    INTRINSIC = auto()  # a, or a b -> c; helper of the interpreter: `name`

    # The stack itself. `count` is the depth, from 1.
    COPY = auto()  # -> the item at the depth again
    SWAP = auto()  # top item and the one at the depth change places
    POP_TOP = auto()  # a ->
    END_FOR = auto()  # the remains of a finished loop ->
    UNPACK = auto()  # a -> items, the first one on top
    UNPACK_STARRED = auto()  # a -> items; `count` of them in front of the starred one

    # Control flow. `target` is the offset that it may go to.
    JUMP = auto()  # ->
    JUMP_IF = auto()  # a -> ; jumps if the bool `a` is `value`
    GET_ITER = auto()  # a -> iter(a)
    FOR_ITER = auto()  # iterator -> iterator, item; jumps when there is none
    RETURN = auto()  # a ->
    RAISE = auto()  # exception and cause, `count` of them ->

    # Context managers and exceptions.
    ENTER_WITH = auto()  # manager -> exit, result (3.14: -> __enter__ and slot)
    LOAD_EXIT = auto()  # manager -> __exit__ and slot; 3.14
    EXIT_WITH = auto()  # -> result of __exit__ with the exception
    PUSH_EXCEPTION = auto()  # exception -> outer exception, exception
    POP_EXCEPTION = auto()  # outer exception ->
    MATCH_EXCEPTION = auto()  # exception kind -> exception, bool
    MATCH_EXCEPTION_GROUP = auto()  # group kind -> rest, match
    RERAISE = auto()  # exception ->

    # Imports. `name` is the module or the attribute.
    IMPORT = auto()  # level, names -> module
    IMPORT_FROM = auto()  # module -> module, attribute

    # `match`.
    MATCH_CLASS = auto()  # subject, class, names -> tuple or None
    MATCH_MAPPING = auto()  # subject -> subject, bool
    MATCH_SEQUENCE = auto()  # subject -> subject, bool
    MATCH_KEYS = auto()  # subject, keys -> subject, keys, values or None
    GET_LEN = auto()  # a -> a, len(a)

    # Generators and coroutines.
    START_GENERATOR = auto()  # -> what the first `send` brings
    YIELD = auto()  # a -> what `send` brings
    SEND = auto()  # receiver, a -> receiver, result; jumps when the receiver has ended
    END_SEND = auto()  # receiver, a -> a
    CLEANUP_THROW = auto()  # receiver, a, exception -> None, result
    GET_AWAITABLE = auto()  # a -> its awaitable; also the iterator of `yield from`
    GET_ASYNC_ITER = auto()  # a -> a.__aiter__()
    GET_ASYNC_NEXT = auto()  # iterator -> iterator, awaitable
    END_ASYNC_FOR = auto()  # iterator, exception ->


ENDS = frozenset({Kind.JUMP, Kind.RETURN, Kind.RAISE, Kind.RERAISE})
"""Kinds after which the next instruction does not run."""
LOADS = frozenset({Kind.LOAD_LOCAL, Kind.LOAD_CELL})
STORES = frozenset({Kind.STORE_LOCAL, Kind.STORE_CELL})
"""Kinds that read and set a variable of a function.

Whether it is a cell depends on the version: before 3.12 a comprehension is a nested function.
"""


@final
class Position(NamedTuple):
    """The part of the source that an instruction was compiled from; None where Python kept none.

    Lines count from 1, columns from 0, in bytes.
    """

    line: int | None
    end_line: int | None
    column: int | None
    end_column: int | None


@final
@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction of the normalised set.

    Attributes:
        kind: the operation; it says which of the other attributes mean something.
        offset: the offset in bytes of the CPython instruction that this one is, or is a part of.
        position: the source that it was compiled from.
        pops: how many items it takes from the stack.
        pushes: how many items it puts there afterwards.
        name: a variable, an attribute, an operator or another word.
        value: a constant, a truth value, or the names of keyword arguments.
        count: a number of items or a depth.
        negated: whether it is `is not` or `not in`.
        target: the offset of the instruction that it may jump to.
        jump_effect: by how many items the stack grows if it jumps.
    """

    kind: Kind
    offset: int
    position: Position
    pops: int
    pushes: int
    name: str = ""
    value: Any = None
    count: int = 0
    negated: bool = False
    target: int | None = None
    jump_effect: int = 0
