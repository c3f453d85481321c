"""Tools that trace a module see in ports of torchvision what they see in torchvision."""

import importlib
import importlib.util
import sys
from pathlib import Path

import pytest
import torch

from fdl_cli.porter.port_file import port_file
from flodl import FlowModule

pytestmark = [
    pytest.mark.torch,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # of torchvision, and of the tools
]

SIDE = 64
MODELS = {
    "resnet": ("resnet18", {}),
    "mobilenetv2": ("mobilenet_v2", {}),
    "squeezenet": ("squeezenet1_1", {}),
    "shufflenetv2": ("shufflenet_v2_x0_5", {}),
    "googlenet": ("googlenet", {"init_weights": False}),
    "convnext": ("convnext_tiny", {}),
}


@pytest.fixture(scope="module")
def torchvision():
    """Return torchvision, where it was built for this torch."""
    try:
        return importlib.import_module("torchvision")
    except Exception as error:
        pytest.skip(f"torchvision: {error}")


@pytest.fixture(params=list(MODELS))
def pair(request, torchvision, tmp_path, monkeypatch):
    """Return a model of torchvision and its port, with the same weights, and no plan yet."""
    file = Path(torchvision.__file__).parent / "models" / f"{request.param}.py"
    _, ported = port_file(file.read_bytes(), Path(file.name), None)
    written = tmp_path / file.name
    written.write_bytes(ported)
    # The port registers its models under the same names.
    monkeypatch.setattr(torchvision.models._api, "BUILTIN_MODELS", {})
    spec = importlib.util.spec_from_file_location(
        f"torchvision.models.{request.param}_port", written
    )
    port = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, port)
    spec.loader.exec_module(port)
    original = importlib.import_module(f"torchvision.models.{request.param}")
    name, settings = MODELS[request.param]
    plain, flow = (vars(each)[name](**settings).eval() for each in (original, port))
    flow.load_state_dict(plain.state_dict())
    for plans in plans_of(flow):
        plans.clear()
    return plain, flow


def plans_of(model):
    flows = [each for each in model.modules() if isinstance(each, FlowModule)]
    assert flows
    return [plans for flow in flows for plans in flow._flodl_plans.values()]


def test_port_is_traced_as_its_original(pair):
    plain, flow = pair
    extraction = importlib.import_module("torchvision.models.feature_extraction")
    x = torch.randn(2, 3, SIDE, SIDE)
    names = extraction.get_graph_node_names(plain)
    assert extraction.get_graph_node_names(flow) == names
    graphs = [torch.export.export(each, (x,)).graph for each in pair]
    assert [node.name for node in graphs[0].nodes] == [node.name for node in graphs[1].nodes]
    torch.compiler.reset()
    compiled = torch.compile(flow, backend="eager", fullgraph=True)
    assert torch.equal(compiled(x), plain(x))
    assert not any(each.programs for each in plans_of(flow))
    last = names[1][-2]
    features = [extraction.create_feature_extractor(each, [last])(x)[last] for each in pair]
    assert torch.equal(*features)
    assert torch.equal(flow(x), plain(x))
