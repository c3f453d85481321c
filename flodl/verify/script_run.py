"""Runs a script as `__main__` for a few optimizer steps; records its models and their calls."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from types import ModuleType

from flodl.verify.attempt import Failure, OutOfTimeError, attempt, time_limit
from flodl.verify.containment import StopRunError, contained, stop_after_steps
from flodl.verify.protocol import Request
from flodl.verify.recorder import Recorder, dump_cases
from flodl.verify.seeds import seed_all
from flodl.verify.sides import IMPORT_SEED, locate

# A GAN's second optimizer steps after its first; two rounds of two show every model at work.
NUM_STEPS = 4


def record_script(request: Request) -> None:
    """Run the original and write what was recorded, however the run ends."""
    assert request.recording is not None
    place = locate(request.original)
    installed = frozenset(sys.modules)

    def is_local(module: str) -> bool:
        return module == "__main__" or (
            module not in installed and _is_inside(module, (place.root, *request.search_path))
        )

    recorder = Recorder(is_local, origin="a recorded run of the script", keep_live=False)
    with contained(request.workdir, (request.original.parent, request.ported.parent)):
        sys.path[:0] = [str(place.root), *(str(item) for item in request.search_path)]
        with (
            contextlib.suppress(StopRunError, OutOfTimeError),
            time_limit(request.limit_s),
            stop_after_steps(NUM_STEPS),
            recorder.watching(),
        ):
            _run_main(request.original, place.name)
    partial = request.recording.with_suffix(".partial")
    partial.write_bytes(dump_cases(recorder))
    partial.replace(request.recording)


def _run_main(file: Path, name: str) -> None:
    module = ModuleType("__main__")
    module.__file__ = str(file)
    package, dot, _ = name.rpartition(".")
    module.__package__ = package if dot else None
    sys.modules["__main__"] = module
    sys.argv = [str(file)]
    seed_all(IMPORT_SEED)
    code = attempt(lambda: compile(file.read_bytes(), str(file), "exec"))
    if not isinstance(code, Failure):
        # Whatever the script ends with, the calls until then were recorded.
        attempt(lambda: exec(code, vars(module)))


def _is_inside(module: str, folders: tuple[Path, ...]) -> bool:
    loaded = sys.modules.get(module)
    file = loaded.__file__ if loaded is not None else None
    if file is None or "site-packages" in Path(file).parts:
        return False
    return any(Path(file).is_relative_to(folder) for folder in folders)
