"""The model families of `benchmarks/world.py`: small random configurations and how to call them.

A family is one file of a library.  It is ported by itself; the rest of the library is shared by original
and port.  Nothing is downloaded: every weight is drawn, every size is small.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, final

import torch

BATCH, LENGTH, IMAGE = 2, 7, 32
VOCABULARY = 60
# Settings that mean the same in many families; a family takes those that its configuration has.
SMALL: dict[str, Any] = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "d_model": 32, "dim": 32, "n_embd": 32, "embed_dim": 16,
    "embedding_size": 32, "num_hidden_layers": 2, "n_layers": 2, "n_layer": 2, "num_layers": 2,
    "encoder_layers": 2, "decoder_layers": 2, "num_decoder_layers": 2, "num_attention_heads": 4,
    "n_heads": 4, "n_head": 4, "num_heads": 4, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "d_kv": 8, "intermediate_size": 48, "hidden_dim": 48,
    "n_inner": 48, "d_ff": 48, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "ffn_dim": 48,
    "max_position_embeddings": 64, "n_positions": 64, "image_size": IMAGE, "patch_size": 8,
    "num_labels": 3, "pad_token_id": 1, "bos_token_id": 2, "eos_token_id": 3, "decoder_start_token_id": 2,
    "sep_token_id": 3, "word_embed_proj_dim": 32, "type_vocab_size": 2, "num_local_experts": 4,
    "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "decoder_hidden_size": 32,
}  # fmt: skip


@final
@dataclass(frozen=True, kw_only=True)
class Shape:
    """How large one call is: samples, tokens or frames, pixels a side."""

    batch: int = BATCH
    length: int = LENGTH
    image: int = IMAGE


@final
@dataclass(frozen=True, kw_only=True)
class Family:
    """One model class of one file of a library.

    Attributes:
        name: how the table calls it.
        module: the file, as a module.
        model: the class or, in timm and torchvision, the function that makes one.
        inputs: makes the keyword arguments of a call from its shape and the configuration.
        settings: settings besides the small ones.
        parts: settings of the configurations inside the configuration.
        generates: the model has `generate`.
        differentiable: the model takes inputs that want gradients.
    """

    name: str
    module: str
    model: str
    inputs: Callable[[Shape, Any], dict[str, Any]]
    settings: dict[str, Any] = field(default_factory=dict)
    parts: dict[str, dict[str, Any]] = field(default_factory=dict)
    generates: bool = False
    differentiable: bool = True

    @property
    def library(self) -> str:
        """Return the library that the file belongs to."""
        return self.module.partition(".")[0]

    def configuration(self) -> Any:
        """Return a new small configuration, `None` for a library that has none."""
        if self.library != "transformers":
            return None
        home = importlib.import_module(self.module)
        kind = getattr(home, self.model).config_class
        parts = {
            name: self._small(_part(kind, name), own).to_dict() for name, own in self.parts.items()
        }
        return self._small(kind, {**self.settings, **parts}, inner=bool(parts))

    def _small(self, kind: Any, own: dict[str, Any], *, inner: bool = False) -> Any:
        named = set(inspect.signature(kind.__init__).parameters) | set(kind.attribute_map)
        shared = {
            "num_labels",
            "pad_token_id",
            "bos_token_id",
            "eos_token_id",
            "decoder_start_token_id",
        }
        wanted = {} if inner else {k: v for k, v in SMALL.items() if k in named | shared}
        return kind(**{**wanted, **own})

    def build(self, home: Any, configuration: Any) -> torch.nn.Module:
        """Return a new model of the file that is given, the original or its port."""
        torch.manual_seed(0)
        made = getattr(home, self.model)
        model: torch.nn.Module = (
            made(**self.settings) if configuration is None else made(configuration)
        )
        for parameter in model.parameters():
            # Some start at zero or one, where a lost factor or term cannot be seen.
            with torch.no_grad():
                parameter.add_(torch.randn_like(parameter) * 0.02)
        return model


def _part(kind: Any, name: str) -> Any:
    """Return the class of a configuration inside another one."""
    subs = getattr(kind, "sub_configs", {})
    if name not in subs:
        raise SystemExit(f"world: {kind.__name__} has no configuration `{name}`; it has {[*subs]}")
    return subs[name]


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(11)


def noise(*sizes: int) -> torch.Tensor:
    """Return fixed noise of a shape."""
    return torch.randn(*sizes, generator=_generator())


def tokens(shape: Shape, *, least: int = 4, most: int = VOCABULARY) -> torch.Tensor:
    """Return token numbers `[batch, length]` that are no special ones."""
    return torch.randint(least, most, (shape.batch, shape.length), generator=_generator())


def _mask(shape: Shape) -> torch.Tensor:
    mask = torch.ones(shape.batch, shape.length, dtype=torch.long)
    mask[-1, -2:] = 0
    return mask


def text(shape: Shape, _: Any) -> dict[str, Any]:
    """Return tokens with the last ones of a sample masked."""
    return {"input_ids": tokens(shape), "attention_mask": _mask(shape)}


def classified(shape: Shape, configuration: Any) -> dict[str, Any]:
    """Return text with one label a sample."""
    return {**text(shape, configuration), "labels": torch.arange(shape.batch) % 3}


def left(shape: Shape, configuration: Any) -> dict[str, Any]:
    """Return text with each token as its label."""
    found = text(shape, configuration)
    return {**found, "labels": found["input_ids"].clone()}


def right(shape: Shape, configuration: Any) -> dict[str, Any]:
    """Return text for an encoder, and labels for a decoder."""
    found = text(shape, configuration)
    labels = tokens(Shape(batch=shape.batch, length=shape.length - 2))
    return {**found, "labels": labels}


def both(shape: Shape, configuration: Any) -> dict[str, Any]:
    """Return text for an encoder and for a decoder."""
    decoder = tokens(Shape(batch=shape.batch, length=shape.length - 2))
    return {**text(shape, configuration), "decoder_input_ids": decoder}


def images(shape: Shape, _: Any) -> dict[str, Any]:
    """Return images of three channels."""
    return {"pixel_values": noise(shape.batch, 3, shape.image, shape.image)}


def labelled_images(shape: Shape, configuration: Any) -> dict[str, Any]:
    """Return images with one label each."""
    return {**images(shape, configuration), "labels": torch.arange(shape.batch) % 3}


def masked_images(shape: Shape, configuration: Any) -> dict[str, Any]:
    """Return images with the noise by which an autoencoder chooses what it masks."""
    patches = (shape.image // 8) ** 2
    return {**images(shape, configuration), "noise": noise(shape.batch, patches)}


def segmented(shape: Shape, configuration: Any) -> dict[str, Any]:
    """Return images with one label a pixel."""
    size = (shape.batch, shape.image, shape.image)
    return {
        **images(shape, configuration),
        "labels": torch.randint(0, 3, size, generator=_generator()),
    }


def boxed(shape: Shape, configuration: Any) -> dict[str, Any]:
    """Return images with boxes and their classes."""
    box = {
        "class_labels": torch.tensor([1, 0]),
        "boxes": torch.tensor([[0.4, 0.4, 0.3, 0.2], [0.6, 0.5, 0.2, 0.4]]),
    }
    found = images(shape, configuration)
    mask = torch.ones(shape.batch, shape.image, shape.image, dtype=torch.long)
    mask[-1, :, -4:] = 0
    labels = [{key: value.clone() for key, value in box.items()} for _ in range(shape.batch)]
    return {**found, "pixel_mask": mask, "labels": labels}


def waves(shape: Shape, _: Any) -> dict[str, Any]:
    """Return sounds, the last one shorter."""
    length = 60 * shape.length
    mask = torch.ones(shape.batch, length, dtype=torch.long)
    mask[-1, -60:] = 0
    return {"input_values": noise(shape.batch, length), "attention_mask": mask}


def spoken(shape: Shape, configuration: Any) -> dict[str, Any]:
    """Return sounds with their letters."""
    labels = tokens(Shape(batch=shape.batch, length=3), most=30)
    return {**waves(shape, configuration), "labels": labels}


def spectra(shape: Shape, configuration: Any) -> dict[str, Any]:
    """Return features of sounds for an encoder, and text for a decoder."""
    bins = getattr(configuration, "num_mel_bins", 8)
    frames = 2 * configuration.max_source_positions
    labels = tokens(Shape(batch=shape.batch, length=shape.length))
    return {"input_features": noise(shape.batch, bins, frames), "labels": labels}


def image_and_text(shape: Shape, configuration: Any) -> dict[str, Any]:
    """Return as many images as texts."""
    return {**text(shape, configuration), **images(shape, configuration)}


def image(shape: Shape, _: Any) -> dict[str, Any]:
    """Return the one argument of models of timm and torchvision."""
    return {"x": noise(shape.batch, 3, shape.image, shape.image)}


def _of(
    name: str,
    model: str,
    inputs: Any,
    *,
    generates: bool = False,
    parts: Any = None,
    **settings: Any,
) -> Family:
    return Family(
        name=name,
        module=f"transformers.models.{name}.modeling_{name}",
        model=model,
        inputs=inputs,
        settings=settings,
        parts=parts or {},
        generates=generates,
        differentiable=inputs
        is not spoken,  # in train mode they set `requires_grad` of it themselves
    )


def _timm(file: str, model: str, **settings: Any) -> Family:
    return Family(
        name=f"timm {model}", module=f"timm.models.{file}", model=model, inputs=image, settings=settings
    )  # fmt: skip


def _vision(file: str, model: str, **settings: Any) -> Family:
    return Family(
        name=f"torchvision {model}", module=f"torchvision.models.{file}", model=model, inputs=image,
        settings=settings,
    )  # fmt: skip


_DEBERTA_V3 = {
    "relative_attention": True, "position_buckets": 8, "norm_rel_ebd": "layer_norm", "share_att_key": True,
    "pos_att_type": "p2c|c2p", "position_biased_input": False, "max_relative_positions": -1,
    "type_vocab_size": 0, "pooler_hidden_size": 32,
}  # fmt: skip
_SPEECH = {
    "conv_dim": (16, 16), "conv_kernel": (10, 3), "conv_stride": (5, 2), "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2, "layerdrop": 0.3,
    "mask_time_length": 2, "mask_time_min_masks": 1, "vocab_size": 30, "pad_token_id": 0,
}  # fmt: skip
_DETECTION = {
    "use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None,
    "backbone_config": {
        "model_type": "resnet", "embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1],
        "layer_type": "basic", "out_features": ["stage2"],
    },
    "num_queries": 5, "auxiliary_loss": True,
}  # fmt: skip
_CLIP_PARTS = {"text_config": {"projection_dim": 16}, "vision_config": {"projection_dim": 16}}

FAMILIES: tuple[Family, ...] = (
    _of("bert", "BertForSequenceClassification", classified),
    _of("roberta", "RobertaForMaskedLM", left),
    _of("albert", "AlbertForSequenceClassification", classified, inner_group_num=2),
    _of("electra", "ElectraForTokenClassification", left, num_labels=VOCABULARY),
    _of("distilbert", "DistilBertForMaskedLM", left),
    _of("deberta_v2", "DebertaV2ForSequenceClassification", classified, **_DEBERTA_V3),
    _of("longformer", "LongformerForMaskedLM", left, attention_window=4),
    _of("big_bird", "BigBirdForMaskedLM", left, block_size=4, num_random_blocks=1),
    _of("mobilebert", "MobileBertForMaskedLM", left, true_hidden_size=16, intra_bottleneck_size=16),
    _of("layoutlm", "LayoutLMForMaskedLM", left),
    _of("fnet", "FNetForMaskedLM", lambda s, c: {k: v for k, v in left(s, c).items() if "mask" not in k}),
    _of("xlnet", "XLNetForSequenceClassification", classified, d_inner=48),
    _of("funnel", "FunnelForMaskedLM", left, block_sizes=[1, 1], num_decoder_layers=1, d_head=8, d_inner=48),
    _of("t5", "T5ForConditionalGeneration", right, generates=True, relative_attention_num_buckets=8),
    _of("bart", "BartForConditionalGeneration", right, generates=True, encoder_layerdrop=0.2),
    _of("pegasus", "PegasusForConditionalGeneration", right, generates=True),
    _of("m2m_100", "M2M100ForConditionalGeneration", right, generates=True),
    _of("prophetnet", "ProphetNetForConditionalGeneration", right, generates=True, num_encoder_layers=2,
        num_encoder_attention_heads=4, num_decoder_attention_heads=4),
    _of("gpt2", "GPT2LMHeadModel", left, generates=True),
    _of("gpt_neo", "GPTNeoForCausalLM", left, generates=True, attention_types=[[["global", "local"], 1]]),
    _of("gpt_neox", "GPTNeoXForCausalLM", left, generates=True),
    _of("gptj", "GPTJForCausalLM", left, generates=True, rotary_dim=4),
    _of("opt", "OPTForCausalLM", left, generates=True, layerdrop=0.2),
    _of("bloom", "BloomForCausalLM", left, generates=True),
    _of("llama", "LlamaForCausalLM", left, generates=True),
    _of("mistral", "MistralForCausalLM", left, generates=True, sliding_window=4),
    _of("mixtral", "MixtralForCausalLM", left, generates=True, output_router_logits=True),
    _of("qwen2", "Qwen2ForCausalLM", left, generates=True),
    _of("gemma2", "Gemma2ForCausalLM", left, generates=True, sliding_window=4),
    _of("phi", "PhiForCausalLM", left, generates=True),
    _of("falcon", "FalconForCausalLM", left, generates=True),
    _of("mamba", "MambaForCausalLM", text, generates=True, state_size=4, time_step_rank=4),
    _of("vit", "ViTForImageClassification", labelled_images),
    _of("beit", "BeitForImageClassification", labelled_images, out_indices=[1, 2]),
    _of("dinov2", "Dinov2ForImageClassification", labelled_images),
    _of("vit_mae", "ViTMAEForPreTraining", masked_images, decoder_num_attention_heads=4,
        decoder_num_hidden_layers=2, decoder_intermediate_size=48),
    _of("swin", "SwinForImageClassification", labelled_images, patch_size=4, depths=[2, 1], num_heads=[2, 4],
        window_size=4),
    _of("convnext", "ConvNextForImageClassification", labelled_images, hidden_sizes=[16, 32], depths=[1, 2],
        num_stages=2, drop_path_rate=0.2),
    _of("segformer", "SegformerForSemanticSegmentation", segmented, depths=[1, 1], hidden_sizes=[16, 32],
        num_encoder_blocks=2, sr_ratios=[2, 1], patch_sizes=[7, 3], strides=[4, 2],
        num_attention_heads=[2, 4], mlp_ratios=[2, 2]),
    _of("mobilevit", "MobileViTForImageClassification", labelled_images, hidden_sizes=[16, 24, 32],
        neck_hidden_sizes=[8, 8, 16, 16, 24, 32, 32], patch_size=2),
    _of("detr", "DetrForObjectDetection", boxed, **_DETECTION),
    _of("clip", "CLIPModel", image_and_text, parts=_CLIP_PARTS, projection_dim=16),
    _of("wav2vec2", "Wav2Vec2ForCTC", spoken, **_SPEECH),
    _of("hubert", "HubertForCTC", spoken, **_SPEECH),
    _of("whisper", "WhisperForConditionalGeneration", spectra, num_mel_bins=8, max_source_positions=20,
        max_target_positions=32, encoder_layerdrop=0.2, decoder_layerdrop=0.2),
    _timm("vision_transformer", "VisionTransformer", img_size=IMAGE, patch_size=8, embed_dim=32, depth=2,
          num_heads=4, num_classes=3, drop_path_rate=0.2),
    _timm("resnet", "resnet18", num_classes=3),
    _timm("convnext", "ConvNeXt", depths=(1, 1, 1, 1), dims=(8, 16, 16, 24), num_classes=3,
          drop_path_rate=0.2),
    _timm("mlp_mixer", "MlpMixer", img_size=IMAGE, patch_size=8, embed_dim=32, num_blocks=2, num_classes=3),
    _timm("swin_transformer", "SwinTransformer", img_size=IMAGE, patch_size=4, embed_dim=16, depths=(2, 2),
          num_heads=(2, 4), window_size=4, num_classes=3),
    _vision("resnet", "resnet18", num_classes=3),
    _vision("densenet", "DenseNet", growth_rate=4, block_config=(2, 2), num_init_features=8, num_classes=3,
            memory_efficient=False),
    _vision("mobilenetv3", "mobilenet_v3_small", num_classes=3),
    _vision("vision_transformer", "VisionTransformer", image_size=IMAGE, patch_size=8, num_layers=2,
            num_heads=4, hidden_dim=32, mlp_dim=48, num_classes=3),
    _vision("swin_transformer", "SwinTransformer", patch_size=[4, 4], embed_dim=16, depths=[2, 2],
            num_heads=[2, 4], window_size=[4, 4], num_classes=3),
)  # fmt: skip
