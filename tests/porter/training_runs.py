"""Runs a training script to its end, and keeps all that it showed: losses, weights, prints."""

import contextlib
import hashlib
import io
import random
import runpy
import sys
from dataclasses import dataclass, field

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook


@dataclass
class Run:
    """Every loss that a backward pass started from, weights after every update, and the output."""

    losses: list = field(default_factory=list)
    weights: list = field(default_factory=list)
    output: str = ""


def digest(tensors):
    state = hashlib.blake2b(digest_size=12)
    for each in tensors:
        state.update(each.detach().contiguous().numpy().tobytes())
    return state.hexdigest()


def run_script(path):
    """Run a file as `python FILE` would."""
    run, out = Run(), io.StringIO()
    original = torch.autograd.backward

    def noting(tensors, *args, **kwargs):
        roots = tensors if isinstance(tensors, tuple | list) else (tensors,)
        run.losses.append(digest(roots))
        return original(tensors, *args, **kwargs)

    def updated(optimizer, *_):
        held = [each for group in optimizer.param_groups for each in group["params"]]
        run.weights.append(digest(held))

    random.seed(0)
    torch.manual_seed(0)
    hook = register_optimizer_step_post_hook(updated)
    torch.autograd.backward = noting
    arguments, sys.argv = sys.argv, [str(path)]
    try:
        with contextlib.redirect_stdout(out):
            runpy.run_path(str(path), run_name="__main__")
    finally:
        torch.autograd.backward = original
        hook.remove()
        sys.argv = arguments
    run.output = out.getvalue()
    return run
