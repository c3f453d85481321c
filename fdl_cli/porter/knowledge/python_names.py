"""Builtins and library prefixes by their effect on a value of a graph."""

from typing import Final

# Work on the containers and numbers around tensors; the tensors in them stay what they are.
PURE_BUILTINS: Final = frozenset({
    "len", "range", "zip", "enumerate", "list", "tuple", "dict", "set", "isinstance", "issubclass",
    "reversed", "getattr", "hasattr", "type", "str", "repr", "callable", "iter", "next", "id",
    "slice", "frozenset", "format", "print", "super", "object", "ValueError", "TypeError",
    "RuntimeError", "NotImplementedError", "AssertionError", "Exception", "KeyError",
    "AttributeError", "IndexError", "vars", "divmod",
})  # fmt: skip
# Keep the kind of what they are given: numbers stay numbers, tensors tensors.
FOLDING_BUILTINS: Final = frozenset({"sum", "abs", "pow", "map", "filter", "sorted"})
# They need a number: fine for a size, impossible for a tensor.
NUMBER_BUILTINS: Final = frozenset({"int", "float", "bool", "round", "complex", "any", "all",
                                    "min", "max"})  # fmt: skip
# Of a traced value they would see the proxy, not the value.
TEXT_BUILTINS: Final = frozenset({"str", "repr"})
VALUE_BUILTINS: Final = frozenset({"callable", "vars", "next", "iter", "divmod", "id", "hash"})
FORBIDDEN_BUILTINS: Final = frozenset({"exec", "eval", "open", "input", "locals", "globals",
                                       "setattr", "delattr", "breakpoint"})  # fmt: skip

BUILTINS: Final = PURE_BUILTINS | FOLDING_BUILTINS | NUMBER_BUILTINS | FORBIDDEN_BUILTINS

RANDOM_PREFIXES: Final = ("random.", "numpy.random.", "secrets.", "uuid.")
NUMPY_SCALAR_DRAWS: Final = frozenset({"numpy.random.random", "numpy.random.rand",
                                       "numpy.random.randint", "numpy.random.uniform",
                                       "numpy.random.normal", "numpy.random.randn"})  # fmt: skip
CLOCK_PREFIXES: Final = ("time.", "datetime.")
NUMPY_PREFIX: Final = "numpy."
LOGGING_PREFIXES: Final = ("logging.", "warnings.", "logger.", "tqdm.", "sys.", "os.", "pdb.",
                           "ipdb.", "wandb.", "pprint.")  # fmt: skip
MUTATORS: Final = frozenset({"append", "extend", "insert", "pop", "remove", "clear", "update",
                             "setdefault", "popitem", "appendleft", "popleft", "add", "discard",
                             "sort", "reverse"})  # fmt: skip
# The results of these are plain Python; the first ones take a place in a container.
CONTAINER_METHODS: Final = MUTATORS | {
    "get", "items", "keys", "values", "index", "count", "copy", "most_common", "elements", "move_to_end",
    "rotate", "extendleft", "union", "intersection", "difference", "symmetric_difference", "issubset",
    "issuperset", "isdisjoint", "fromkeys", "subtract", "total",
}  # fmt: skip
TEXT_METHODS: Final = frozenset({"startswith", "endswith", "lower", "upper", "strip", "lstrip", "rstrip",
                                 "removeprefix", "removesuffix", "isdigit", "isalpha", "zfill",
                                 "splitlines", "capitalize", "title", "partition", "rpartition",
                                 "casefold", "ljust", "rjust", "isnumeric"})  # fmt: skip
# Tensors and other objects have methods of these names, too.
AMBIGUOUS_TEXT_METHODS: Final = frozenset({"split", "rsplit", "join", "format", "replace", "find",
                                           "encode"})  # fmt: skip
CONTAINER_TYPES: Final = frozenset({"list", "dict", "set", "tuple", "frozenset", "sorted", "zip",
                                    "enumerate", "reversed", "range", "OrderedDict", "defaultdict",
                                    "deque", "Counter", "str", "map", "filter"})  # fmt: skip
# Containers that the runtime does not follow into a step, and iterators, which a call uses up.
HELD_TYPES: Final = frozenset({"set", "iter", "zip", "enumerate", "reversed", "map", "filter",
                               "OrderedDict", "defaultdict", "deque", "Counter", "bytearray"})  # fmt: skip
# Numbers from numbers: with constants alone, a constant.
NUMPY_SCALARS: Final = frozenset({
    f"numpy.{name}"
    for name in ("sqrt", "log", "log2", "log10", "exp", "ceil", "floor", "prod", "power", "sin", "cos",
                 "tan", "float32", "float64", "int32", "int64")
})  # fmt: skip
MATH_PREFIXES: Final = ("math.", "operator.", "functools.", "itertools.", "collections.", "copy.",
                        "typing.", "numbers.")  # fmt: skip
PRINTERS: Final = frozenset({"print", "pprint", "display"})

CONTAINER_ANNOTATIONS: Final = frozenset({"list", "tuple", "dict", "sequence", "iterable", "mapping",
                                          "set", "ordereddict", "any"})  # fmt: skip
PYTHON_ANNOTATIONS: Final = frozenset({"int", "bool", "str", "float", "callable", "size", "dtype",
                                       "device"})  # fmt: skip
