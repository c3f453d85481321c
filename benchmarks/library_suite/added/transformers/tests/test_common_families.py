"""The common tests of transformers on small models of some families.

The source distribution of transformers has the common tests of all models, `test_modeling_common.py`, but
not the folders that say which models. These say it for five families.
"""

import unittest

import torch
from transformers import AutoConfig
from transformers.models import bert, gpt2, llama, t5, vit

from tests.generation.test_utils import GenerationTesterMixin
from tests.test_modeling_common import ModelTesterMixin, floats_tensor, ids_tensor

BATCH, LENGTH, IMAGE, VOCABULARY = 3, 7, 32, 99


class Tester:
    """A small configuration and the inputs of a call, as the common tests take them."""

    batch_size, seq_length, encoder_seq_length, image_size, patch_size = (
        BATCH,
        LENGTH,
        LENGTH,
        IMAGE,
        8,
    )
    hidden_size, num_hidden_layers, num_attention_heads = 32, 2, 4
    is_training, num_choices = True, 2

    def __init__(self, kind: str, settings: dict[str, int]) -> None:
        self._kind = kind
        self._settings = settings
        if kind == "vit":
            self.seq_length = self.encoder_seq_length = (IMAGE // 8) ** 2 + 1

    def get_config(self) -> AutoConfig:
        return AutoConfig.for_model(self._kind, **self._settings)

    def _inputs(self) -> dict[str, torch.Tensor]:
        if self._kind == "vit":
            return {"pixel_values": floats_tensor([BATCH, 3, IMAGE, IMAGE])}
        words = {
            "input_ids": ids_tensor([BATCH, LENGTH], VOCABULARY).clamp(4),
            "attention_mask": torch.ones(BATCH, LENGTH, dtype=torch.long),
        }
        if self._kind == "t5":
            words["decoder_input_ids"] = ids_tensor([BATCH, LENGTH], VOCABULARY).clamp(4)
            words["decoder_attention_mask"] = torch.ones(BATCH, LENGTH, dtype=torch.long)
        return words

    def prepare_config_and_inputs_for_common(self) -> tuple[AutoConfig, dict[str, torch.Tensor]]:
        return self.get_config(), self._inputs()

    def prepare_config_and_inputs_for_model_class(self, _kind: type) -> tuple:
        return self.prepare_config_and_inputs_for_common()


COMMON = {"vocab_size": VOCABULARY, "pad_token_id": 1, "bos_token_id": 2, "eos_token_id": 3}
WIDE = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 37,
}


class BertTest(ModelTesterMixin, GenerationTesterMixin, unittest.TestCase):
    all_model_classes = (
        bert.BertModel, bert.BertLMHeadModel, bert.BertForMaskedLM, bert.BertForMultipleChoice,
        bert.BertForNextSentencePrediction, bert.BertForQuestionAnswering,
        bert.BertForSequenceClassification, bert.BertForTokenClassification,
    )  # fmt: skip

    def setUp(self) -> None:  # noqa: N802
        self.model_tester = Tester("bert", {**COMMON, **WIDE, "max_position_embeddings": 64})


class GPT2Test(ModelTesterMixin, GenerationTesterMixin, unittest.TestCase):
    all_model_classes = (
        gpt2.GPT2Model, gpt2.GPT2LMHeadModel,
        gpt2.GPT2ForQuestionAnswering, gpt2.GPT2ForSequenceClassification,
        gpt2.GPT2ForTokenClassification,
    )  # fmt: skip

    def setUp(self) -> None:  # noqa: N802
        sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
        self.model_tester = Tester("gpt2", {**COMMON, **sizes})


class LlamaTest(ModelTesterMixin, GenerationTesterMixin, unittest.TestCase):
    test_pruning = test_head_masking = False
    all_model_classes = (
        llama.LlamaModel, llama.LlamaForCausalLM, llama.LlamaForSequenceClassification,
        llama.LlamaForQuestionAnswering, llama.LlamaForTokenClassification,
    )  # fmt: skip

    def setUp(self) -> None:  # noqa: N802
        sizes = {"num_key_value_heads": 2, "max_position_embeddings": 64}
        self.model_tester = Tester("llama", {**COMMON, **WIDE, **sizes})


class T5Test(ModelTesterMixin, GenerationTesterMixin, unittest.TestCase):
    is_encoder_decoder, test_pruning = True, False
    all_model_classes = (
        t5.T5Model,
        t5.T5ForConditionalGeneration,
        t5.T5ForQuestionAnswering,
    )

    def setUp(self) -> None:  # noqa: N802
        sizes = {"d_model": 32, "d_kv": 8, "d_ff": 37, "num_layers": 2, "num_heads": 4}
        start = {"decoder_start_token_id": 1, "relative_attention_num_buckets": 8}
        self.model_tester = Tester("t5", {**COMMON, **sizes, **start})


class ViTTest(ModelTesterMixin, unittest.TestCase):
    test_resize_embeddings = False
    all_model_classes = (vit.ViTModel, vit.ViTForImageClassification)

    def setUp(self) -> None:  # noqa: N802
        sizes = {"image_size": IMAGE, "patch_size": 8, "encoder_stride": 8}
        self.model_tester = Tester("vit", {**WIDE, **sizes})
