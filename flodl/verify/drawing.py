"""Drawings of the graph of a ported class, after one call of it."""

from __future__ import annotations

import torch

from flodl.graph.graph import Graph
from flodl.verify.attempt import Failure, OutOfTimeError, attempt, time_limit
from flodl.verify.isolated_import import Side
from flodl.verify.recipes import unpack
from flodl.verify.recorder import Case
from flodl.verify.seeds import seed_all
from flodl.verify.subject import Subject

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
        return model.svg() if isinstance(model, Graph) else ""

    try:
        with time_limit(DRAWING_LIMIT_S), port.active():
            picture = attempt(make)
    except OutOfTimeError:
        return ""
    if isinstance(picture, Failure) or len(picture) > MAX_CHARACTERS:
        return ""
    return picture
