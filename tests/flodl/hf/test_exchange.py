"""Folders of transformers as checkpoints, and back: equal bits; what does not fit is named."""

import json
import shutil
import warnings

import pytest
import torch

import flodl
import flodl.hf
from flodl.checkpoint.contents import open_contents
from flodl.checkpoint.files import checkpoint_config
from flodl.checkpoint.store import write
from flodl.errors import CheckpointError
from flodl.hf.exchange import convert, export, fit, verify_export

pytestmark = pytest.mark.torch

FAMILIES = ["Bert", "Roberta", "DistilBert", "Albert", "XLMRoberta", "DebertaV2"]
HEADS = ["Model", "ForMaskedLM"] + [
    f"For{task}" for task in ("SequenceClassification", "TokenClassification", "QuestionAnswering")
]
SIZES = {
    "vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 2,
    "num_attention_heads": 4, "intermediate_size": 48, "max_position_embeddings": 64, "pad_token_id": 1,
    "num_labels": 3,
}  # fmt: skip
OF_DISTILBERT = {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48}


def model(library, family="Bert", head="ForMaskedLM", **more):
    torch.manual_seed(0)
    kind = getattr(library, f"{family}{head}")
    sizes = (
        SIZES if family != "DistilBert" else {"vocab_size": 60, "num_labels": 3, **OF_DISTILBERT}
    )
    if head == "ForQuestionAnswering":
        sizes = sizes | {"num_labels": 2}  # the first and the last token
    return kind(getattr(library, f"{family}Config")(**sizes | more))


def folder_of(made, path, **options):
    made.save_pretrained(path, **options)
    return path


def converted(folder, target, **options):
    files = sorted(folder.glob("*.safetensors"))
    return convert(folder / "config.json", files, target, **options)


def round_trip(library, family, head, tmp_path):
    made = model(library, family, head)
    source = folder_of(made, tmp_path / f"{family}{head}")
    file, target = tmp_path / f"{family}{head}.fdl", tmp_path / f"{family}{head}-back"
    done = converted(source, file)
    assert (done.architecture, done.renamed, done.dropped) == (type(made).__name__, (), ())
    twin = type(made)(made.config)
    report = flodl.load_checkpoint(file, twin)
    assert (report.missing, report.skipped, report.converted) == ((), (), ())
    export(file, source / "config.json", target)
    found = verify_export(file, target)
    assert found.equal
    assert (found.difference, found.folder.lines(), found.checkpoint.lines()) == (0.0, (), ())
    assert found.loaded_by == "AutoModel" + head.removeprefix("Model")
    loaded = getattr(library, found.loaded_by).from_pretrained(target)
    for one in (twin, loaded):
        for name, each in made.state_dict().items():
            assert torch.equal(one.state_dict()[name], each), name
    assert (source / "model.safetensors").read_bytes() == (
        target / "model.safetensors"
    ).read_bytes()


def test_round_trip_of_bert_is_exact(library, tmp_path):
    round_trip(library, "Bert", "ForSequenceClassification", tmp_path)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*torch.jit.script")  # of DeBERTa's file
@pytest.mark.parametrize("family", FAMILIES)
def test_round_trip_of_a_family_is_exact(library, tmp_path, family):
    for head in HEADS:
        round_trip(library, family, head, tmp_path)


def test_convert_shards_in_half_precision_keeps_bits_and_ties(library, tmp_path):
    made = model(library).to(torch.bfloat16)
    source = folder_of(made, tmp_path / "bert", max_shard_size="20KB")
    assert len(list(source.glob("*.safetensors"))) > 2
    converted(source, tmp_path / "m.fdl")
    assert json.loads(checkpoint_config(tmp_path / "m.fdl"))["architectures"] == [
        "BertForMaskedLM"
    ]
    contents = open_contents(tmp_path / "m.fdl")
    tied = json.loads(contents.metadata["fdl.tied"])
    assert "cls.predictions.decoder.weight" in {*tied, *tied.values()}
    assert {each.dtype for each in contents.entries()} == {"BF16"}
    export(tmp_path / "m.fdl", source / "config.json", tmp_path / "out")
    found = verify_export(tmp_path / "m.fdl", tmp_path / "out")
    assert (found.equal, found.outputs) == (True, 1)
    stored = open_contents(tmp_path / "out" / "model.safetensors").entries()
    assert "cls.predictions.decoder.weight" not in {each.name for each in stored}


@pytest.mark.slow
def test_convert_for_a_switched_model_loads_by_name(library, tmp_path):
    made = model(library, head="ForSequenceClassification")
    converted(folder_of(made, tmp_path / "bert"), tmp_path / "m.fdl")
    torch.manual_seed(1)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the porter keeps")
        flows = flodl.hf.graph(type(made)(made.config)).eval()
    assert flodl.load_checkpoint(tmp_path / "m.fdl", flows).missing == ()
    tokens = torch.arange(4, 18).view(2, 7)
    assert torch.equal(flows(tokens).logits, made.eval()(tokens).logits)


def test_export_of_a_training_run_has_its_weights(library, tmp_path):
    made = model(library, head="ForSequenceClassification")
    session = flodl.Trainer.setup(made, lambda weights: torch.optim.AdamW(weights, lr=1e-2))
    session.backward(made(torch.arange(4, 18).view(2, 7)).logits.square().sum())
    assert session.step()
    session.save(tmp_path / "run.fdl", epoch=1)
    made.config.architectures = ["BertForSequenceClassification"]
    made.config.save_pretrained(tmp_path / "bert")
    export(tmp_path / "run.fdl", tmp_path / "bert" / "config.json", tmp_path / "out")
    loaded = type(made).from_pretrained(tmp_path / "out")
    for name, each in made.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], each), name


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("GPT2LMHead", {"n_embd": 32, "n_layer": 2, "n_head": 4, "eos_token_id": 3}),
        ("BartForSequenceClassification", {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1,
            "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 48,
            "decoder_ffn_dim": 48, "max_position_embeddings": 64}),
        ("ViTForImageClassification", {"hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 48,
            "num_attention_heads": 4, "image_size": 32, "patch_size": 8}),
        ("Wav2Vec2", {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
            "intermediate_size": 48, "conv_dim": (8, 8), "conv_stride": (2, 2), "conv_kernel": (3, 3),
            "num_feat_extract_layers": 2, "num_conv_pos_embeddings": 16,
            "num_conv_pos_embedding_groups": 2}),
        ("WhisperForConditionalGeneration", {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1,
            "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 48,
            "decoder_ffn_dim": 48, "num_mel_bins": 8, "max_source_positions": 12,
            "max_target_positions": 16, "pad_token_id": 1, "bos_token_id": 2, "eos_token_id": 3,
            "decoder_start_token_id": 2}),
    ],
)  # fmt: skip
@pytest.mark.slow
def test_verify_export_generates_inputs_for_other_kinds(library, tmp_path, kind, settings):
    torch.manual_seed(0)
    family = kind.partition("For")[0].removesuffix("LMHead")
    config = getattr(library, f"{family}Config")(vocab_size=60, **settings)
    made = getattr(library, kind if "For" in kind else f"{kind}Model")(config)
    source = folder_of(made, tmp_path / "it")
    converted(source, tmp_path / "m.fdl")
    assert verify_export(tmp_path / "m.fdl", source).difference == 0


# ---- names -------------------------------------------------------------------------------------------


def test_fit_of_former_names_changes_and_lists_them(library):
    made = model(library)
    names = {name: name for name in made.state_dict()}
    for name in names:
        old = name.replace("LayerNorm.weight", "LayerNorm.gamma")
        names[name] = old.replace("LayerNorm.bias", "LayerNorm.beta")
    values = {names[name]: each for name, each in made.state_dict().items()}
    values["bert.embeddings.position_ids"] = torch.arange(64).view(1, 64)
    fitted = fit(values, made)
    assert fitted.keys.lines() == ()
    assert fitted.dropped == ("bert.embeddings.position_ids",)
    assert fitted.renamed[0] == (
        "bert.embeddings.LayerNorm.gamma",
        "bert.embeddings.LayerNorm.weight",
    )
    assert len(fitted.renamed) == 12
    assert all(torch.equal(fitted.values[name], each) for name, each in made.state_dict().items())


@pytest.mark.parametrize(
    ("stored", "wanted"), [("ForMaskedLM", "Model"), ("Model", "ForMaskedLM")]
)
def test_fit_of_a_base_model_takes_or_gives_its_prefix(library, stored, wanted):
    options = {"add_pooling_layer": False}
    torch.manual_seed(0)
    headed = model(library)
    base = library.BertModel(headed.config, **options)
    pair = {"ForMaskedLM": headed, "Model": base}
    fitted = fit(pair[stored].state_dict(), pair[wanted])
    assert len(fitted.renamed) == len(base.state_dict())
    lines = fitted.keys.lines()
    assert lines
    word = "unexpected" if wanted == "Model" else "missing"
    assert all(line.startswith(f"{word}: cls.") for line in lines)


def test_fit_of_two_names_for_one_is_refused(library):
    made = model(library)
    values = dict(made.state_dict())
    values["bert.embeddings.LayerNorm.gamma"] = values["bert.embeddings.LayerNorm.weight"]
    with pytest.raises(CheckpointError, match="would both become"):
        fit(values, made)


def test_export_of_tied_weights_that_differ_is_refused(library, tmp_path):
    made = model(library)
    source = folder_of(made, tmp_path / "bert")
    values = {name: each.clone() for name, each in made.state_dict().items()}
    values["cls.predictions.decoder.weight"][3, 3] += 1
    write(tmp_path / "m.fdl", values, {})
    with pytest.raises(
        CheckpointError, match="one weight in this model, and have different values"
    ):
        export(tmp_path / "m.fdl", source / "config.json", tmp_path / "out")
    assert not (tmp_path / "out").exists()


# ---- faults ------------------------------------------------------------------------------------------


def spoilt(made, tmp_path, change):
    """Return a checkpoint of a model whose tensors were changed, and the folder of the model."""
    source = folder_of(made, tmp_path / "bert")
    values = {name: each.clone() for name, each in made.state_dict().items()}
    change(values)
    write(tmp_path / "m.fdl", values, {})
    return tmp_path / "m.fdl", source


NAME = "bert.pooler.dense.bias"
FAULTS = {
    "missing": (lambda values: values.pop(NAME), f"missing: {NAME}"),
    "unexpected": (lambda values: values.update(extra=torch.ones(2)), "unexpected: extra"),
    "other shape": (
        lambda values: values.update({NAME: torch.ones(9)}),
        f"other shape: {NAME}: shape [9] in the file, [32] in BertForSequenceClassification",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_export_of_weights_that_do_not_fit_names_them(library, tmp_path, fault):
    change, line = FAULTS[fault]
    file, source = spoilt(model(library, head="ForSequenceClassification"), tmp_path, change)
    with pytest.raises(
        CheckpointError, match="do not fit BertForSequenceClassification"
    ) as caught:
        export(file, source / "config.json", tmp_path / "out")
    assert caught.value.differences == (line,)
    assert not (tmp_path / "out").exists()
    found = verify_export(file, source)
    assert found.checkpoint.lines() == (line,)
    # A name that the class lacks does not change what it computes.
    assert found.equal == (fault == "unexpected")


def test_export_may_drop_unexpected_names_alone(library, tmp_path):
    made = model(library, head="ForSequenceClassification")
    file, source = spoilt(made, tmp_path, lambda values: values.update(extra=torch.ones(2)))
    done = export(file, source / "config.json", tmp_path / "out", allow_unexpected=True)
    assert done.dropped == ("extra",)
    assert verify_export(file, tmp_path / "out").equal
    shutil.rmtree(source)
    file, source = spoilt(made, tmp_path, lambda values: values.pop(NAME))
    with pytest.raises(CheckpointError):
        export(file, source / "config.json", tmp_path / "again", allow_unexpected=True)


def test_verify_export_with_one_other_value_gives_the_difference(library, tmp_path):
    made = model(library, head="ForSequenceClassification")
    file, source = spoilt(made, tmp_path, lambda values: values["classifier.bias"].add_(0.5))
    found = verify_export(file, source)
    assert not found.equal
    assert found.difference == pytest.approx(0.5)


def test_verify_export_with_a_value_that_is_no_number_is_not_equal(library, tmp_path):
    made = model(library, head="ForSequenceClassification")
    file, source = spoilt(
        made, tmp_path, lambda values: values["classifier.bias"].fill_(float("nan"))
    )
    found = verify_export(file, source)
    assert (found.equal, found.difference) == (False, None)


def test_verify_export_names_what_the_folder_lacks(library, tmp_path):
    made = model(library, head="ForSequenceClassification")
    source = folder_of(made, tmp_path / "bert")
    converted(source, tmp_path / "m.fdl")
    values = {k: v for k, v in made.state_dict().items() if k != "classifier.bias"}
    values["bert.pooler.dense.bias"] = torch.ones(9)
    values["extra"] = torch.ones(2)
    write(source / "model.safetensors", values, {})
    found = verify_export(tmp_path / "m.fdl", source)
    assert not found.equal
    assert found.folder.missing == ("classifier.bias",)
    assert found.folder.unexpected == ("extra",)
    assert found.folder.other_shape == ("bert.pooler.dense.bias",)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"architectures": None}, "does not name a class"),
        ({"architectures": ["BertForDreams"]}, "'BertForDreams', which transformers .* does not have"),
        ({"model_type": "dreams"}, "transformers cannot read"),
        ({"num_attention_heads": 5}, "BertForMaskedLM cannot be built"),
    ],
    ids=["nameless", "unknown", "type", "heads"],
)  # fmt: skip
def test_convert_with_an_unusable_configuration_says_what_is_wrong(
    library, tmp_path, change, words
):
    source = folder_of(model(library), tmp_path / "bert")
    settings = json.loads((source / "config.json").read_text()) | change
    (source / "config.json").write_text(json.dumps(settings))
    with pytest.raises(flodl.hf.HuggingFaceError, match=words):
        converted(source, tmp_path / "m.fdl")
    assert not (tmp_path / "m.fdl").exists()
