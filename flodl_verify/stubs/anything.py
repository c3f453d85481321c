"""An object that accepts all operations of plotting and logging code, and does nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any, final


@final
class Anything:
    """Every attribute, call, item and comparison is there, and leads to nothing."""

    def __init__(self, name: str = "stand-in") -> None:
        self.__dict__["_name"] = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return Anything(name)

    def __setattr__(self, name: str, value: object) -> None:
        self.__dict__[name] = value

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Do nothing, or hand back the function that is being decorated."""
        if self._name == "subplots":
            return Anything("figure"), Anything("axes")
        if (
            len(args) == 1
            and not kwargs
            and callable(args[0])
            and not isinstance(args[0], Anything)
        ):
            return args[0]  # it is used as a decorator
        return self

    def __mro_entries__(self, _bases: tuple[object, ...]) -> tuple[type, ...]:
        return ()

    def __getitem__(self, _key: object) -> Any:
        return self

    def __setitem__(self, _key: object, _value: object) -> None:
        pass

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __bool__(self) -> bool:
        return True

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@final
class Progress:
    """A progress bar without a bar: it passes its items on."""

    def __init__(self, iterable: Iterable[Any] | None = None, *_: object, **kwargs: Any) -> None:
        self._items = iterable if iterable is not None else range(kwargs.get("total") or 0)
        self.n = 0

    def __iter__(self) -> Iterator[Any]:
        yield from self._items

    def __len__(self) -> int:
        return len(self._items)  # type: ignore[arg-type]

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything(name)


def make_module(name: str) -> ModuleType:
    """Return a module in which every name is there."""
    module = _Everything(name)
    module.__path__ = []
    if name.partition(".")[0] == "tqdm":
        known: dict[str, Any] = {"tqdm": Progress, "tqdm_notebook": Progress}
        known["trange"] = lambda *args, **_: Progress(range(*args))
        vars(module).update(known)
    return module


@final
class _Everything(ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return Progress(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        value = Anything(name)
        setattr(self, name, value)
        return value
