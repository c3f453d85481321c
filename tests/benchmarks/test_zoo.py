"""The zoo benchmark on a made-up project: it must find what is equal, and everything that is not."""

import math
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODEL = """\
import torch
from torch import nn
from torch.nn import functional as F


class Settings:
    def merge_from_dict(self, values):
        vars(self).update(values)


class Mix(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, width)
        self.norm = nn.BatchNorm1d(width)

    def forward(self, x):
        y = self.norm(self.layer(x).transpose(1, 2)).transpose(1, 2)
        return x + F.dropout(y, 0.1, self.training)


class GPT(nn.Module):
    @staticmethod
    def get_default_config():
        return Settings()

    def __init__(self, config):
        super().__init__()
        self.words = nn.Embedding(config.vocab_size, 8)
        self.mix = Mix(8)
        self.head = nn.Linear(8, config.vocab_size)

    def forward(self, tokens, targets=None):
        scores = self.head(self.mix(self.words(tokens)))
        if targets is None:
            return scores, None
        return scores, F.cross_entropy(scores.flatten(0, 1), targets.flatten())

    def generate(self, tokens, count, temperature, top_k):
        return self(tokens)[0].argmax(-1)
"""


@pytest.fixture
def zoo(tmp_path):
    (tmp_path / "little" / "mingpt").mkdir(parents=True)
    (tmp_path / "little" / "mingpt" / "model.py").write_text(MODEL, "utf-8")

    def run(*words):
        argv = [sys.executable, str(ROOT / "benchmarks" / "zoo.py"), str(tmp_path / "little")]
        argv += ["--work", str(tmp_path / "work"), *words]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    return tmp_path / "work" / "little", run


@pytest.mark.slow
@pytest.mark.torch
def test_equal_models_are_equal_and_mutations_are_found(zoo):
    work, run = zoo
    code, text = run("--models", "gpt")
    assert code == 0, text
    assert "models: 1 of 1 equal in everything" in text
    assert "classes in these models: 2 of 2 are flows" in text

    port = work / "ported" / "mingpt" / "model.py"
    written = port.read_text("utf-8")
    for old, new in (("0.1", "0.2"), ("argmax(-1)", "argmin(-1)")):
        assert old in written, written
        written = written.replace(old, new)
    port.write_text(written, "utf-8")
    (work / "results" / "gpt.json").unlink()
    code, text = run("--models", "gpt")
    assert code == 1
    assert "0 of 1 equal" in text
    assert all(f"'{section}'" in text for section in ("train", "grads", "losses", "others")), text
    assert not any(f"'{section}'" in text for section in ("keys", "initial", "eval", "batch")), (
        text
    )


@pytest.mark.torch
def test_a_digest_tells_bits_apart_but_not_one_nan_from_another():
    import torch

    from benchmarks.model_zoo.side import digest

    one = torch.tensor([1.0, 0.0])
    assert digest([one]) == digest([one.clone()])
    others = [one.double(), one[None], torch.tensor([1.0, -0.0]), one + 1e-7, one.int()]
    assert len({digest([item]) for item in (one, *others)}) == 6
    assert digest((one,)) != digest([one]) != digest({"a": one})
    assert digest(torch.tensor([math.nan])) == digest(torch.tensor([-math.nan]))


def test_of_too_many_models_every_group_gives_some():
    pytest.importorskip("torch")
    from benchmarks.model_zoo.families import chosen

    class Family:
        def names(self):
            return ["a1", "a2", "a3", "b1", "c1"]

        def group(self, name):
            return name[0]

    assert chosen(Family(), [], 4) == ["a1", "b1", "c1", "a2"]
    assert chosen(Family(), ["a*", "c?"], None) == ["a1", "a2", "a3", "c1"]
