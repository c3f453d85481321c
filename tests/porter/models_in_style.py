"""Models in the style of published code, with the changes of the world that a port has to follow.

A file of `tests/data/models_in_style` has a class `Net`, functions `inputs(rows)`, `second_inputs(rows)` that
return positional and named arguments, and `CHANGES`: functions of a model, by their names.
"""

from pathlib import Path

import torch

from tests.porter.port_twins import Twins

FOLDER = Path(__file__).parents[1] / "data" / "models_in_style"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py"))


def swapped_buffers(net):
    """Put other tensors into the place of buffers."""
    for module in net.modules():
        for name, buffer in list(module.named_buffers(recurse=False)):
            if buffer.is_floating_point():
                setattr(module, name, buffer * 1.5)


def loaded_state(net):
    """Load a state whose tensors replace those of the model."""
    state = {
        name: value * 1.25 if value.is_floating_point() or value.is_complex() else value.clone()
        for name, value in net.state_dict().items()
    }
    net.load_state_dict(state, assign=True)


def hooked(net):
    """Hook every module inside, parametrizations included, so that their results grow."""
    for path, module in net.named_modules():
        if path:
            module.register_forward_hook(_grown)


def _grown(_module, _inputs, output):
    return output * 1.5 if isinstance(output, torch.Tensor) else None


def double(net):
    net.double()


COMMON = {
    "swapped buffers": swapped_buffers,
    "loaded state": loaded_state,
    "hooks": hooked,
    "double": double,
}


def changes_of(twins):
    """Return the changes of a model and the common ones, each as a pair of functions for both twins."""
    names = dict.fromkeys((*vars(twins.modules[0])["CHANGES"], *COMMON))
    return {
        name: [vars(module)["CHANGES"].get(name, COMMON.get(name)) for module in twins.modules]
        for name in names
    }


class World:
    """The twins of one model, and what is done to them."""

    def __init__(self, porter, folder, name):
        self.porter, self.folder = porter, folder
        self.source = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
        self.renew()

    def renew(self):
        self.twins = Twins(self.porter, self.folder, self.source)

    def calls(self, times=1, rows=(3,), *, wide=False):
        """Call both with every kind of inputs that the file has."""
        found = []
        names = [name for name in vars(self.twins.modules[0]) if name.endswith("inputs")]
        for name in names:
            for count in rows:
                for number in range(times):
                    sides = []
                    for module in self.twins.modules:
                        torch.manual_seed(number + 1)
                        given, named = vars(module)[name](count)
                        sides.append(_widened((given, named)) if wide else (given, named))
                    found.append(self.twins.call_each(sides))
        return found

    def change(self, name):
        """Apply one change to both; both have to fail alike, if they do."""
        ends = []
        for model, change in zip(self.twins.models, changes_of(self.twins)[name], strict=True):
            torch.manual_seed(11)
            try:
                change(model)
            except Exception as error:
                ends.append(f"{type(error).__name__}: {error}")
            else:
                ends.append("")
        assert ends[0] == ends[1], ends


def _widened(value):
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.double()
    if type(value) in {list, tuple}:
        return type(value)(_widened(item) for item in value)
    if type(value) is dict:
        return {key: _widened(item) for key, item in value.items()}
    return value
