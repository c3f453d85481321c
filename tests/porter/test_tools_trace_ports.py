"""Tools that trace a module see in each golden port what they see in its original, before any eager call."""

import copy
import importlib.util
import random
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.modules import module as torch_module

from flodl import FlowModule

CASES = Path(__file__).parent / "cases"
FOLDERS = sorted(path.parent for path in CASES.glob("*/*/input.py") if path.parts[-3] != "refused")

pytestmark = [
    pytest.mark.torch,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # of the tools, about either module
]


def loaded(path, monkeypatch):
    name = "_".join(["traced", *path.with_suffix("").parts[-3:]])
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


def calls_of(module):
    """Return the first call of each class of a file that its `check` calls: the object, and its arguments."""
    found, depth = {}, []

    def before(part, args):
        kind = type(part)
        if kind.__module__ != module.__name__:
            return
        if not depth and kind.__name__ not in found:
            state = torch.get_rng_state()
            found[kind.__name__] = copied((part, args))
            torch.set_rng_state(state)
        depth.append(part)

    def after(part, *_):
        if type(part).__module__ == module.__name__:
            depth.pop()

    handles = [
        torch_module.register_module_forward_pre_hook(before),
        torch_module.register_module_forward_hook(after, always_call=True),
    ]
    seed()
    try:
        module.check()
    finally:
        for handle in handles:
            handle.remove()
    return {name: call for name, call in found.items() if call is not None}


def copied(value):
    """Return a deep copy, `None` of what has none."""
    try:
        return copy.deepcopy(value)
    except Exception:
        return None


def seed():
    torch.manual_seed(5)
    random.seed(5)
    np.random.seed(5)


def nodes(graph):
    return [(node.op, node.name, str(node.target).split(" at 0x")[0]) for node in graph.nodes]


def tensors(value):
    leaves = torch.utils._pytree.tree_leaves(value)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def run_compiled(fullgraph, part, args):
    torch.compiler.reset()
    compiled = torch.compile(part, backend="eager", fullgraph=fullgraph)
    return [compiled(*copy.deepcopy(args)) for _ in range(2)]


TOOLS = {
    "fx": lambda part, args: nodes(torch.fx.symbolic_trace(part).graph),
    "export": lambda part, args: nodes(torch.export.export(part, args, strict=False).graph),
    "fullgraph": lambda part, args: run_compiled(True, part, args),
    "compile": lambda part, args: run_compiled(False, part, args),
}


def outcome(tool, call):
    """Return what a tool makes of a module, or the error, and the number of plans that are left."""
    part, args = copy.deepcopy(call)
    flows = [each for each in part.modules() if isinstance(each, FlowModule)]
    plans = [each for flow in flows for each in flow._flodl_plans.values()]
    for each in plans:
        each.clear()
    seed()
    try:
        result = TOOLS[tool](part, args)
    except Exception as error:
        result = error
    return result, sum(len(each.programs) for each in plans)


def cases():
    """Yield each case with the quick tools, and every second case with one of the others in turn."""
    in_turn = (("fullgraph",), (), ("compile",), ())
    for number, folder in enumerate(FOLDERS):
        for tool in ("fx", "export", *in_turn[number % len(in_turn)]):
            yield pytest.param(folder, tool, id="-".join((*folder.parts[-2:], tool)))


@pytest.mark.parametrize(("folder", "tool"), [*cases()])
def test_port_is_traced_as_its_original(folder, tool, monkeypatch):
    original = loaded(folder / "input.py", monkeypatch)
    port = loaded(folder / "expected.py", monkeypatch)
    if "check" not in vars(original):
        pytest.skip("the case has no calls")
    theirs, ours = calls_of(original), calls_of(port)
    for name in theirs.keys() & ours.keys():
        if not isinstance(ours[name][0], FlowModule):
            continue
        expected, _ = outcome(tool, theirs[name])
        if isinstance(expected, Exception):
            continue  # the tool refuses the original
        found, plans = outcome(tool, ours[name])
        assert not isinstance(found, Exception), f"{name}: {found}"
        assert plans == 0, name
        if tool in ("fx", "export"):
            assert found == expected, name
        else:
            pairs = list(zip(tensors(found), tensors(expected), strict=True))
            assert all(torch.equal(one, other) for one, other in pairs), name
