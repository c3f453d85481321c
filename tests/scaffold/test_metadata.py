"""Author, licence and Python of a project are what its tools accept, and survive an update."""

import json
import tomllib

import pytest
from hatchling.metadata.core import ProjectMetadata
from hypothesis import given
from hypothesis import strategies as st

from fdl_cli.errors import ConfigError, UsageError
from fdl_cli.scaffold.answers import Answers, make_answers, with_part
from fdl_cli.scaffold.metadata import (
    LICENSE_TEXTS,
    LICENSES,
    PYTHONS,
    author_table,
    read_author,
    read_license,
    read_python,
)
from fdl_cli.scaffold.record import read_record
from fdl_cli.scaffold.rendering import render
from flodl.bytecode.opcodes import SUPPORTED
from tests.scaffold.conftest import make


def texts(**metadata):
    answers = Answers(name="p", parts=make_answers("p", docker=True).parts, **metadata)
    return {file.path: file.text for file in render(answers)}


@pytest.mark.parametrize("name", [*LICENSES, "LicenseRef-Ours"])
def test_licence_that_fdl_takes_is_taken_by_hatchling(name, tmp_path):
    document = tomllib.loads(
        texts(license=read_license(name.lower().replace("licenseref-ours", name)))[
            "pyproject.toml"
        ]
    )
    metadata = ProjectMetadata(str(tmp_path), None, {"project": {
        key: document["project"][key] for key in ("name", "version", "license")
    }})  # fmt: skip
    assert metadata.core.license_expression == name


@pytest.mark.parametrize("name", LICENSES)
def test_licence_with_a_text_gives_the_project_a_license_file(name):
    files = texts(license=name, author="Jane Doe <jane@example.org>")
    assert ("LICENSE" in files) is (name in LICENSE_TEXTS)
    if name in LICENSE_TEXTS:
        title = files["LICENSE"].strip().splitlines()[0].strip()
        assert title.isprintable()
        assert title
        assert "{{" not in files["LICENSE"]


@pytest.mark.parametrize("name", ["MIT", "BSD-2-Clause", "BSD-3-Clause", "ISC", "0BSD"])
@pytest.mark.parametrize(
    ("author", "holder"),
    [
        ("Jane Doe <jane@example.org>", "Jane Doe"),
        ("<j@example.org>", "j@example.org"),
        ("", "the authors of p"),
    ],
)
def test_license_file_names_the_holder(name, author, holder):
    lines = texts(license=name, author=author)["LICENSE"].splitlines()
    assert f"Copyright (c) {holder}" in lines


@given(st.from_regex(r"[^<>\x00-\x20\x7f]{1,20}( <[a-z.]{1,9}@[a-z.]{1,9}>)?", fullmatch=True))
def test_author_in_a_pyproject_is_the_one_that_was_given(text):
    try:
        author = read_author(text)
    except UsageError:
        assert not text.strip().isprintable()
        return
    (found,) = tomllib.loads(f"authors = [{author_table(author)}]")["authors"]
    name, _, rest = author.partition(" <")
    assert found.get("name", "") == name.strip()
    assert found.get("email", "") == rest.rstrip(">")


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (read_author, "a<b"), (read_author, "a <b>"), (read_author, "a\x1b[31m"), (read_author, "<@>"),
        (read_license, "mti"), (read_license, "LicenseRef-"), (read_license, 'MIT"'),
        (read_python, "3.10"), (read_python, "3"), (read_python, ""),
    ],
)  # fmt: skip
def test_metadata_that_no_tool_takes_is_refused_with_a_cure(read, text):
    with pytest.raises(UsageError) as caught:
        read(text)
    assert caught.value.hint


def test_licence_with_a_typing_error_is_guessed():
    with pytest.raises(UsageError) as caught:
        read_license("apache")
    assert "`--license Apache-2.0`" in caught.value.hint


def test_pythons_are_those_that_the_runtime_supports():
    assert [*PYTHONS] == [f"{major}.{minor}" for major, minor in sorted(SUPPORTED)]


def test_oldest_python_decides_the_style_the_matrix_and_the_image():
    newest = texts(python="3.13")
    assert 'requires-python = ">=3.13"' in newest["pyproject.toml"]
    assert 'target-version = "py313"' in newest["pyproject.toml"]
    assert 'python: ["3.13"]' in newest[".github/workflows/ci.yml"]
    assert "ARG PYTHON_IMAGE=python:3.13-slim" in newest["Dockerfile"]
    assert 'python: ["3.14"]' in texts(python="3.14")[".github/workflows/ci.yml"]
    assert "python:3.12-slim" in texts(python="3.12")["Dockerfile"]
    oldest = texts()
    assert 'python: ["3.11", "3.12", "3.13"]' in oldest[".github/workflows/ci.yml"]
    assert "ARG PYTHON_IMAGE=python:3.12-slim" in oldest["Dockerfile"]
    project = tomllib.loads(oldest["pyproject.toml"])["project"]
    assert not {"authors", "license"} & project.keys()


def test_record_keeps_the_metadata_and_one_without_them_is_read(tmp_path):
    root = make(tmp_path / "p")
    path = root / ".fdl/scaffold.json"
    record = json.loads(path.read_text())
    said = {"author": "Jane", "license": "MIT", "python": "3.12"}
    record["answers"] |= said
    path.write_text(json.dumps(record))
    answers = with_part(read_record(root).answers, "docker")
    assert said == {
        "author": answers.author, "license": answers.license, "python": answers.python,
    }  # fmt: skip
    for name in said:
        del record["answers"][name]
    path.write_text(json.dumps(record))
    assert read_record(root).answers == make_answers("p")
    record["answers"]["python"] = "3.99"
    path.write_text(json.dumps(record))
    with pytest.raises(ConfigError, match=r"unknown Python: 3\.99"):
        read_record(root)
