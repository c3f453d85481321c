"""Builtins and library prefixes by what they do with a value of a graph."""

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
# Ask for a number: fine for a size, impossible for a tensor.
NUMBER_BUILTINS: Final = frozenset({"int", "float", "bool", "round", "complex", "any", "all",
                                    "min", "max"})  # fmt: skip
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
MATH_PREFIXES: Final = ("math.", "operator.", "functools.", "itertools.", "collections.", "copy.",
                        "typing.", "numbers.")  # fmt: skip
PRINTERS: Final = frozenset({"print", "pprint", "display"})

CONTAINER_ANNOTATIONS: Final = frozenset({"list", "tuple", "dict", "sequence", "iterable", "mapping",
                                          "set", "ordereddict", "any"})  # fmt: skip
PYTHON_ANNOTATIONS: Final = frozenset({"int", "bool", "str", "float", "callable", "size", "dtype",
                                       "device"})  # fmt: skip
