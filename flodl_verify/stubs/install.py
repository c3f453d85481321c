"""Stand-ins where an import or a download fails; a working import is never replaced."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, Final, final

import torch

from flodl_verify.sandbox.placeholders import asked_by_library
from flodl_verify.stubs.anything import make_module
from flodl_verify.stubs.arguments import supply_arguments
from flodl_verify.stubs.datasets import VISION, pillow_image, synthetic_vision
from flodl_verify.stubs.devices import keep_on_cpu
from flodl_verify.stubs.environments import make_gym_module
from flodl_verify.stubs.frames import make_frames_module
from flodl_verify.stubs.hints import hints_of
from flodl_verify.stubs.hub import load_dataset, make_hub_module
from flodl_verify.stubs.tables import MissingFiles
from flodl_verify.stubs.texts import make_text_module
from flodl_verify.stubs.transforms import make_transforms_module
from flodl_verify.stubs.weights import keep_own_weights

# Packages that show or log, and never compute what is compared.
SHOWING = frozenset({
    "IPython", "clearml", "comet_ml", "fire", "ipdb", "ipywidgets", "livelossplot", "matplotlib",
    "mlflow", "mpl_toolkits", "neptune", "plotly", "prettytable", "progressbar", "seaborn", "tensorboard",
    "tensorboardX", "tensorboard_logger", "tensorboard_plugin_wit", "tensorboardx",
    "termcolor", "torchinfo", "torchsummary", "torchsummaryX", "torchviz", "tqdm", "visdom",
    "wandb",
})  # fmt: skip
_BOARD = "torch.utils.tensorboard"


@final
class Stubs:
    """The stand-ins of this process; `used` names those in use."""

    def __init__(self) -> None:
        self.used: dict[str, None] = {}
        self._installed = False
        self._library: object = None

    def install(self, script: Path) -> None:
        """Answer imports and files of a script that fail, from now on."""
        if self._installed:
            return
        self._installed = True
        sys.meta_path.insert(0, _Watcher(self))
        sys.meta_path.append(_LastResort(self))
        MissingFiles(self.note).install(hints_of(script))
        supply_arguments(script, self.note)
        keep_own_weights(self.note)
        if not torch.cuda.is_available():
            keep_on_cpu(script, self.note)

    def note(self, name: str) -> None:
        """Remember that something is not the real thing."""
        self.used.setdefault(name)

    def words(self) -> str:
        """Return the end of a sentence that names what was used."""
        return f", with stand-ins for {', '.join(self.used)}" if self.used else ""

    def declare_vision_operators(self) -> None:
        """Declare operators without which a torchvision built for CUDA cannot be imported."""
        if self._library is not None:
            return
        library: Any = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        self._library = library


STUBS = Stubs()


@final
class _Watcher(importlib.abc.MetaPathFinder):
    """Looks after packages that are installed and may not work here."""

    def __init__(self, stubs: Stubs) -> None:
        self._stubs = stubs
        self._busy: set[str] = set()

    def find_spec(
        self, fullname: str, path: object = None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the real spec with a loader that mends, or nothing for all other names."""
        del path, target
        mend = {
            "torchvision": self._mend_vision,
            "torchvision.datasets": self._mend_datasets,
            "datasets": self._mend_hub,
        }.get(fullname)
        if fullname == _BOARD and PathFinder.find_spec("tensorboard") is None:
            self._stubs.note("tensorboard")
            return importlib.machinery.ModuleSpec(fullname, _Maker(make_module), is_package=True)
        if mend is None or fullname in self._busy:
            return None
        self._busy.add(fullname)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._busy.discard(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Mender(spec.loader, mend)
        return spec

    def _mend_vision(self, module: ModuleType, run: Callable[[], None]) -> None:
        del module
        try:
            run()
        except RuntimeError as problem:
            if "torchvision::" not in str(problem):
                raise
            for name in [name for name in sys.modules if name.startswith("torchvision.")]:
                del sys.modules[name]
            self._stubs.declare_vision_operators()
            run()

    def _mend_datasets(self, module: ModuleType, run: Callable[[], None]) -> None:
        run()
        for name in VISION:
            real = vars(module).get(name)
            if isinstance(real, type):
                vars(module)[name] = self._with_fallback(name, real)

    def _mend_hub(self, module: ModuleType, run: Callable[[], None]) -> None:
        run()
        real = vars(module).get("load_dataset")
        if real is None:
            return  # a module of the script's own

        def load(path: str, *args: Any, **kwargs: Any) -> Any:
            try:
                return real(path, *args, **kwargs)
            except (OSError, ValueError, RuntimeError):
                found = load_dataset(path, *args, **kwargs)
            self._stubs.note(f"the data set {path}")
            return found

        vars(module)["load_dataset"] = load

    def _with_fallback(self, name: str, real: type) -> type:
        make = synthetic_vision(name, pillow_image)
        note = self._stubs.note

        def new(cls: type, *args: Any, **kwargs: Any) -> Any:
            if cls is not fallback:
                return object.__new__(cls)  # a user's data set below it
            try:
                made: Any = object.__new__(real)
                made.__init__(*args, **kwargs)
            except (RuntimeError, OSError, ValueError, ImportError):
                note(name)
                return make(*args, **kwargs)
            return made

        fallback: type = type(name, (real,), {"__new__": new, "__module__": real.__module__})
        return fallback


@final
class _LastResort(importlib.abc.MetaPathFinder):
    """Answers for known packages that are not installed."""

    def __init__(self, stubs: Stubs) -> None:
        self._stubs = stubs

    def find_spec(
        self, fullname: str, path: object = None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of a stand-in, or None."""
        del path, target
        top = fullname.partition(".")[0]
        make = make_module if top in SHOWING else _COMPUTING.get(top)
        if make is None or asked_by_library():
            return None
        self._stubs.note(top)
        return importlib.machinery.ModuleSpec(fullname, _Maker(make), is_package=True)


def _make_vision(name: str) -> ModuleType:
    if name == "torchvision.transforms":
        return make_transforms_module()
    module = ModuleType(name) if name == "torchvision" else make_module(name)
    module.__path__ = []
    if name == "torchvision.datasets":
        vars(module).update({key: synthetic_vision(key) for key in VISION})
    return module


# Parts that are computed with: data sets, and transforms to tensors.
_COMPUTING: Final[dict[str, Callable[[str], ModuleType]]] = {
    "torchvision": _make_vision,
    "torchtext": make_text_module,
    "datasets": make_hub_module,
    "gym": make_gym_module,
    "gymnasium": make_gym_module,
    "pandas": make_frames_module,
}
# Parts that are there without a separate import.
_PARTS: Final = {
    "torchvision": ("datasets", "transforms", "utils"),
    "torchtext": ("data", "datasets", "vocab"),
    "torchtext.data": ("functional", "utils"),
}


@final
class _Maker(importlib.abc.Loader):
    def __init__(self, make: Callable[[str], ModuleType]) -> None:
        self._make = make

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return self._make(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        for part in _PARTS.get(module.__name__, ()):
            importlib.import_module(f"{module.__name__}.{part}")


@final
class _Mender(importlib.abc.Loader):
    def __init__(
        self, real: importlib.abc.Loader, mend: Callable[[ModuleType, Callable[[], None]], None]
    ) -> None:
        self._real = real
        self._mend = mend

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._real.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._mend(module, lambda: self._real.exec_module(module))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)
