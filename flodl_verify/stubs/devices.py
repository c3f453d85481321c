"""CPU execution of programs that require a GPU, where there is no GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, final

import torch
from torch.overrides import TorchFunctionMode

# Functions of the device that a program calls around its training, with the answers of the CPU.
_ANSWERS: Mapping[str, object] = {
    "current_device": 0,
    "empty_cache": None,
    "get_device_name": "cpu",
    "manual_seed": None,
    "manual_seed_all": None,
    "max_memory_allocated": 0,
    "memory_allocated": 0,
    "memory_reserved": 0,
    "reset_peak_memory_stats": None,
    "set_device": None,
    "synchronize": None,
}


# Types of tensors as old programs name them: `torch.cuda.LongTensor(4)`, `x.type("torch.cuda.FloatTensor")`.
_TYPES = ("Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte", "Bool")
_TYPE_PREFIX = "torch.cuda."


def keep_on_cpu(script: Path, note: Callable[[str], None]) -> None:
    """Let `.cuda()`, `.to("cuda")`, `device="cuda"` and types of `torch.cuda` mean the CPU, from now on."""

    def stay(value: Any, *_: object, **__: object) -> Any:
        note("the GPU")
        return value

    torch.nn.Module.cuda = stay  # type: ignore[method-assign,assignment]
    torch.Tensor.cuda = stay  # type: ignore[method-assign,assignment]
    _replace_types(note)
    if _asks_for_gpu(script):
        _answer_questions()
        OnCpu(note).__enter__()  # type: ignore[no-untyped-call]


@final
class _NoInstances(type):
    """The class of types that make tensors of the CPU, which none of `torch.cuda` is."""

    def __instancecheck__(cls, instance: object) -> bool:
        return False


def _replace_types(note: Callable[[str], None]) -> None:
    for kind in _TYPES:
        name = f"{kind}Tensor"

        def make(_: type, *values: Any, _name: str = name, **named: Any) -> Any:
            note("the GPU")
            return getattr(torch, _name)(*values, **named)

        # `x.type(...)` reads the name of the class.
        replaced = _NoInstances(name, (), {"__new__": make, "__module__": "torch"})
        setattr(torch.cuda, name, replaced)
    change, default = torch.Tensor.type, torch.set_default_tensor_type

    def changed(tensor: Any, dtype: Any = None, *rest: Any, **named: Any) -> Any:
        return change(tensor, _of_cpu(dtype), *rest, **named)

    torch.Tensor.type = changed  # type: ignore[method-assign,assignment]
    torch.set_default_tensor_type = lambda kind: default(_of_cpu(kind))


def _of_cpu(kind: object) -> Any:
    """Return the name of a type of the GPU as that of the CPU; another value as it is."""
    if isinstance(kind, str) and kind.startswith(_TYPE_PREFIX):
        return f"torch.{kind.removeprefix(_TYPE_PREFIX)}"
    return getattr(torch, kind.__name__) if isinstance(kind, _NoInstances) else kind


def _asks_for_gpu(script: Path) -> bool:
    """Return True if a script wants a GPU without asking whether there is one: only then it fails."""
    try:
        text = script.read_bytes()
    except OSError:
        return False
    if b"is_available" in text:
        return False
    return any(word in text for word in (b'"cuda', b"'cuda", b"torch.cuda."))


def _answer_questions() -> None:
    for name, answer in _ANSWERS.items():
        setattr(torch.cuda, name, lambda *_, _answer=answer, **__: _answer)


@final
class OnCpu(TorchFunctionMode):
    """Exchanges the device of every torch function that is called."""

    def __init__(self, note: Callable[[str], None]) -> None:
        super().__init__()
        self._note = note

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Call the function with the CPU in place of a GPU."""
        del types
        kwargs = kwargs or {}
        if func is torch.Tensor.pin_memory:
            return args[0]
        if any(_is_gpu(value) for value in kwargs.values()):
            kwargs = {name: self._exchange(value) for name, value in kwargs.items()}
        if func is torch.Tensor.to and any(_is_gpu(value) for value in args[1:2]):
            args = (args[0], self._exchange(args[1]), *args[2:])
        return func(*args, **kwargs)

    def _exchange(self, value: object) -> object:
        if not _is_gpu(value):
            return value
        self._note("the GPU")
        return torch.device("cpu")


def _is_gpu(value: object) -> bool:
    if isinstance(value, str):
        return value == "cuda" or value.startswith("cuda:")
    return isinstance(value, torch.device) and value.type == "cuda"
