"""Placeholders for packages that cannot be imported here, while a file is imported that needs them.

A file of models often imports, directly or through its neighbours, things that its models never use: text
cleaners, audio codecs, a registry. A placeholder lets such an import pass. It gives no
values: a call on it after the import raises, so no comparison rests on it.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, final


@final
class Placeholders:
    """The names that placeholders stand for in this process."""

    def __init__(self) -> None:
        self._modules: dict[str, None] = {}
        self._attributes: dict[tuple[str, str], None] = {}
        self._for_libraries: dict[str, None] = {}
        self._finder = _Finder(self)
        self.importing = 0

    @property
    def names(self) -> tuple[str, ...]:
        """The placeholders in use: modules, and names that modules lack."""
        lacking = (f"{module}.{name}" for module, name in self._attributes)
        return (*self._modules, *lacking)

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules that placeholders stand for."""
        return tuple(self._modules)

    @property
    def libraries(self) -> tuple[str, ...]:
        """Those that installed packages may import too."""
        return tuple(self._for_libraries)

    @property
    def attributes(self) -> tuple[tuple[str, str], ...]:
        """The names that placeholders stand for in modules, with those."""
        return tuple(self._attributes)

    def add_all(self, modules: tuple[str, ...], libraries: tuple[str, ...]) -> None:
        """Let imports pass that passed elsewhere."""
        for name in modules:
            self.add_module(name)
        for name in libraries:
            self.add_for_libraries(name)

    def clear(self) -> None:
        """Let imports fail again as they do."""
        for name in [name for name in sys.modules if self.answers(name)]:
            del sys.modules[name]
        for module, name in self._attributes:
            vars(sys.modules.get(module, ModuleType(module))).pop(name, None)
        self._modules.clear()
        self._attributes.clear()
        self._for_libraries.clear()

    def add_module(self, name: str) -> bool:
        """Let imports of a module and of all below it pass from now on; say whether that is new."""
        if self.answers(name):
            return False
        if self._finder not in sys.meta_path:
            sys.meta_path.insert(0, self._finder)
        self._modules.setdefault(name)
        for known in [known for known in sys.modules if _is_below(known, name)]:
            del sys.modules[known]
        return True

    def add_for_libraries(self, name: str) -> bool:
        """Let an installed package import a module, too: its own import fails without; say whether new."""
        if name in self._for_libraries:
            return False
        self._for_libraries.setdefault(name)
        self.add_module(name)
        return True

    def add_attribute(self, module: ModuleType, name: str) -> bool:
        """Give a module a name that it lacks; say whether that is new."""
        key = (module.__name__, name)
        if key in self._attributes:
            return False
        self._attributes.setdefault(key)
        setattr(module, name, Placeholder(".".join(key)))
        return True

    def answers(self, name: str) -> bool:
        """Return True if a placeholder stands for a module."""
        return any(_is_below(name, module) for module in self._modules)

    def answers_libraries(self, name: str) -> bool:
        """Return True if a placeholder stands for a module where an installed package wants it."""
        return any(_is_below(name, module) for module in self._for_libraries)

    @contextlib.contextmanager
    def during_import(self) -> Iterator[None]:
        """Let placeholders be called: decorators, registries, engines made at the top level."""
        self.importing += 1
        try:
            yield
        finally:
            self.importing -= 1


@final
class Placeholder:
    """A name of a package that is not there: it can be passed on, and not computed with."""

    # Without this, an object with items would be a sequence without an end.
    __iter__ = None

    def __init__(self, name: str) -> None:
        self.__dict__["_name"] = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return Placeholder(f"{self._name}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Hand back what is decorated, or another placeholder.

        Raises:
            ModuleNotFoundError: the import is over, so a value is wanted.
        """
        name = self._name
        if not PLACEHOLDERS.importing:
            raise ModuleNotFoundError(f"`{name}` is needed, which cannot be imported here")
        if len(args) == 1 and not kwargs and callable(args[0]):
            return args[0]
        return Placeholder(name if name.endswith(")") else f"{name}()")

    def __getitem__(self, _key: object) -> Any:
        return self

    def __or__(self, _other: object) -> Any:
        return self

    __ror__ = __or__

    def __mro_entries__(self, _bases: tuple[object, ...]) -> tuple[type, ...]:
        return ()

    def __instancecheck__(self, _value: object) -> bool:
        return False

    def __subclasscheck__(self, _kind: object) -> bool:
        return False

    def __repr__(self) -> str:
        return f"<placeholder for {self._name}>"


@final
class _Module(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name == "__version__":
            return "0"
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        value = Placeholder(f"{self.__name__}.{name}")
        setattr(self, name, value)
        return value


@final
class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds modules of placeholders for the program, and for packages that cannot do without."""

    def __init__(self, placeholders: Placeholders) -> None:
        self._placeholders = placeholders

    def find_spec(
        self, fullname: str, path: object = None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of a module of placeholders, or None."""
        del path, target
        if not self._placeholders.answers(fullname):
            return None
        if asked_by_library() and not self._placeholders.answers_libraries(fullname):
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """Return a module in which every name is a placeholder."""
        module = _Module(spec.name)
        module.__path__ = []
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Leave the module as it is."""


def asked_by_library() -> bool:
    """Return True if an import comes from an installed package, which knows how to do without."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith("<frozen importlib") and file not in _OWN:
            return "site-packages" in file or "dist-packages" in file
        frame = frame.f_back
    return False


def _is_below(name: str, module: str) -> bool:
    return name == module or name.startswith(f"{module}.")


# The finders that stand in for missing packages.
_OWN = (__file__, str(Path(__file__).parents[1] / "stubs" / "install.py"))
PLACEHOLDERS = Placeholders()
