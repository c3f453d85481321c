"""A setting of what the object holds that a forward sets and reads, such as `self.config.problem_type`."""

import importlib.util
import json

import pytest
import torch

from fdl_cli.app import main

SCRIPT = """
import torch
import torch.nn as nn


class Config:
    problem_type = None


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.config = Config()
        self.head = nn.Linear(4, 3)

    def forward(self, x, labels=None):
        logits = self.head(x)
        loss = None
        if labels is not None:
            if self.config.problem_type is None:
                if labels.dtype == torch.long:
                    self.config.problem_type = "single"
                else:
                    self.config.problem_type = "several"
            if self.config.problem_type == "single":
                loss = nn.functional.cross_entropy(logits, labels)
            elif self.config.problem_type == "several":
                loss = nn.functional.binary_cross_entropy_with_logits(logits, labels)
        return loss, logits
"""


def loaded(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.torch
def test_it_is_read_in_every_call(tmp_path, capsys):
    (tmp_path / "net.py").write_text(SCRIPT, encoding="utf-8")
    main(["port", str(tmp_path / "net.py"), "-o", str(tmp_path / "ported.py"), "--json"])
    (report,) = json.loads(capsys.readouterr().out)["data"]["files"]
    (net,) = report["classes"]
    assert (net["status"], net["verify"]["status"]) == ("graph", "equal")
    torch.manual_seed(0)
    plain = loaded(tmp_path / "net.py").Net()
    ported = loaded(tmp_path / "ported.py").Net()
    ported.load_state_dict(plain.state_dict())
    classes, several = torch.tensor([0, 2]), torch.rand(2, 3)
    for kind, labels in (
        (None, None), (None, classes), ("single", classes), (None, several), ("several", several),
        ("other", classes), ("single", classes), (None, None), (None, classes),
    ):  # fmt: skip
        x = torch.rand(2, 4)
        plain.config.problem_type = ported.config.problem_type = kind
        (expected, _), (loss, _) = plain(x, labels), ported(x, labels)
        assert (loss is None) == (expected is None)
        assert loss is None or torch.equal(loss, expected)
        assert ported.config.problem_type == plain.config.problem_type


def test_setting_and_reading_are_steps(porter):
    text = porter.text(SCRIPT)
    assert 'if call(getattr, self.config, "problem_type") is None:' in text
    assert 'call(setattr, self.config, "problem_type", "single")' in text


def test_what_is_set_to_values_of_the_flow_is_kept(porter):
    text = SCRIPT.replace('"several"\n', "logits\n")
    assert {reason.code for reason in porter.reasons(text)} == {"FDL309"}
    assert porter.text(text) == text


def test_what_another_method_reads_is_kept(porter):
    text = SCRIPT.replace(
        "        logits = self.head(x)\n", "        logits = self.head(x)\n        self.see()\n"
    )
    text += "\n    def see(self):\n        return self.config.problem_type\n"
    assert {reason.code for reason in porter.reasons(text)} == {"FDL309"}
    assert porter.text(text) == text
