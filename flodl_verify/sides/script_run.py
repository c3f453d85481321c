"""A run of a script as `__main__` for a few optimizer steps, with a record of its models' calls."""

from __future__ import annotations

import sys
from pathlib import Path

from flodl_verify.inputs.recorder import Recorder, dump_cases
from flodl_verify.protocol import Request
from flodl_verify.sandbox.isolated_import import locate
from flodl_verify.sandbox.main_module import run_main
from flodl_verify.sides.curve import Curve, end_with, named_stubs, noting_curve, time_limit_of
from flodl_verify.stubs.install import STUBS


def record_script(request: Request, text: bytes, seconds: float) -> tuple[Curve, bytes]:
    """Run the original; return its training curve and the record, however the run ends."""
    place = locate(request.original)
    installed = frozenset(sys.modules)

    def is_local(module: str) -> bool:
        return module == "__main__" or (
            module not in installed and _is_inside(module, (place.root, *request.search_path))
        )

    STUBS.install(request.original)
    curve = Curve()
    recorder = Recorder(is_local, origin="a recorded run of the script", keep_live=False)
    sys.path[:0] = [str(place.root), *(str(item) for item in request.search_path)]
    with time_limit_of(curve, seconds), recorder.watching(), noting_curve(curve):
        end_with(curve, run_main(request.original, place.name, request.original, text))
    recorder.add_to_origins(STUBS.words())
    return named_stubs(curve), dump_cases(recorder)


def _is_inside(module: str, folders: tuple[Path, ...]) -> bool:
    loaded = sys.modules.get(module)
    file = loaded.__file__ if loaded is not None else None
    if file is None or "site-packages" in Path(file).parts:
        return False
    return any(Path(file).is_relative_to(folder) for folder in folders)
