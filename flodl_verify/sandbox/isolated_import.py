"""Imports of the original and the port side by side: neither sees a module of the other.

Both main modules carry the original's module name. Whatever local module they import (siblings
of a script, modules of the same package) is loaded once per side; installed packages are shared.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.abc import Loader, MetaPathFinder
from pathlib import Path
from types import CodeType, ModuleType
from typing import Literal, final

from flodl_verify.sandbox.attempt import Failure, OutOfTimeError, attempt, describe, time_limit
from flodl_verify.sandbox.containment import StopRunError, stop_at_first_backward
from flodl_verify.sandbox.definitions import define_rest
from flodl_verify.sandbox.one_process import be_one_process, starts_processes
from flodl_verify.sandbox.placeholders import PLACEHOLDERS
from flodl_verify.sandbox.seeds import seed_all

Label = Literal["original", "port"]

IMPORT_SEED = 1234
IMPORT_LIMIT_S = 30.0
REST_LIMIT_S = 3.0
# One runtime for both sides, wherever it lies.
_SHARED = frozenset({"flodl", "flodl_verify", "torch"})
_INSTALLED = frozenset({"site-packages", "dist-packages"})


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The place of a file: its dotted module name, and the folder that makes it importable."""

    name: str
    root: Path

    @property
    def package(self) -> str | None:
        """Name of the outermost package, or None for a plain script."""
        top, dot, _ = self.name.partition(".")
        return top if dot else None

    def above(self, levels: int) -> Place:
        """Return the place of the same file as a part of so many folders more."""
        if levels == 0 or "." in self.root.name or not self.root.name:
            return self
        return Place(name=f"{self.root.name}.{self.name}", root=self.root.parent).above(levels - 1)


def locate(file: Path) -> Place:
    """Find the dotted name of a file by walking up through the packages it is in."""
    parts = [] if file.stem == "__init__" else [file.stem]
    folder = file.parent
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    return Place(name=".".join(parts), root=folder)


@final
class Side:
    """One of the two programs: its main module and every local module it imported."""

    def __init__(
        self,
        label: Label,
        *,
        file: Path,
        place: Place,
        folders: Sequence[Path],
        home: Path,
        text: bytes | None = None,
        neighbours: Sequence[Path] = (),
    ) -> None:
        self.label = label
        self.file = file
        self.name = _free_name(place)
        self._place = place
        self._folders = tuple(dict.fromkeys(folders))
        self._neighbours = tuple(dict.fromkeys(neighbours))
        self._modules: dict[str, ModuleType] = {}
        self._finder = _MainFinder(self.name, file, home, text)
        self.module = ModuleType(self.name)
        self.failure: Failure | None = None
        # The failure of the first import, though a later one may have passed.
        self.refused: Failure | None = None
        # Where the import was when its time was over, which is no failure.
        self.overtime: Failure | None = None
        self.failed_parent: str | None = None
        # Packages whose `__init__` is not run, and why.
        self.bare: dict[str, str] = {}
        self.random_draws_differ = False

    def load(self) -> None:
        """Import the main module; `failure` is set when that ends with an exception.

        When it is the `__init__` of a package around the module that fails, `failed_parent` is its name.
        """
        seed_all(IMPORT_SEED)
        importlib.invalidate_caches()
        with self.active(), PLACEHOLDERS.during_import():
            for parent in _parents(self.name):
                outcome = attempt(lambda parent=parent: self._load_parent(parent), self.file)  # type: ignore[misc]
                if isinstance(outcome, Failure):
                    self.failure, self.failed_parent = outcome, parent
                    return
            outcome = attempt(lambda: importlib.import_module(self.name), self.file)
            if isinstance(outcome, Failure):
                self.failure = outcome
            else:
                self.module = outcome
                self.failure = self._finder.failure
                self.overtime = self._finder.overtime
                self._finder.loaded = outcome

    def forget(self) -> None:
        """Forget what was imported, so that it can be imported again."""
        self._modules.clear()
        self._finder.failure = self._finder.overtime = self._finder.loaded = None
        self.module = ModuleType(self.name)
        self.failure = self.overtime = self.failed_parent = None

    def _load_parent(self, name: str) -> ModuleType:
        if name not in self.bare or name in sys.modules:
            return importlib.import_module(name)
        above, _, last = name.rpartition(".")
        path = sys.modules[above].__path__ if above else None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        if above:
            setattr(sys.modules[above], last, module)
        return module

    def load_other(self, file: Path) -> ModuleType | Failure:
        """Import another file of the program, as far as its first backward pass at most."""
        place = locate(file)
        importlib.invalidate_caches()
        with self.active(), PLACEHOLDERS.during_import():
            sys.path.insert(0, str(place.root))

            def load() -> ModuleType:
                with stop_at_first_backward(), time_limit(IMPORT_LIMIT_S):
                    return importlib.import_module(place.name)

            try:
                outcome = attempt(load, file)
            except (StopRunError, OutOfTimeError):
                return Failure(text="its import trains", line=None)
        if not isinstance(outcome, Failure) and getattr(outcome, "__file__", None) != str(file):
            return Failure(text=f"another module is called {place.name}", line=None)
        return outcome

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Make this side's modules the ones that imports and pickles see."""
        before = set(sys.modules)
        hidden = {name: sys.modules[name] for name in self._modules if name in sys.modules}
        path = list(sys.path)
        sys.modules.update(self._modules)
        sys.path[:0] = [str(folder) for folder in self._folders]
        # A package may have a `random.py`: that of Python comes first.
        sys.path += [str(folder) for folder in self._neighbours]
        sys.meta_path.insert(0, self._finder)
        try:
            yield
        finally:
            sys.meta_path.remove(self._finder)
            sys.path[:] = path
            self._take_out(before)
            sys.modules.update(hidden)

    def lookup(self, module: str, qualname: str) -> object:
        """Return the object that `module.qualname` names on this side."""
        home = (
            self.module if module in {"__main__", self.name} else importlib.import_module(module)
        )
        value: object = home
        for part in qualname.split("."):
            value = vars(value)[part] if isinstance(value, type) else getattr(value, part)
        return value

    def is_local(self, module: str) -> bool:
        """Return True if a module name belongs to the program, not to an installed package."""
        return module == self.name or module in self._modules or module == "__main__"

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders of the program's own modules."""
        return self._folders

    def namespace(self) -> dict[str, object]:
        """Return the global names of the main module."""
        return vars(self.module)

    def _take_out(self, before: set[str]) -> None:
        known = self._modules
        # Thousands of modules, hundreds of times for a class: the sets are compared in C.
        new = [name for name in sys.modules.keys() - before if name not in known]
        known.update((name, sys.modules[name]) for name in known.keys() & sys.modules.keys())
        known.update(
            (name, sys.modules[name]) for name in new if self._belongs(name, sys.modules[name])
        )
        for name in known:
            sys.modules.pop(name, None)

    def _belongs(self, name: str, module: ModuleType) -> bool:
        if name == self.name:
            return True
        if name.partition(".")[0] in _SHARED:
            return False
        package = self._place.package
        if package is not None and (name == package or name.startswith(package + ".")):
            return True
        file = getattr(module, "__file__", None)
        if not isinstance(file, str):
            return False
        return any(_is_inside(Path(file), folder) for folder in self._folders)


def open_sides(
    original: Path,
    ported: Path,
    search_path: Sequence[Path],
    ported_search_path: Sequence[Path] = (),
    *,
    levels: int = 0,
    text: bytes | None = None,
) -> tuple[Side, Side]:
    """Describe the two sides of a comparison; nothing is imported yet.

    The main module is made from `text`; without one, from its file. With `levels`, so
    many folders above the outermost package are taken for packages as well.
    """
    place = locate(original).above(levels)
    own = [place.root, *search_path]
    near = _packages_around(original)
    first = Side(
        "original",
        file=original,
        place=place,
        folders=own,
        home=original,
        text=text,
        neighbours=near,
    )
    twin = locate(ported).above(levels)
    # A port that sits in a whole ported tree brings its own neighbours; one that was written
    # alone finds the original's.
    alone = place.package is not None and twin.name != place.name
    folders = own if alone else [twin.root, *ported_search_path, *own]
    near = (*_packages_around(ported), *near)
    return first, Side(
        "port",
        file=ported,
        place=place,
        folders=folders,
        home=original,
        text=text,
        neighbours=near,
    )


def _packages_around(file: Path) -> tuple[Path, ...]:
    """Return the packages that a file is in, from which it imports neighbours when it is run as a script."""
    found = []
    for folder in file.parents:
        if not (folder / "__init__.py").is_file():
            break
        found.append(folder)
    return tuple(found)


@final
class _MainLoader(importlib.machinery.SourceFileLoader):
    """Loads the main module, keeping what was defined when its top level stops early."""

    def __init__(
        self,
        name: str,
        file: Path,
        text: bytes | None,
        report: Callable[[Failure | None], None],
        report_overtime: Callable[[Failure], None],
    ) -> None:
        super().__init__(name, str(file))
        self._file = file
        self._text = text
        self._report = report
        self._report_overtime = report_overtime

    def get_code(self, fullname: str) -> CodeType | None:
        """Compile the text that is to be proved: not a cache, nor what became of the file meanwhile."""
        if self._text is None:
            return super().get_code(fullname)
        return self.source_to_code(self._text, str(self._file))

    def exec_module(self, module: ModuleType) -> None:
        """Run the module's top level until its first backward pass, its end, or the time limit."""
        if starts_processes(self._file.read_bytes() if self._text is None else self._text):
            be_one_process()
        argv = sys.argv
        sys.argv = [str(self._file)]
        try:
            with stop_at_first_backward(), time_limit(IMPORT_LIMIT_S):
                self._run(module)
        except OutOfTimeError as problem:
            self._report_overtime(describe(problem, self._file))
            # The slow statement may be an import, which is done again there.
            with contextlib.suppress(OutOfTimeError), time_limit(REST_LIMIT_S):
                define_rest(module, self._file, self._text)
        finally:
            sys.argv = argv

    def _run(self, module: ModuleType) -> None:
        try:
            failure = attempt(lambda: super(_MainLoader, self).exec_module(module), self._file)
        except StopRunError:
            failure = None
        else:
            if failure is None:
                return
        self._report(failure)
        define_rest(module, self._file, self._text)


@final
class _SameModuleLoader(Loader):
    """Gives the main module to those who import its file by another name."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._spec = module.__spec__

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """Return the module that is there already."""
        del spec
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        """Leave the module as it is."""
        module.__spec__ = self._spec


@final
class _MainFinder(MetaPathFinder):
    """Answers for the main module, with the file of this side.

    That is its own name, and once it is `loaded` every other name under which the program imports
    the file at `home`: `parts.blocks`, where folders are no packages.
    """

    def __init__(self, name: str, file: Path, home: Path, text: bytes | None) -> None:
        self._name = name
        self._file = file
        self._home = home
        self._text = text
        self.loaded: ModuleType | None = None
        self.failure: Failure | None = None
        self.overtime: Failure | None = None

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of the main module, or None for every other module."""
        del target
        if fullname != self._name:
            if self.loaded is None or not self._is_other_name(fullname, path):
                return None
            return importlib.util.spec_from_loader(fullname, _SameModuleLoader(self.loaded))
        loader = _MainLoader(fullname, self._file, self._text, self._note, self._note_overtime)
        folder = [str(self._file.parent)] if self._file.stem == "__init__" else None
        return importlib.util.spec_from_file_location(
            fullname, self._file, loader=loader, submodule_search_locations=folder
        )

    def _is_other_name(self, fullname: str, path: Sequence[str] | None) -> bool:
        if fullname.rpartition(".")[2] != self._home.stem:
            return False
        own = {os.path.realpath(self._home), os.path.realpath(self._file)}
        for folder in sys.path if path is None else path:
            found = Path(folder) / self._home.name
            if found.exists():
                return os.path.realpath(found) in own
        return False

    def _note(self, failure: Failure | None) -> None:
        self.failure = failure

    def _note_overtime(self, place: Failure) -> None:
        self.overtime = place


def _free_name(place: Place) -> str:
    # A script called random.py must not take the place of the module that everybody else means.
    taken = place.package is None and (
        place.name in sys.modules or place.name in sys.stdlib_module_names
    )
    return f"{place.name}_script" if taken else place.name


def _parents(name: str) -> Iterator[str]:
    parts = name.split(".")
    for number in range(1, len(parts)):
        yield ".".join(parts[:number])


def _is_inside(file: Path, folder: Path) -> bool:
    try:
        inner = file.resolve().relative_to(folder.resolve())
    except ValueError:
        return False
    return not _INSTALLED.intersection(inner.parts)
