"""Models of transformers as flow graphs: small random configurations, no network."""

import copy
import json
import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch

import flodl
import flodl.hf
from tests.flodl.hf.tiny import gpt2

pytestmark = [pytest.mark.torch, pytest.mark.slow]
ROOT = Path(__file__).parents[3]
SIZES = {
    "vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 48, "num_labels": 3,
}  # fmt: skip
TOKENS = torch.arange(4, 18).view(2, 7)


@pytest.fixture
def plain(library):
    torch.manual_seed(0)
    return library.BertForSequenceClassification(library.BertConfig(**SIZES)).eval()


def switched(model):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the porter keeps")
        return flodl.hf.graph(model)


def test_graph_bert_keeps_object_keys_and_values(plain):
    expected, keys = plain(input_ids=TOKENS).logits, list(plain.state_dict())
    weights = [id(each) for each in plain.parameters()]
    model = switched(plain)
    assert model is plain
    assert list(model.state_dict()) == keys
    assert [id(each) for each in model.parameters()] == weights
    assert torch.equal(model(input_ids=TOKENS).logits, expected)
    assert switched(model) is model


def test_graph_train_mode_gives_equal_gradients(plain):
    twin = switched(copy.deepcopy(plain))
    for model in (plain.train(), twin.train()):
        torch.manual_seed(3)
        model(input_ids=TOKENS, labels=torch.tensor([0, 2])).loss.backward()
    for one, other in zip(plain.parameters(), twin.parameters(), strict=True):
        assert torch.equal(one.grad, other.grad)


def test_graph_saved_model_loads_with_difference_zero(library, plain, tmp_path):
    expected = plain(input_ids=TOKENS).logits
    switched(plain).save_pretrained(tmp_path)
    loaded = library.BertForSequenceClassification.from_pretrained(tmp_path).eval()
    assert torch.equal(loaded(input_ids=TOKENS).logits, expected)
    assert torch.equal(switched(loaded)(input_ids=TOKENS).logits, expected)


def test_graph_model_copies_and_pickles(plain):
    model = switched(plain)
    expected = model(input_ids=TOKENS).logits
    for made in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(made(input_ids=TOKENS).logits, expected)


def test_graph_view_gives_the_value_of_a_hook(plain):
    model, seen = switched(plain), []
    view = flodl.view(model)
    model.bert.pooler.register_forward_hook(lambda _m, _i, output: seen.append(output))
    with view.capture("bert.pooler*") as cache:
        model(input_ids=TOKENS)
    assert any(
        isinstance(value, torch.Tensor) and torch.equal(value, seen[0])
        for value in dict(cache).values()
    )


def test_graph_gpt2_generates_the_same_tokens(library):
    model = gpt2(library).eval()
    expected = model.generate(TOKENS, max_new_tokens=5, do_sample=False)
    assert torch.equal(
        switched(model).generate(TOKENS, max_new_tokens=5, do_sample=False), expected
    )


def test_graph_gpt2_gives_losses_while_transformers_tells_what_it_takes(ports):
    # In another process: in this one, transformers may have told it before.
    code = (
        "from tests.hugging_face import transformers; library = transformers();"
        "import flodl.hf; from tests.flodl.hf.tiny import gpt2; import torch;"
        "model = flodl.hf.graph(gpt2(library)); x = torch.ones(2, 5, dtype=torch.long);"
        "print([model(input_ids=x, labels=x).loss.dim() for _ in range(3)])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env={**os.environ, "FLODL_CACHE_DIR": str(ports)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == "[0, 0, 0]\n", done.stderr


def test_port_bert_is_proved_and_importable(library):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert flodl.hf.port("bert").BertModel.__module__ == "flodl.hf.ported.modeling_bert"


def test_port_is_made_again_after_a_change_of_the_porter(library, monkeypatch):
    made = []
    original = flodl.hf.cache._port
    monkeypatch.setattr(flodl.hf.cache, "_port", lambda *a: made.append(a) or original(*a))
    for state, count in ((b"one", 1), (b"one", 1), (b"two", 2)):
        monkeypatch.setattr(flodl.hf.cache, "_porter_state", lambda state=state: state)
        flodl.hf.cache.ported("transformers.models.vit.modeling_vit")
        assert len(made) == count


def test_port_after_a_change_of_the_cache_folder_is_found_there(library, monkeypatch, tmp_path):
    flodl.hf.cache.ported("transformers.models.vit.modeling_vit")
    monkeypatch.setenv("FLODL_CACHE_DIR", str(tmp_path))
    module, _ = flodl.hf.cache.ported("transformers.models.splinter.modeling_splinter")
    assert module.__file__.startswith(str(tmp_path))


def test_port_unknown_family_names_near_ones(library):
    with pytest.raises(flodl.hf.HuggingFaceError, match=r"did you mean .*bert"):
        flodl.hf.port("brt")


def test_graph_other_module_is_refused_unchanged(library):
    with pytest.raises(flodl.hf.HuggingFaceError, match="fdl port FILE"):
        flodl.hf.graph(torch.nn.Linear(2, 2))


def test_import_of_flodl_does_not_import_transformers():
    code = (
        "import sys, flodl, flodl.hf; assert not {'transformers', 'tokenizers'} & {*sys.modules}"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_port_without_transformers_says_what_to_install(monkeypatch):
    def missing(name):
        raise flodl.hf.cache.importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(flodl.hf.cache.importlib.metadata, "version", missing)
    with pytest.raises(flodl.hf.HuggingFaceError, match=r"pip install .flodl\[hf,torch\]"):
        flodl.hf.port("bert")


def test_families_of_the_documents_are_those_that_were_measured_equal():
    rows = json.loads((ROOT / "benchmarks" / "results" / "hf.json").read_text("utf-8"))["rows"]
    checks = ("keys", "eval", "train", "gradients", "value")
    equal = [row["family"] for row in rows if all(row.get(name) for name in checks)]
    page = (ROOT / "docs" / "how-to" / "hugging-face.md").read_text("utf-8")
    head = f"{len(equal)} of {len(rows)} families are equal in all of it:\n"
    head += "\n| initial | families |\n|---|---|\n"
    table = page.partition(head)[2].partition("\n\n")[0]
    named = [row.split("|")[2].strip().split(", ") for row in table.splitlines()]
    assert [family for row in named for family in row] == equal
    readme = (ROOT / "README.md").read_text("utf-8")
    assert f"{len(equal)} of {len(rows)} families of transformers keep their bits" in readme
