"""Drawings of the graph of a ported class, after one call of it."""

from __future__ import annotations

import torch

from flodl.graph.planned_module import PlannedModule
from flodl.inspect.pictures import svg
from flodl_verify.inputs.recorder import Case
from flodl_verify.sandbox.attempt import Failure, OutOfTimeError, attempt, time_limit
from flodl_verify.sandbox.isolated_import import Side
from flodl_verify.sandbox.seeds import seed_all
from flodl_verify.sides.subject import Subject
from flodl_verify.values.recipes import unpack

# A picture of a thousand nodes is useless, and takes long.
DRAWING_LIMIT_S = 5.0
MAX_CHARACTERS = 400_000


def draw(port: Side, case: Case) -> str:
    """Return an SVG picture, or nothing where there is none."""

    def make() -> str:
        model = Subject.build(port, case.construction).model.eval()
        args, kwargs = unpack(case.inputs, port)
        seed_all(1)
        with torch.no_grad():
            model(*args, **kwargs)
        return svg(model) if isinstance(model, PlannedModule) else ""

    try:
        with time_limit(DRAWING_LIMIT_S), port.active():
            picture = attempt(make)
    except OutOfTimeError:
        return ""
    if isinstance(picture, Failure) or len(picture) > MAX_CHARACTERS:
        return ""
    return picture
