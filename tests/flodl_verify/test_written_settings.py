"""Settings in files of a project: those with the most names that a class reads, as it reads them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flodl_verify.inputs.case_finder import CaseFinder
from flodl_verify.sandbox.isolated_import import open_sides
from flodl_verify.sources.declared_settings import known_settings
from flodl_verify.sources.written_settings import (
    Settings,
    written_arguments,
    written_settings,
)

pytestmark = pytest.mark.torch

WIDE = {"seed": 1, "width": 512, "rates": [2, 2], "block": {"kind": "1", "dilation": [[1, 3]]}}


def written(folder: Path, **files: object) -> Path:
    for name, content in files.items():
        stem, _, ending = name.rpartition("_")
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / f"{stem}.{ending}").write_text(text, encoding="utf-8")
    return folder / "models.py"


def found(file: Path, *names: str) -> list[Settings]:
    return list(written_settings(file, (file.parent,), frozenset(names)))


def test_settings_of_files_with_most_names_come_lightest_first(tmp_path):
    light = {**WIDE, "width": 128}
    file = written(
        tmp_path, v1_json=WIDE, v2_json=light, v3_json={"width": 1}, labels_json={"a": 3}
    )
    assert found(file, "width", "rates") == [light, WIDE]


def test_settings_inside_of_others_are_read_by_key_and_attribute(tmp_path):
    file = written(tmp_path, a_json={"train": {"lr": 0.1}, "model": [{"net": WIDE}]})
    (settings,) = found(file, "width", "rates", "block")
    assert settings.block.kind == settings["block"]["kind"] == "1"
    with pytest.raises(AttributeError, match="missing"):
        _ = settings.missing


def test_settings_that_know_less_than_half_of_the_names_are_of_another_program(tmp_path):
    file = written(tmp_path, a_json={"width": 4})
    assert found(file, "width", "depth", "heads") == []
    assert found(file, "width", "depth") == [{"width": 4}]


def test_toml_is_read(tmp_path):
    file = written(tmp_path, a_toml="[model]\nwidth = 48\nparts = 2\n")
    assert found(file, "width", "parts") == [{"width": 48, "parts": 2}]


@pytest.mark.parametrize("ending", ["yml", "yaml"])
def test_yaml_is_read_where_there_is_a_reader(tmp_path, ending):
    pytest.importorskip("yaml")
    file = written(tmp_path, **{f"a_{ending}": "model:\n  width: 24\n  parts: 2\n"})
    assert found(file, "width", "parts") == [{"width": 24, "parts": 2}]


@pytest.mark.parametrize(
    "text", ["{", "[" * 100_000, "width: [1", "\x00", " " * 70_000 + '{"width": 1}']
)
@pytest.mark.parametrize("ending", ["json", "toml", "yaml"])
def test_files_that_cannot_be_read_are_passed_over(tmp_path, ending, text):
    file = written(tmp_path, **{f"bad_{ending}": text, "good_json": {"width": 3}})
    assert found(file, "width") == [{"width": 3}]


def test_mapping_that_is_inside_itself_ends(tmp_path):
    pytest.importorskip("yaml")
    file = written(tmp_path, a_yaml="model: &m\n  width: 8\n  inner: *m\n")
    assert found(file, "width")[0].inner.inner.width == 8


def test_arguments_of_a_file_have_every_required_parameter_and_no_others(tmp_path):
    whole = {"type": "Net", "wide": 6, "deep": 2, "bias": False}
    file = written(tmp_path, a_json={"net": whole, "other": {"wide": 3}})
    required, known = frozenset({"wide", "deep"}), frozenset({"wide", "deep", "bias", "act"})
    arguments = written_arguments(file, (tmp_path,), required, known)
    assert arguments == ({"wide": 6, "deep": 2, "bias": False},)
    assert written_arguments(file, (tmp_path,), frozenset({"wide"}), known) == ()


def test_settings_of_a_command_line_that_knows_more_come_first(tmp_path):
    file = written(tmp_path, a_json={"width": 3})
    program = "import argparse\np = argparse.ArgumentParser()\n"
    program += "p.add_argument('--width', default=8)\np.add_argument('--depth', default=2)\n"
    (tmp_path / "run.py").write_text(program, encoding="utf-8")
    settings = known_settings(file, (tmp_path,), frozenset({"width", "depth"}))
    assert [each["width"] for each in settings] == [8, 3]


MODELS = """
import torch
from torch import nn


class Generator(nn.Module):
    def __init__(self, h):
        super().__init__()
        self.count = len(h.rates)
        self.first = nn.Conv1d(4, h.width, 3, padding=1)
        self.ups = nn.ModuleList(
            nn.ConvTranspose1d(h.width // 2**i, h.width // 2 ** (i + 1), 2 * rate, rate, padding=rate // 2)
            for i, rate in enumerate(h.rates)
        )
        assert h.block.kind == "1"

    def forward(self, x):
        x = self.first(x)
        for up in self.ups:
            x = torch.relu(up(x))
        return x


class Tower(nn.Module):
    def __init__(self, widths, gates, bias=True):
        super().__init__()
        assert len(widths) == len(gates) + 1, "as the file has them"
        pairs = zip(widths, widths[1:])
        self.parts = nn.ModuleList(nn.Linear(a, b, bias=bias) for a, b in pairs)
        self.gates = gates

    def forward(self, x):
        for part, gate in zip(self.parts, self.gates):
            x = torch.tanh(part(x)) if gate == "tanh" else torch.relu(part(x))
        return x
"""


def test_models_are_made_from_the_files_of_their_project(tmp_path):
    tower = {"widths": [6, 8, 3], "gates": ["tanh", "relu"], "bias": False}
    folder = tmp_path / "configs"
    folder.mkdir()
    written(folder, base_json=WIDE, tower_json={"model": {"name": "Tower", "args": tower}})
    file = tmp_path / "models.py"
    file.write_text(MODELS, encoding="utf-8")
    original, _ = open_sides(file, file, (tmp_path,))
    original.load()
    book = CaseFinder(original, ("Generator", "Tower"), budget_s=60.0)
    book.add_guesses()
    assert book.missing == (), book.reasons
    with original.active():
        generator = book.cases["Generator"][0].construction.build(original)
        built = book.cases["Tower"][0].construction.build(original)
    assert generator.first.out_channels == WIDE["width"] // 16, "a small version is enough"
    assert [part.in_features for part in built.parts] == [6, 8]
    assert built.parts[0].bias is None


SEVERAL = """
from torch import nn


class Adaptor(nn.Module):
    def __init__(self, preprocess_config, model_config):
        super().__init__()
        assert preprocess_config["pitch"]["normalize"] is True, "as the file has it"
        self.width = model_config["transformer"]["hidden"]
        self.fc = nn.Linear(self.width, self.width)

    def forward(self, x):
        return self.fc(x)
"""


def test_model_of_several_settings_gets_the_values_of_several_files(tmp_path):
    written(
        tmp_path, pre_json={"pitch": {"normalize": True}}, net_json={"transformer": {"hidden": 24}}
    )
    file = tmp_path / "models.py"
    file.write_text(SEVERAL, encoding="utf-8")
    original, _ = open_sides(file, file, (tmp_path,))
    original.load()
    book = CaseFinder(original, ("Adaptor",), budget_s=60.0)
    book.add_guesses()
    assert book.missing == (), book.reasons
    with original.active():
        model = book.cases["Adaptor"][0].construction.build(original)
    assert model.width == 24
