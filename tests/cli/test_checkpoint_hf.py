"""`fdl checkpoint convert`, `export` and `verify-export`: round trip, tokenizer, and every fault by name."""

import json
import os
import struct

import pytest
import torch

from flodl.checkpoint.store import save
from tests.hugging_face import transformers

CONFIG = {
    "architectures": ["BertForSequenceClassification"], "model_type": "bert", "vocab_size": 40,
    "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24,
    "max_position_embeddings": 32,
}  # fmt: skip


def header(names):
    entries = {
        name: {"dtype": "F32", "shape": [1], "data_offsets": [4 * n, 4 * n + 4]}
        for n, name in enumerate(names)
    }
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text + bytes(4 * len(names))


@pytest.fixture
def folder(tmp_path):
    """Return a folder whose weights are not those of its class."""
    found = tmp_path / "bert"
    found.mkdir()
    (found / "config.json").write_text(json.dumps(CONFIG))
    (found / "model.safetensors").write_bytes(header(["a", "b"]))
    return found


def sharded(folder, **places):
    (folder / "model.safetensors").unlink()
    index = {"metadata": {}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    for file in set(places.values()):
        (folder / file).write_bytes(
            header([name for name, each in places.items() if each == file])
        )


def failed(done):
    assert "Traceback" not in done.stderr
    error = json.loads(done.stdout)["error"]
    assert error["hint"]
    return done.returncode, error["id"], error["message"]


# ---- faults that need no torch -----------------------------------------------------------------------


def test_convert_truncated_weights_is_an_error(fdl, folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-3])
    code, error, message = failed(fdl("checkpoint", "convert", "bert", "-o", "m.fdl", "--json"))
    assert (code, error) == (1, "checkpoint-damaged")
    assert "model.safetensors: the tensors end at byte" in message


def test_convert_missing_shard_names_it(fdl, folder):
    sharded(folder, a="model-1.safetensors", b="model-2.safetensors")
    (folder / "model-2.safetensors").unlink()
    code, error, message = failed(fdl("checkpoint", "convert", "bert", "-o", "m.fdl", "--json"))
    assert (code, error) == (4, "hf-shard-missing")
    assert "lists model-2.safetensors, which is not in" in message


def test_convert_shard_without_a_listed_name_is_damaged(fdl, folder):
    sharded(folder, a="model-1.safetensors", b="model-2.safetensors")
    (folder / "model-2.safetensors").write_bytes(header(["c"]))
    code, error, message = failed(fdl("checkpoint", "convert", "bert", "-o", "m.fdl", "--json"))
    assert (code, error) == (1, "checkpoint-damaged")
    assert "model-2.safetensors" in message
    assert "'b'" in message


@pytest.mark.parametrize(
    "index",
    ["{", "[]", "{}", '{"weight_map": {"a": "../x"}}', '{"weight_map": {"a": 3}}'],
)
def test_convert_unreadable_index_is_damaged(fdl, folder, index):
    sharded(folder, a="model-1.safetensors")
    (folder / "model.safetensors.index.json").write_text(index)
    code, error, message = failed(fdl("checkpoint", "convert", "bert", "-o", "m.fdl", "--json"))
    assert (code, error) == (1, "checkpoint-damaged")
    assert "model.safetensors.index.json" in message


@pytest.mark.parametrize(
    ("file", "code", "error"),
    [
        ("config.json", 4, "hf-config-missing"),
        ("model.safetensors", 4, "hf-weights-missing"),
        ("", 4, "hf-folder-missing"),
    ],
)
def test_folder_without_a_file_is_an_error(fdl, folder, file, code, error):
    save(torch.nn.Linear(1, 1), folder.parent / "m.fdl")
    if file:
        (folder / file).unlink()
    name = "bert" if file else "brt"
    for words in (("convert", name, "-o", "n.fdl"), ("verify-export", "m.fdl", name)):
        assert failed(fdl("checkpoint", *words, "--json"))[:2] == (code, error)
    assert not (folder.parent / "n.fdl").exists()


@pytest.mark.parametrize("text", ["{", "[]"])
def test_configuration_that_is_no_table_is_damaged(fdl, folder, text):
    (folder / "config.json").write_text(text)
    done = fdl("checkpoint", "convert", "bert", "-o", "m.fdl", "--json")
    assert failed(done)[:2] == (1, "checkpoint-damaged")


@pytest.mark.parametrize("words", [["export", "-o", "out"], ["verify-export", "bert"]])
def test_damaged_checkpoint_is_named(fdl, folder, tmp_path, words):
    save(torch.nn.Linear(1, 1), tmp_path / "m.fdl", config=json.dumps(CONFIG))
    data = bytearray((tmp_path / "m.fdl").read_bytes())
    data[-1] ^= 4
    (tmp_path / "m.fdl").write_bytes(data)
    code, error, message = failed(fdl("checkpoint", words[0], "m.fdl", *words[1:], "--json"))
    assert (code, error) == (1, "checkpoint-damaged")
    assert "its checksum does not match" in message


def test_export_over_a_file_is_refused_even_if_forced(fdl, tmp_path):
    save(torch.nn.Linear(1, 1), tmp_path / "m.fdl", config=json.dumps(CONFIG))
    done = fdl("checkpoint", "export", "m.fdl", "-o", "m.fdl", "--force", "--json")
    assert failed(done)[:2] == (6, "checkpoint-exists")


def test_export_without_a_configuration_says_how_to_name_one(fdl, tmp_path):
    save(torch.nn.Linear(1, 1), tmp_path / "m.fdl", config="lr: 0.1")
    done = fdl("checkpoint", "export", "m.fdl", "-o", "out")
    assert done.returncode == 4
    assert "holds no config.json of transformers" in done.stderr
    assert "--config FOLDER/config.json" in done.stderr
    assert sorted(each.name for each in tmp_path.iterdir()) == ["m.fdl"]


def test_target_that_exists_is_kept_unless_forced(fdl, folder, tmp_path):
    save(torch.nn.Linear(1, 1), tmp_path / "m.fdl")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("x")
    convert = fdl("checkpoint", "convert", "bert", "-o", "m.fdl", "--json")
    export = fdl("checkpoint", "export", "m.fdl", "--config", "bert", "-o", "out", "--json")
    for done in (convert, export):
        code, error, message = failed(done)
        assert (code, error) == (6, "checkpoint-exists")
        assert message.endswith("exists")


# ---- with torch --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.torch
def test_convert_without_transformers_says_how_to_install_it(fdl, folder):
    transformers()
    hidden = folder.parent / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text(
        "import importlib.metadata as found\n"
        "real = found.version\n"
        "def version(name):\n"
        "    if name == 'transformers':\n"
        "        raise found.PackageNotFoundError(name)\n"
        "    return real(name)\n"
        "found.version = version\n"
    )
    path = os.pathsep.join(filter(None, (str(hidden), os.environ.get("PYTHONPATH"))))
    done = fdl("checkpoint", "convert", "bert", "-o", "m.fdl", PYTHONPATH=path)
    assert done.returncode == 5
    assert "has no transformers, which builds the model" in done.stderr
    assert "-m pip install 'flodl[hf,torch]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.torch
def test_convert_weights_of_another_class_lists_the_names(fdl, folder):
    transformers()
    done = fdl("checkpoint", "convert", "bert", "-o", "m.fdl")
    assert done.returncode == 1
    assert "do not fit BertForSequenceClassification" in done.stderr
    assert "  unexpected: a" in done.stderr
    assert "  missing: classifier.weight" in done.stderr
    assert "--allow-unexpected" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.torch
def test_round_trip_keeps_weights_and_tokenizer(fdl, folder, tmp_path):
    library = transformers()
    made = library.BertForSequenceClassification(library.BertConfig(**CONFIG))
    made.save_pretrained(folder)
    (folder / "vocab.txt").write_text("[PAD]\n[UNK]\n")
    (folder / "tokenizer_config.json").write_text("{}")
    (folder / "README.md").write_text("not a part of the model")
    done = fdl("checkpoint", "convert", "bert", "-o", "no/m.fdl", "--json")
    assert failed(done)[:2] == (1, "hf-not-written")
    assert fdl("checkpoint", "convert", "bert", "-o", "m.fdl").returncode == 0
    done = fdl("checkpoint", "export", "m.fdl", "--config", "bert", "-o", "out")
    assert done.returncode == 0, done.stderr
    assert "copied: tokenizer_config.json, vocab.txt" in done.stdout
    assert {each.name for each in (tmp_path / "out").iterdir()} == {
        "config.json", "model.safetensors", "tokenizer_config.json", "vocab.txt",
    }  # fmt: skip
    done = fdl("checkpoint", "verify-export", "m.fdl", "out")
    assert done.returncode == 0, done.stderr
    assert "AutoModelForSequenceClassification: 1 outputs, largest difference 0\n" in done.stdout
    with torch.no_grad():
        made.classifier.bias += 0.5
    made.save_pretrained(tmp_path / "out")
    done = fdl("checkpoint", "verify-export", "m.fdl", "out", "--json")
    found = json.loads(done.stdout)["data"]
    assert (done.returncode, found["equal"]) == (1, False)
    assert found["difference"] == pytest.approx(0.5)
    # The checkpoint holds its configuration; an earlier export is replaced as a whole.
    (tmp_path / "out" / "model.safetensors.index.json").write_text("{}")
    assert fdl("checkpoint", "export", "m.fdl", "-o", "out", "--force").returncode == 0
    assert not (tmp_path / "out" / "model.safetensors.index.json").exists()
