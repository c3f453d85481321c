"""Restoring a stored training as a whole or not at all.

```
tree = checked_tree(form, contents)   # every field that resuming reads has its type
change = Change()
change.load("optimizer", optimizer, state)   # the state before is kept
change.load("scheduler", scheduler, other)   # raises: optimizer and scheduler are as before
```
Weights come last: their names, shapes and checksums are known to fit by then, so only reading can fail.
"""

from __future__ import annotations

import random
import sys
from typing import TYPE_CHECKING, Any, Protocol, final

import torch
from torch import Tensor, optim
from torch.optim.lr_scheduler import LRScheduler

from flodl.checkpoint.state import decode_text
from flodl.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from flodl.checkpoint.contents import AbstractContents


class HasState(Protocol):
    """The interface of schedulers, scalers and samplers."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any], /) -> Any:
        """Take over a state."""
        ...


# ---- checks before the first change ------------------------------------------------------------------

_FIELDS = {"optimizer": dict, "parts": dict, "rng": dict, "epoch": int, "step": int, "extra": dict}
_OPTIMIZER_FIELDS = {"kind": str, "state": dict, "param_groups": list}
# Optimizers of torch whose tensors have the shape of their parameter, or one value.
_ELEMENTWISE = (
    optim.SGD, optim.Adam, optim.AdamW, optim.RMSprop, optim.Adagrad, optim.Adadelta, optim.Adamax,
    optim.NAdam, optim.RAdam, optim.ASGD, optim.Rprop,
)  # fmt: skip


def checked_tree(form: str, contents: AbstractContents) -> dict[str, Any]:
    """Return the stored training from its text; every field that `resume` reads has its type.

    Raises:
        CheckpointError: a field is missing or of another type.
    """
    tree = decode_text(form, contents)
    check = _Checker(contents.path)
    check.fields("fdl.train", tree, _FIELDS)
    for name in ("epoch", "step"):
        check.that(tree[name] >= 0, f"{name} is {tree[name]}")
    for name in ("parts", "extra", "rng"):
        check.keys(name, tree[name])
    optimizer = tree["optimizer"]
    check.fields("optimizer", optimizer, _OPTIMIZER_FIELDS)
    check.keys("the optimizer's state", optimizer["state"])
    for group in optimizer["param_groups"]:
        check.fields("a parameter group", group, {"params": list})
        check.keys("a parameter group", group)
        names = all(isinstance(each, str) for each in group["params"])
        check.that(names, "the parameters of a group are not names")
    for name, values in optimizer["state"].items():
        check.keys(f"the state of {name}", values)
    found: dict[str, Any] = tree
    return found


@final
class _Checker:
    """Refuses a stored training whose structure is not the one that is written."""

    def __init__(self, path: str | None) -> None:
        self._path = path

    def that(self, condition: bool, damage: str) -> None:
        if not condition:
            raise CheckpointError(f"the stored training is damaged: {damage}", path=self._path)

    def keys(self, place: str, table: object) -> None:
        is_table = isinstance(table, dict) and all(isinstance(key, str) for key in table)
        self.that(is_table, f"{place} is no table with texts as keys")

    def fields(self, place: str, table: object, fields: Mapping[str, type]) -> None:
        self.that(isinstance(table, dict), f"{place} is a {type(table).__name__}, not a table")
        assert isinstance(table, dict)
        for name, kind in fields.items():
            self.that(name in table, f"{place} lacks {name}")
            found = type(table[name])
            self.that(found is kind, f"{place}: {name} is a {found.__name__}")


def check_optimizer_state(
    state: Mapping[str, Any], optimizer: optim.Optimizer, path: str | None
) -> None:
    """Check what `load_state_dict` of an optimizer takes unseen and its next step would fail on.

    Args:
        state: the argument for `load_state_dict`: groups in the optimizer's order, values by index.
        optimizer: the optimizer.
        path: the file, for the message.

    Raises:
        CheckpointError: a setting is of another kind than here, or a tensor has another shape.
    """
    check = _Checker(path)
    for index, (saved, here) in enumerate(
        zip(state["param_groups"], optimizer.param_groups, strict=True)
    ):
        for key, value in saved.items():
            if key == "params" or key not in here:
                continue
            check.that(
                _same_kind(value, here[key]),
                f"{key} of parameter group {index} is {value!r}, here it is {here[key]!r}",
            )
    # A subclass of one of them may keep tensors of other shapes.
    known = type(optimizer).__module__.startswith(("torch.optim", "flodl."))
    if not (known and isinstance(optimizer, _ELEMENTWISE)):
        return
    parameters = [each for group in optimizer.param_groups for each in group["params"]]
    for index, values in state["state"].items():
        for key, value in values.items():
            if not isinstance(value, Tensor) or value.numel() == 1:
                continue
            check.that(
                value.shape == parameters[index].shape,
                f"{key} of parameter {index} has shape {list(value.shape)}, the parameter "
                f"{list(parameters[index].shape)}",
            )


def check_schedule_state(state: object, schedule: LRScheduler) -> None:
    """Check what `load_state_dict` of a torch schedule would write into its attributes unseen.

    Raises:
        ValueError: it is no state of such a schedule.
    """
    here = schedule.state_dict()
    if not isinstance(state, dict) or not all(isinstance(key, str) for key in state):
        raise ValueError(f"no state of a {type(schedule).__name__}")
    for key, value in here.items():
        if key in state and value is not None and not _same_kind(state[key], value):
            raise ValueError(f"{key} is {state[key]!r}, here it is {value!r}")


def _same_kind(saved: object, here: object) -> bool:
    """Return True if an optimizer that takes one setting takes the other: numbers, or tuples of them."""
    if saved is None or here is None:
        return True  # a setting that is off on one side tells nothing of the other
    if isinstance(here, tuple | list):
        return (
            isinstance(saved, tuple | list)
            and len(saved) == len(here)
            and all(map(_same_kind, saved, here))
        )
    if _is_number(here):
        return _is_number(saved)
    return isinstance(saved, type(here))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) or (isinstance(value, Tensor) and value.numel() == 1)


# ---- changes that can be undone ------------------------------------------------------------------------


@final
class Change:
    """Several states that are taken over together: after an error all of them are as before."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._undo: list[Callable[[], object]] = []

    def load(self, name: str, part: HasState, state: dict[str, Any]) -> None:
        """Have a part take over a state.

        Raises:
            CheckpointError: the part refuses it; every part is as before.
        """
        before = _kept(part.state_dict())
        attributes = dict(getattr(part, "__dict__", {}))

        def change() -> None:
            if isinstance(part, LRScheduler):
                check_schedule_state(state, part)
            part.load_state_dict(state)

        def undo() -> None:
            # Some classes write every key of a state into their attributes, known or not.
            for key in set(getattr(part, "__dict__", {})) - set(attributes):
                delattr(part, key)
            part.load_state_dict(before)

        self.make(name, change, undo)

    def make(self, name: str, change: Callable[[], object], undo: Callable[[], object]) -> None:
        """Make a change for which an inverse is known.

        Raises:
            CheckpointError: the change failed; everything is as before.
        """
        self._undo.append(undo)
        try:
            change()
        except CheckpointError:
            self.undo()
            raise
        except Exception as error:
            self.undo()
            raise CheckpointError(
                f"the stored state of {name} does not fit ({type(error).__name__}: {error}); nothing was "
                "changed",
                path=self._path,
            ) from error
        except BaseException:
            self.undo()
            raise

    def undo(self) -> None:
        """Undo all changes, the last one first.

        Raises:
            CheckpointError: something refuses what it had before; all the others are as before.
        """
        failed: list[Exception] = []
        while self._undo:
            try:
                self._undo.pop()()
            except Exception as error:
                failed.append(error)
        if failed:
            raise CheckpointError(
                f"the stored state does not fit, and a part does not take back its own ({failed[0]!r}); "
                "build the model again",
                path=self._path,
            ) from failed[0]


def _kept(state: Any) -> Any:
    """Return a copy of a state that no change of the original reaches."""
    if isinstance(state, Tensor):
        return state.detach().clone()
    if isinstance(state, dict):
        return {key: _kept(each) for key, each in state.items()}
    if type(state) in (list, tuple):
        return type(state)(_kept(each) for each in state)
    return state


# ---- random numbers ----------------------------------------------------------------------------------


def random_state() -> dict[str, Any]:
    """Return the states of all generators: torch's, CUDA's, Python's, and NumPy's if it is in use."""
    state: dict[str, Any] = {"torch": torch.get_rng_state(), "python": random.getstate()}
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state_all()
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        kind, words, *rest = numpy.random.get_state()
        state["numpy"] = [kind, [int(each) for each in words], *rest]
    return state


def set_random_state(state: Mapping[str, Any]) -> None:
    """Continue all generators from states of `random_state`."""
    torch.set_rng_state(state["torch"])
    random.setstate(state["python"])
    if "cuda" in state and torch.cuda.device_count() == len(state["cuda"]):
        torch.cuda.set_rng_state_all(state["cuda"])
    numpy = sys.modules.get("numpy")
    if "numpy" in state and numpy is not None:
        kind, words, *rest = state["numpy"]
        numpy.random.set_state((kind, numpy.array(words, dtype="uint32"), *rest))
