"""Models whose settings have the field's usual names are made tiny, and called as they say themselves."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from flodl_verify.inputs.case_finder import CaseFinder
from flodl_verify.inputs.importance import standings
from flodl_verify.inputs.rules.tiny_settings import self_contained, tiny_values
from tests.flodl_verify.opened import opened

pytestmark = pytest.mark.torch


def test_tiny_values_usual_names_become_small() -> None:
    bert = {
        "vocab_size": 30522,
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
        "max_position_embeddings": 512,
        "type_vocab_size": 2,
        "hidden_dropout_prob": 0.1,
        "use_cache": True,
        "hidden_act": "gelu",
    }
    assert tiny_values(bert) == {
        "vocab_size": 128,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "max_position_embeddings": 64,
    }


def test_tiny_values_token_outside_of_the_vocabulary_moves_inside() -> None:
    found = tiny_values(
        {
            "vocab_size": 50257,
            "bos_token_id": 50256,
            "eos_token_id": 50256,
            "image_token_index": 50100,
            "pad_token_id": 1,
            "suppress_tokens": [1, 50255],
        }
    )
    assert (found["bos_token_id"], found["eos_token_id"], found["image_token_index"]) == (
        127,
        127,
        126,
    )
    assert "pad_token_id" not in found
    assert found["suppress_tokens"] == [1]


def test_tiny_values_list_by_layer_is_cut_and_sizes_keep_their_proportion() -> None:
    found = tiny_values(
        {
            "num_hidden_layers": 12,
            "attention_window": [512] * 12,
            "depths": [3, 4, 6, 3],
            "hidden_sizes": (256, 512, 1024, 2048),
            "num_heads": [3, 6, 12, 24],
        }
    )
    assert found == {
        "num_hidden_layers": 2,
        "attention_window": [8, 8],
        "depths": [1, 1, 1, 1],
        "hidden_sizes": (8, 16, 32, 64),
    }


def test_tiny_values_without_widths_keep_what_divides_each_other() -> None:
    swin = {
        "embed_dim": 96,
        "num_heads": [3, 6, 12, 24],
        "depths": [2, 2, 6, 2],
        "vocab_size": 9999,
    }
    assert tiny_values({**swin, "image_size": 224, "patch_size": 4}, widths=False) == {
        "depths": [1, 1, 1, 1],
        "vocab_size": 128,
        "image_size": 32,
    }
    assert tiny_values({"hidden_size": 768, "num_heads": 12}, widths=False) == {"hidden_size": 48}


@pytest.mark.parametrize(
    ("fields", "side"),
    [
        ({"image_size": 224, "patch_size": 16}, 32),
        ({"image_size": 224, "patch_size": 4}, 32),
        ({"image_size": 384, "patch_size": 32}, 64),
        ({"image_size": 224}, 32),
    ],
)
def test_tiny_values_image_is_a_few_patches_wide(fields: dict[str, int], side: int) -> None:
    assert tiny_values(fields) == {"image_size": side}


def test_self_contained_pretrained_backbone_of_another_package_is_left_out() -> None:
    fields = {"use_timm_backbone": True, "backbone": "resnet50", "use_pretrained_backbone": True}
    assert self_contained({**fields, "dilation": True}) == {
        "use_timm_backbone": False,
        "backbone": None,
        "use_pretrained_backbone": False,
    }


HEAD = """
import torch
from torch import nn

made = []


class NetConfig:
    def __init__(self, vocab_size=30522, hidden_size=768, num_heads=12, eos_token_id=1):
        made.append(hidden_size)
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.num_heads = num_heads
        self.eos_token_id = eos_token_id
"""
SHIPPED = (
    HEAD
    + """

class Classifier(nn.Module):
    main_input_name = "input_ids"

    def __init__(self, config: NetConfig):
        super().__init__()
        self.config = config
        self.emb = nn.Embedding(config.vocab_size, config.hidden_size)

    @property
    def dummy_inputs(self):
        ids = torch.tensor([[7, 6, 0, 0, 1], [1, 2, 3, 0, 0]])
        return {"input_ids": ids, "decoder_input_ids": ids}

    def forward(
        self, input_ids=None, decoder_input_ids=None, prompt_attention_mask=None, prompt_inputs_embeds=None
    ):
        if input_ids is None or decoder_input_ids is None:
            raise ValueError("you must pass both texts")
        if (prompt_attention_mask is None) == (prompt_inputs_embeds is None):
            raise ValueError("give either prompt_attention_mask or prompt_inputs_embeds")
        ends = input_ids.eq(self.config.eos_token_id)
        if len(torch.unique_consecutive(ends.sum(1))) > 1 or not ends.any():
            raise ValueError("all texts must have the same number of ends")
        return self.emb(input_ids)[ends] + self.emb(decoder_input_ids)[:, 0]
"""
)


def test_shipped_inputs_are_whole_texts_of_the_names_that_the_model_gives(tmp_path: Path) -> None:
    side = opened(tmp_path, SHIPPED)
    book = CaseFinder(side, ("Classifier",), 20.0)
    book.add_guesses()
    assert book.missing == (), book.reasons
    with side.active():
        model = book.cases["Classifier"][0].construction.build(side)
    assert (model.emb.num_embeddings, model.emb.embedding_dim) == (128, 32)


PICTURES = """
import torch
from torch import nn


class PictureConfig:
    def __init__(self, image_size=224, patch_size=16, num_channels=4, hidden_size=768):
        self.image_size = image_size
        self.patch_size = patch_size
        self.num_channels = num_channels
        self.hidden_size = hidden_size


class Patches(nn.Module):
    main_input_name = "pixel_values"

    def __init__(self, config: PictureConfig):
        super().__init__()
        self.config = config
        self.dummy_inputs = {"input_ids": torch.zeros(2, 5, dtype=torch.long)}  # as its base has it
        self.proj = nn.Conv2d(config.num_channels, config.hidden_size, config.patch_size)

    def forward(self, pixel_values=None, input_ids=None):
        if pixel_values.shape[-1] != self.config.image_size:
            raise ValueError("wrong size")
        return self.proj(pixel_values)
"""


def test_shipped_inputs_of_a_picture_model_are_pictures_of_its_size(tmp_path: Path) -> None:
    side = opened(tmp_path, PICTURES)
    book = CaseFinder(side, ("Patches",), 20.0)
    book.add_guesses()
    assert book.missing == (), book.reasons


SHARED = (
    HEAD
    + """

class First(nn.Module):
    def __init__(self, config: NetConfig):
        super().__init__()
        if (config.hidden_size + config.num_heads) % 5:
            raise ValueError("sizes do not fit")
        self.a = nn.Linear(config.hidden_size, 2)

    def forward(self, x):
        return self.a(x)


class Second(First):
    pass
"""
)


def test_own_settings_recipe_that_fitted_is_tried_first_for_the_next_class(tmp_path: Path) -> None:
    side = opened(tmp_path, SHARED)
    # A sixteenth, 48 and 12, is what fits; the tiny 32 and 4 do not.
    book = CaseFinder(side, ("First", "Second"), 20.0)
    book.add_guesses()
    assert book.missing == (), book.reasons
    made = side.namespace()["made"]
    assert isinstance(made, list)
    # The first model tries both, the second only the one that fitted.
    assert made.count(32) == 2
    assert made[-1] == 48


INNER = """
from torch import nn


class BackboneConfig:
    def __init__(self, hidden_sizes=(256, 512), out_features=None, stage_names=None):
        self.stage_names = ["stem", "stage1", "stage2"]
        self.hidden_sizes = hidden_sizes
        self.out_features = out_features or ["stage2"]

    def to_dict(self):
        return {"hidden_sizes": self.hidden_sizes, "out_features": self.out_features}


class NetConfig:
    def __init__(self, backbone_config=None, hidden_size=768):
        given = BackboneConfig() if backbone_config is None else BackboneConfig(**backbone_config)
        self.backbone_config = given
        self.hidden_size = hidden_size


class Heads(nn.Module):
    def __init__(self, config: NetConfig):
        super().__init__()
        first, second = config.backbone_config.out_features
        sizes = config.backbone_config.hidden_sizes
        self.a = nn.Linear(config.hidden_size, sizes[0])
        self.b = nn.Linear(sizes[0], sizes[1])

    def forward(self, x):
        return self.b(self.a(x))
"""


def test_own_settings_inside_of_settings_are_small_and_have_all_stages(tmp_path: Path) -> None:
    side = opened(tmp_path, INNER)
    book = CaseFinder(side, ("Heads",), 20.0)
    book.add_guesses()
    assert book.missing == (), book.reasons
    with side.active():
        model = book.cases["Heads"][0].construction.build(side)
    assert (model.a.in_features, model.a.out_features, model.b.out_features) == (32, 8, 16)


ORDER = """
from torch import nn


class Norm(nn.Module): ...
class Loss(nn.Module): ...
class Base(nn.Module):
    def __init__(self):
        super().__init__()
        if isinstance(self, (Block, Net)):
            self.made = True
class Block(Base):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Norm() for _ in range(2)])
class Net(Base):
    def __init__(self):
        super().__init__()
        self.block = Block()
net = Net()
"""


def test_standings_count_what_a_class_holds_and_what_holds_it(tmp_path: Path) -> None:
    side = opened(tmp_path, ORDER)
    with side.active():
        found = standings(side.namespace(), ("Norm", "Loss", "Block", "Net"))
    assert {name: (item.holds, item.held_by) for name, item in found.items()} == {
        "Norm": (0, 2),
        "Loss": (0, 0),
        "Block": (1, 1),
        "Net": (2, 0),
    }
    with side.active():
        assert standings(side.namespace(), ("net", "Norm"))["net"].holds == 1


def test_tokens_of_a_text_have_no_meaning_but_the_last() -> None:
    from flodl_verify.inputs.rules.shipped_inputs import input_by_name

    class Config:
        vocab_size = 8

        def __init__(self) -> None:
            self.vocab_size = 8
            self.eos_token_id = 6
            self.pad_token_id = 0

    made = input_by_name("decoder_input_ids", Config(), None)
    assert isinstance(made, torch.Tensor)
    assert made.shape == (2, 7)
    assert made[:, -1].tolist() == [6, 6]
    assert set(made[:, :-1].flatten().tolist()) <= {1, 2, 3, 4, 5, 7}


BLOCK = """
from torch import nn


class NetConfig:
    def __init__(self, hidden_size=768):
        self.hidden_size = hidden_size
        self._attn_implementation = None


class Block(nn.Module):
    def __init__(self, config: NetConfig):
        super().__init__()
        self.config = config
        self.a = nn.Linear(config.hidden_size, 4)

    def forward(self, x):
        return {"eager": self.a}[self.config._attn_implementation](x)


class Model(nn.Module):
    config_class = NetConfig

    def __init__(self, config: NetConfig):
        super().__init__()
        assert config._attn_implementation is None
        config._attn_implementation = "eager"
        self.block = Block(config)

    def forward(self, x):
        return self.block(x)
"""


def test_own_settings_of_a_block_say_how_it_attends(tmp_path: Path) -> None:
    side = opened(tmp_path, BLOCK)
    book = CaseFinder(side, ("Block",), 20.0)
    book.add_guesses()
    assert book.missing == (), book.reasons


def test_own_settings_of_a_model_leave_the_attention_to_it(tmp_path: Path) -> None:
    side = opened(tmp_path, BLOCK)
    book = CaseFinder(side, ("Model",), 20.0)
    book.add_guesses()
    assert book.missing == (), book.reasons
