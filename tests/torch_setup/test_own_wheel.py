"""The wheel of this tool for a project: a copy, a repacked installation, or a build of a checkout."""

import base64
import hashlib
import importlib.metadata
import json
import os
import zipfile

import pytest

from fdl_cli.errors import EnvironmentLackingError
from fdl_cli.torch_setup.install import own_wheel
from fdl_cli.torch_setup.install.own_wheel import (
    OwnInstallation,
    put_wheel,
    repack,
    vendored,
    wheel_digest,
)

INFO = "flodl-0.1.0.dist-info"
NAME = "flodl-0.1.0-py3-none-any.whl"
FILES = {
    "flodl/__init__.py": "x = 1\n",
    "fdl_cli/__init__.py": "",
    f"{INFO}/METADATA": "Metadata-Version: 2.1\nName: flodl\nVersion: 0.1.0\n",
    f"{INFO}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    f"{INFO}/entry_points.txt": "[console_scripts]\nfdl = fdl_cli.app:entry\n",
}


@pytest.fixture
def installed(tmp_path):
    """The files that an installer leaves."""
    return install(tmp_path / "site", FILES)


def install(site, files):
    lines = []
    for name, text in {
        **files,
        f"{INFO}/INSTALLER": "pip\n",
        "../../bin/fdl": "#!python\n",
    }.items():
        path = site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
        lines.append(f"{name},sha256={digest.decode()},{len(text)}")
    lines += [f"{INFO}/RECORD,,", "flodl/__pycache__/__init__.cpython-311.pyc,,"]
    (site / INFO / "RECORD").write_text("\n".join(lines) + "\n")
    return importlib.metadata.PathDistribution(site / INFO)


def own(distribution, origin):
    return OwnInstallation(distribution=distribution, origin=origin)


def origin_of(wheel):
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    return {"url": wheel.as_uri(), "archive_info": {"hashes": {"sha256": digest}}}


def test_repack_holds_the_files_of_the_wheel_and_no_others(installed, tmp_path):
    made = repack(installed, tmp_path)
    assert made.name == NAME
    with zipfile.ZipFile(made) as archive:
        found = {name: archive.read(name).decode() for name in archive.namelist()}
    record = found.pop(f"{INFO}/RECORD").splitlines()
    assert found == FILES
    assert [line.partition(",")[0] for line in record] == [*sorted(FILES), f"{INFO}/RECORD"]
    assert wheel_digest(made) == own(installed, None).digest


def test_repack_twice_is_the_same_bytes(installed, tmp_path):
    first = repack(installed, tmp_path).read_bytes()
    os.utime(tmp_path / "site" / "flodl" / "__init__.py", (1, 1))
    assert repack(installed, tmp_path).read_bytes() == first


def test_repack_without_a_record_says_what_to_do(installed, tmp_path):
    (tmp_path / "site" / INFO / "RECORD").unlink()
    with pytest.raises(EnvironmentLackingError, match="no list of its files") as caught:
        repack(installed, tmp_path)
    assert "vendor/" in caught.value.hint


def test_digest_differs_between_two_installations_of_one_version(installed, tmp_path):
    other = install(tmp_path / "other", {**FILES, "flodl/__init__.py": "x = 2\n"})
    assert own(installed, None).digest != own(other, None).digest


def test_digest_of_a_checkout_changes_with_an_edit(installed, tmp_path):
    source = tmp_path / "checkout" / "flodl" / "module.py"
    source.parent.mkdir(parents=True)
    source.write_text("x = 1\n")
    origin = {"url": (tmp_path / "checkout").as_uri(), "dir_info": {"editable": True}}
    before = own(installed, origin).digest
    assert own(installed, origin).digest == before
    os.utime(source, (1, 1))
    assert own(installed, origin).digest != before


def test_put_wheel_copies_the_original_and_removes_older_ones(installed, tmp_path):
    original = repack(installed, tmp_path)
    root = tmp_path / "project"
    (root / "vendor").mkdir(parents=True)
    for name in ("flodl-0.0.9-py3-none-any.whl", "other-1.0-py3-none-any.whl"):
        (root / "vendor" / name).write_bytes(b"old")
    wheel = put_wheel(root, own(installed, origin_of(original)))
    assert wheel == vendored(root) == root / "vendor" / NAME
    assert wheel.read_bytes() == original.read_bytes()
    assert sorted(path.name for path in wheel.parent.iterdir()) == [
        NAME, "other-1.0-py3-none-any.whl",
    ]  # fmt: skip
    assert put_wheel(root, own(installed, origin_of(original))) == wheel


@pytest.mark.parametrize("gone", [True, False])
def test_put_wheel_packs_the_installation_where_the_original_is_gone_or_another(
    installed, tmp_path, gone
):
    original = repack(installed, tmp_path)
    origin = origin_of(original)
    original.unlink() if gone else original.write_bytes(b"another build")
    wheel = put_wheel(tmp_path / "project", own(installed, origin))
    assert wheel_digest(wheel) == own(installed, None).digest


def test_vendored_is_none_in_a_project_without_a_wheel(tmp_path):
    assert vendored(tmp_path) is None


@pytest.mark.parametrize(
    ("origin", "from_index", "editable"),
    [
        (None, True, False),
        ({"url": "file:///w/flodl.whl", "archive_info": {}}, False, False),
        ({"url": "file:///checkout", "dir_info": {}}, False, False),
        ({"url": "file:///my%20checkout", "dir_info": {"editable": True}}, False, True),
        ({"url": "https://host/flodl.git", "vcs_info": {"vcs": "git"}}, False, False),
    ],
)
def test_own_installation_is_from_an_index_without_a_direct_url(
    installed, tmp_path, monkeypatch, origin, from_index, editable
):
    if origin is not None:
        (tmp_path / "site" / INFO / "direct_url.json").write_text(json.dumps(origin))
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: installed)
    module = tmp_path / "site" / "fdl_cli" / "torch_setup" / "install" / "own_wheel.py"
    if editable:
        module = tmp_path / "my checkout" / "fdl_cli" / "torch_setup" / "install" / "own_wheel.py"
        (tmp_path / "site" / INFO / "direct_url.json").write_text(
            json.dumps({**origin, "url": (tmp_path / "my checkout").as_uri()})
        )
    monkeypatch.setattr(own_wheel, "__file__", str(module))
    found = own_wheel.own_installation()
    assert found.from_index is from_index
    assert (found.sources is not None) is editable


def test_own_installation_of_another_copy_is_none(installed, monkeypatch):
    # `python -m fdl_cli` in a checkout, with a flodl installed beside it, is not that flodl.
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: installed)
    assert own_wheel.own_installation() is None
