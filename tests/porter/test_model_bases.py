"""Models below a class of another package: those of transformers become flows, others are kept."""

import json

import pytest

from fdl_cli.app import main

# The bases as transformers has them: the module first, then what it mixes in.
PACKAGE = """
import torch
from torch import nn


class Embeddings:
    def embeddings(self):
        return self.config


class PreTrainedModel(nn.Module, Embeddings):
    def __init__(self, config, *inputs, **kwargs):
        super().__init__()
        self.config = config

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)

    def post_init(self):
        self.apply(self._init_weights)


class GenerationMixin:
    @torch.no_grad()
    def generate(self, x, turns):
        for _ in range(turns):
            x = self(x)
        return x


class GradientCheckpointingLayer(nn.Module):
    gradient_checkpointing = False

    def __call__(self, *args, **kwargs):
        return super().__call__(*args, **kwargs)
"""
SCRIPT = """
import torch
from torch import nn
from transformers import GenerationMixin
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_utils import PreTrainedModel


class Layer(GradientCheckpointingLayer):
    def __init__(self, size=4):
        super().__init__()
        self.a = nn.Linear(size, size)

    def forward(self, x):
        return x + self.a(x)


class Base(PreTrainedModel):
    def _init_weights(self, module):
        if isinstance(module, nn.Linear):
            module.weight.data.normal_(0.0, 0.02)


class Net(Base, GenerationMixin):
    def __init__(self, config=None):
        super().__init__(config)
        self.layers = nn.ModuleList(Layer() for _ in range(2))
        self.post_init()

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return torch.tanh(x)
"""


def test_models_of_transformers_are_flows(porter):
    made = porter.draft(SCRIPT)
    assert {item.name: item.status for item in made.plan.classes} == {
        "Layer": "graph", "Base": "graph", "Net": "graph"
    }  # fmt: skip
    assert "class Layer(GradientCheckpointingLayer, FlowModule):" in made.text
    assert "class Base(PreTrainedModel, FlowModule):" in made.text
    assert "class Net(Base, GenerationMixin):" in made.text
    assert "for layer in self.layers:\n            x = x.through(layer)\n" in made.text


def test_port_of_an_attention_class_keeps_the_text_that_transformers_searches_for(porter):
    # `set_attn_implementation` reads the file of a model: such a class without the interface refuses.
    attention = "class SelfAttention(nn.Module):"
    text = SCRIPT.replace("class Layer(GradientCheckpointingLayer):", attention)
    made = porter.draft(text.replace("Layer() for", "SelfAttention() for"))
    assert "class SelfAttention(FlowModule):" in made.text
    note = "# a base class searches for: class SelfAttention(nn.Module)"
    assert f"from flodl import FlowModule  {note}\n" in made.text
    assert "searches" not in porter.draft(SCRIPT).text


@pytest.mark.slow
@pytest.mark.torch
def test_they_are_proved_equal(tmp_path, monkeypatch, capsys):
    package = tmp_path / "site" / "transformers"
    package.mkdir(parents=True)
    names = "PreTrainedModel, GenerationMixin, GradientCheckpointingLayer"
    (package / "bases.py").write_text(PACKAGE, encoding="utf-8")
    for module in ("__init__", "modeling_utils", "modeling_layers"):
        (package / f"{module}.py").write_text(
            f"from transformers.bases import {names}\n", encoding="utf-8"
        )
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    (tmp_path / "net.py").write_text(SCRIPT, encoding="utf-8")
    main(["port", str(tmp_path / "net.py"), "-o", str(tmp_path / "port.py"), "--json"])
    (report,) = json.loads(capsys.readouterr().out)["data"]["files"]
    found = {
        item["name"]: (item["status"], item["verify"]["status"]) for item in report["classes"]
    }
    assert found["Layer"] == found["Net"] == ("graph", "equal")


def test_a_model_below_a_base_that_is_in_no_file_is_kept(porter):
    text = SCRIPT.replace("transformers.modeling_utils", "others.models")
    made = porter.draft(text)
    found = {
        item.name: (item.status, [each.code for each in item.reasons])
        for item in made.plan.classes
    }
    assert found["Layer"] == ("graph", [])
    assert found["Net"] == ("kept", ["FDL203"])
    assert "class Net(Base, GenerationMixin):\n    def __init__(self, config=None):" in made.text
    assert "    def forward(self, x):\n        for layer in self.layers:" in made.text
