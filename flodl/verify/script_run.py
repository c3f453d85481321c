"""Runs a script as `__main__` for a few optimizer steps; records its models and their calls."""

from __future__ import annotations

import sys
from pathlib import Path

from flodl.verify.containment import contained
from flodl.verify.curve import Curve, end_with, noting_curve, time_limit_of, write_curve
from flodl.verify.main_module import run_main
from flodl.verify.protocol import Request
from flodl.verify.recorder import Recorder, dump_cases
from flodl.verify.sides import locate
from flodl.verify.standins.install import STANDINS

CURVE_SUFFIX = ".curve"


def record_script(request: Request) -> None:
    """Run the original and write what was recorded, however the run ends."""
    assert request.recording is not None
    place = locate(request.original)
    installed = frozenset(sys.modules)

    def is_local(module: str) -> bool:
        return module == "__main__" or (
            module not in installed and _is_inside(module, (place.root, *request.search_path))
        )

    STANDINS.install(request.original)
    curve = Curve()
    recorder = Recorder(is_local, origin="a recorded run of the script", keep_live=False)
    with contained(request.workdir, (request.original.parent, request.ported.parent)):
        sys.path[:0] = [str(place.root), *(str(item) for item in request.search_path)]
        with time_limit_of(curve, request.limit_s), recorder.watching(), noting_curve(curve):
            end_with(curve, run_main(request.original, place.name, request.original))
    write_curve(curve, request.recording.with_suffix(CURVE_SUFFIX))
    partial = request.recording.with_suffix(".partial")
    recorder.add_to_origins(STANDINS.words())
    partial.write_bytes(dump_cases(recorder))
    partial.replace(request.recording)


def _is_inside(module: str, folders: tuple[Path, ...]) -> bool:
    loaded = sys.modules.get(module)
    file = loaded.__file__ if loaded is not None else None
    if file is None or "site-packages" in Path(file).parts:
        return False
    return any(Path(file).is_relative_to(folder) for folder in folders)
