"""A whole training run in one file: weights, optimizer, schedule, scaler, random numbers, position."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, final

from torch import Tensor, nn, optim

from flodl.checkpoint.contents import AbstractContents, Source, open_contents
from flodl.checkpoint.restore import (
    Change,
    HasState,
    check_optimizer_state,
    checked_tree,
    random_state,
    set_random_state,
)
from flodl.checkpoint.state import encode
from flodl.checkpoint.store import LoadReport, Target, prepare_load, tensors_of, write
from flodl.checkpoint.tensors import copies_on_host
from flodl.checkpoint.topology import topology_of, unwrapped
from flodl.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_KEY: Final = "fdl.train"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """The position at which a training run continues.

    Attributes:
        epoch: epochs that were finished.
        step: steps that were taken.
        extra: the `extra` argument of `save_training`.
        report: the report of loading the weights.
        unused: parts of the file that were not loaded.
    """

    epoch: int
    step: int
    extra: Mapping[str, Any]
    report: LoadReport
    unused: tuple[str, ...]


def save_training(
    target: Target,
    model: nn.Module,
    optimizer: optim.Optimizer,
    *,
    epoch: int = 0,
    step: int = 0,
    parts: Mapping[str, HasState] | None = None,
    extra: Mapping[str, Any] | None = None,
) -> None:
    """Save everything that a run needs to continue exactly as if it had not been stopped.

    Args:
        target: a path or a binary stream.
        model: the model.
        optimizer: its optimizer; the state is stored by parameter names.
        epoch: epochs that are finished.
        step: steps that were taken.
        parts: whatever else has a state: `{"scheduler": ..., "scaler": ..., "loader": ...}`.
        extra: plain values or tensors to get back from `resume`.

    Raises:
        CheckpointError: something has no form in the file, or the file cannot be written.
    """
    tensors, metadata = _contents(model, optimizer, epoch, step, parts, extra)
    write(target, tensors, metadata, kind="train")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSnapshot:
    """The content of `save_training` at one moment, on the host; it shares nothing with the training.

    Example:
        >>> import io
        >>> import torch
        >>> from flodl import TrainingSnapshot, resume, snapshot_training
        >>> layer = torch.nn.Linear(2, 1)
        >>> optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        >>> snapshot = snapshot_training(layer, optimizer, step=3)
        >>> isinstance(snapshot, TrainingSnapshot)
        True
        >>> file = io.BytesIO()
        >>> snapshot.save(file)
        >>> resume(io.BytesIO(file.getvalue()), layer, optimizer).step
        3
    """

    tensors: Mapping[str, Tensor]
    metadata: Mapping[str, str]

    def save(self, target: Target) -> None:
        """Write the snapshot to a path or a binary stream; `resume` reads it.

        Raises:
            CheckpointError: the file cannot be written.
        """
        write(target, self.tensors, self.metadata, kind="train")


def snapshot_training(
    model: nn.Module,
    optimizer: optim.Optimizer,
    *,
    epoch: int = 0,
    step: int = 0,
    parts: Mapping[str, HasState] | None = None,
    extra: Mapping[str, Any] | None = None,
) -> TrainingSnapshot:
    """Copy the content of `save_training`; training may continue as soon as this returns.

    Raises:
        CheckpointError: something has no form in the file.

    Example:
        >>> import io
        >>> import torch
        >>> from flodl import snapshot_training
        >>> layer = torch.nn.Linear(2, 1)
        >>> snapshot = snapshot_training(layer, torch.optim.SGD(layer.parameters(), lr=0.1))
        >>> snapshot.save(io.BytesIO())
    """
    tensors, metadata = _contents(model, optimizer, epoch, step, parts, extra)
    return TrainingSnapshot(tensors=copies_on_host(tensors), metadata=metadata)


def _contents(
    model: nn.Module,
    optimizer: optim.Optimizer,
    epoch: int,
    step: int,
    parts: Mapping[str, HasState] | None,
    extra: Mapping[str, Any] | None,
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the tensors and the texts of a file."""
    tree = {
        "optimizer": _by_name(optimizer, model),
        "parts": {name: each.state_dict() for name, each in (parts or {}).items()},
        "rng": random_state(),
        "epoch": epoch,
        "step": step,
        "extra": dict(extra or {}),
    }
    tensors: dict[str, Tensor] = {}
    form = encode(tree, "train", tensors)
    topology = topology_of(model)
    metadata = {
        _KEY: json.dumps(form),
        "fdl.structural_hash": topology.hash(),
        "fdl.topology": topology.to_json(),
    }
    return {**tensors_of(model), **tensors}, metadata


def resume(
    source: Source,
    model: nn.Module,
    optimizer: optim.Optimizer,
    *,
    parts: Mapping[str, HasState] | None = None,
    random_numbers: bool = True,
) -> Resumed:
    """Continue a run from a file of `save_training`, as a whole or not at all.

    Everything is checked before the first change.  If a part refuses its state all the same, those before
    it get theirs back; weights come last.

    Args:
        source: a path or stream.
        model: a model of the same architecture.
        optimizer: an optimizer over the same parameters.
        parts: the same further parts.
        random_numbers: whether to continue the random numbers of the saved run.

    Raises:
        CheckpointError: the file is damaged, is no training checkpoint, or does not fit.
    """
    accept = (lambda _extra: None, lambda: None)
    return resume_with(
        source, model, optimizer, parts=parts or {}, random_numbers=random_numbers, accept=accept
    )


def resume_with(
    source: Source,
    model: nn.Module,
    optimizer: optim.Optimizer,
    *,
    parts: Mapping[str, HasState],
    random_numbers: bool,
    accept: tuple[Callable[[Mapping[str, Any]], object], Callable[[], object]],
) -> Resumed:
    """Continue a run as `resume` does; `accept` takes over `extra` before the weights change.

    Args:
        source: a path or stream.
        model: a model of the same architecture.
        optimizer: an optimizer over the same parameters.
        parts: the same further parts.
        random_numbers: whether to continue the random numbers of the saved run.
        accept: a function that is given `extra`, and one that undoes what it did.

    Raises:
        CheckpointError: the file is damaged, is no training checkpoint, or does not fit; nothing has changed.
    """
    contents = open_contents(source)
    form = contents.metadata.get(_KEY)
    if form is None:
        raise CheckpointError(
            "the file holds weights only; use load, or save_training", path=contents.path
        )
    contents.require_sound()
    tree = checked_tree(form, contents)
    state = _by_index(tree["optimizer"], optimizer, model, contents)
    check_optimizer_state(state, optimizer, contents.path)
    lacking = sorted(set(parts) - set(tree["parts"]))
    if lacking:
        raise CheckpointError(f"the file has no state of {', '.join(lacking)}", path=contents.path)
    weights = prepare_load(model, contents)
    if weights.report.missing:
        raise CheckpointError(
            f"the file lacks {', '.join(weights.report.missing)}", path=contents.path
        )
    change = Change(contents.path)
    _load_optimizer(change, optimizer, state)
    for name, part in parts.items():
        change.load(name, part, tree["parts"][name])
    take, undo = accept
    change.make("the training", lambda: take(tree["extra"]), undo)
    if random_numbers:
        _load_random_state(change, tree["rng"])
    change.make("the model", weights.copy, lambda: None)
    return Resumed(
        epoch=tree["epoch"],
        step=tree["step"],
        extra=tree["extra"],
        report=weights.report,
        unused=tuple(name for name in tree["parts"] if name not in parts),
    )


def _load_optimizer(change: Change, optimizer: optim.Optimizer, state: dict[str, Any]) -> None:
    before = optimizer.state_dict()  # load_state_dict replaces the tensors in it, and changes none
    change.make(
        "the optimizer",
        lambda: optimizer.load_state_dict(state),
        lambda: optimizer.load_state_dict(before),
    )


def _load_random_state(change: Change, state: Mapping[str, Any]) -> None:
    before = random_state()
    change.make(
        "the random numbers",
        lambda: set_random_state(state),
        lambda: set_random_state(before),
    )


# ---- optimizer state by parameter names --------------------------------------------------------------


def _names(optimizer: optim.Optimizer, model: nn.Module) -> list[str]:
    """Return the names of the optimizer's parameters, in its order."""
    known = {id(each): name for name, each in unwrapped(model).named_parameters()}
    names = []
    for index, each in enumerate(
        each for group in optimizer.param_groups for each in group["params"]
    ):
        if id(each) not in known:
            raise CheckpointError(
                f"parameter {index} of the optimizer (shape {list(each.shape)}) is not one of the model's; "
                "make the optimizer after the model has its final parameters"
            )
        names.append(known[id(each)])
    return names


def _by_name(optimizer: optim.Optimizer, model: nn.Module) -> dict[str, Any]:
    names = _names(optimizer, model)
    state = optimizer.state_dict()
    groups = [
        {**group, "params": [names[index] for index in group["params"]]}
        for group in state["param_groups"]
    ]
    # param_names repeats the names where torch knows them.
    for group in groups:
        group.pop("param_names", None)
    return {
        "kind": type(optimizer).__name__,
        "state": {names[index]: each for index, each in state["state"].items()},
        "param_groups": groups,
    }


def _by_index(
    saved: dict[str, Any], optimizer: optim.Optimizer, model: nn.Module, contents: AbstractContents
) -> dict[str, Any]:
    if saved["kind"] != type(optimizer).__name__:
        raise CheckpointError(
            f"the file has the state of {saved['kind']}, the optimizer is {type(optimizer).__name__}",
            path=contents.path,
        )
    names = _names(optimizer, model)
    index_of = {name: index for index, name in enumerate(names)}
    current = optimizer.state_dict()["param_groups"]
    ours = [[names[index] for index in group["params"]] for group in current]
    theirs = [group["params"] for group in saved["param_groups"]]
    unknown = sorted(set(saved["state"]) - set(names))
    if unknown:
        raise CheckpointError(
            f"the file has optimizer state of {', '.join(unknown[:3])}, which the model does not have",
            path=contents.path,
        )
    if [sorted(group) for group in ours] != [sorted(group) for group in theirs]:
        raise CheckpointError(
            "the optimizer's parameter groups differ from the saved ones",
            path=contents.path,
            differences=(f"- file: {theirs}", f"+ here: {ours}"),
        )
    groups = [
        {**group, "params": here["params"]}
        for group, here in zip(saved["param_groups"], current, strict=True)
    ]
    return {
        "state": {index_of[name]: each for name, each in saved["state"].items()},
        "param_groups": groups,
    }
