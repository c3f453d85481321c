"""Compiled templates are kept between runs, and never trusted further than their checksum."""

import os
import shutil

import jinja2
import pytest

from fdl_cli.scaffold.answers import make_answers
from fdl_cli.scaffold.rendering import render

ANSWERS = make_answers("my-proj", docker=True)
PLAIN = render(ANSWERS)


def entries(cache):
    return sorted(path for path in cache.rglob("*") if path.is_file())


@pytest.fixture
def compiled(monkeypatch):
    """The names of the templates that are compiled from now on."""
    names = []
    compile_template = jinja2.Environment.compile

    def compile_and_note(self, source, name=None, *args, **kwargs):
        names.append(name)
        return compile_template(self, source, name, *args, **kwargs)

    monkeypatch.setattr(jinja2.Environment, "compile", compile_and_note)
    return names


def test_a_second_run_compiles_nothing_and_says_the_same(tmp_path, compiled):
    assert render(ANSWERS, tmp_path) == PLAIN
    assert len(compiled) == len(entries(tmp_path)) > 10
    compiled.clear()
    assert render(ANSWERS, tmp_path) == PLAIN
    other = render(make_answers("other"), tmp_path)
    assert compiled == []
    assert other == render(make_answers("other"))


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "appended"])
def test_damaged_entries_are_compiled_anew_and_mended(tmp_path, compiled, damage):
    render(ANSWERS, tmp_path)
    for path in entries(tmp_path):
        data = bytearray(path.read_bytes())
        middle = len(data) // 2
        if damage == "flipped":
            data[middle] ^= 0x40
        cut = {"truncated": middle, "empty": 0}.get(damage, len(data))
        path.write_bytes(bytes(data[:cut]) + (b"x" if damage == "appended" else b""))
    compiled.clear()
    assert render(ANSWERS, tmp_path) == PLAIN
    assert len(compiled) == len(entries(tmp_path))
    compiled.clear()
    assert render(ANSWERS, tmp_path) == PLAIN
    assert compiled == []


def test_a_changed_template_is_compiled_again(tmp_path, monkeypatch):
    from fdl_cli.assets import assets
    from fdl_cli.scaffold import rendering

    shutil.copytree(assets("templates"), tmp_path / "templates")
    monkeypatch.setattr(rendering, "assets", lambda kind: tmp_path / kind)
    cache = tmp_path / "cache"
    assert render(ANSWERS, cache) == PLAIN
    readme = tmp_path / "templates" / "project" / "base" / "README.md"
    readme.write_text("{{ name }} is new\n")
    texts = {file.path: file.text for file in render(ANSWERS, cache)}
    assert texts["README.md"] == "my-proj is new\n"


def test_without_a_place_nothing_is_kept_and_nothing_is_lost(tmp_path):
    (tmp_path / "templates").write_text("a file where the folder would be")
    assert render(ANSWERS, tmp_path) == PLAIN


def test_a_full_disk_keeps_nothing_and_loses_nothing(tmp_path, monkeypatch):
    from pathlib import Path

    def full(self, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    assert render(ANSWERS, tmp_path) == PLAIN
    assert entries(tmp_path) == []


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root gives files away")
def test_code_of_somebody_else_is_not_run(tmp_path, compiled):
    render(ANSWERS, tmp_path)
    for path in entries(tmp_path):
        os.chown(path, 12345, -1)
    compiled.clear()
    assert render(ANSWERS, tmp_path) == PLAIN
    assert len(compiled) == len(entries(tmp_path))
