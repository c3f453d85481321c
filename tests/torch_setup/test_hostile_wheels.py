"""Wheels that want more than to be unpacked: nothing is written outside, and the error has a name."""

import io
import zipfile
from pathlib import Path

import fake_torch
import pytest

from fdl_cli.errors import OperationFailedError
from fdl_cli.torch_setup.install.builds import KeptBuild
from fdl_cli.torch_setup.install.link_tree import Linker
from fdl_cli.torch_setup.install.wheel_tree import Dist, unpack_all


def unpacked(tmp_path, files=None, **settings):
    name, data = fake_torch.wheel("pkg", "1.0", files or {"pkg/__init__.py": ""}, **settings)
    path = tmp_path / name
    path.write_bytes(data)
    return unpack_all([path], tmp_path / "tree", "3.11")


@pytest.mark.parametrize(
    "scripts",
    [
        {"../../x": "pkg:main"}, {"..": "pkg:main"}, {"/tmp/x": "pkg:main"}, {"a b": "pkg:main"},
        {"x": "pkg:main\nimport os"}, {"x": "pkg; import os:main"}, {"x": "pkg"}, {"x": "pkg:main()"},
        {"x": "../pkg:main"}, {"x": ":main"}, {"x": "pkg:"},
    ],
)  # fmt: skip
def test_wheel_program_that_is_no_plain_one_is_refused(scripts, tmp_path):
    with pytest.raises(OperationFailedError) as caught:
        unpacked(tmp_path, scripts=scripts)
    assert caught.value.error_id == "wheel-broken"


def test_wheel_programs_of_the_usual_forms_are_taken(tmp_path):
    scripts = {"pip3.11": "pkg.cli:main", "a-b_c": "pkg:Main.run", "x": "pkg:main [extra]"}
    (dist,) = unpacked(tmp_path, scripts=scripts)
    assert dict(dist.scripts) == scripts


def build_of(tmp_path, dists):
    return KeptBuild(
        name="b", torch="2.13.0", variant="cpu", python="3.11", folder=str(tmp_path), source="s",
        bytes=1, proved="now", sm=(), dists=dists,
    )  # fmt: skip


@pytest.mark.parametrize(
    "row", ["../../../../outside", "/etc/passwd", "pkg/gone.py", "a.data/data/../x"]
)
def test_record_that_names_other_files_is_refused(row, tmp_path):
    (dist,) = unpacked(tmp_path)
    record = next((tmp_path / "tree").rglob("RECORD"))
    record.write_text(record.read_text() + f"{row},,\n")
    linker = Linker(build_of(tmp_path, (dist,)), tmp_path / "env", Path("/usr/bin/python3"))
    with pytest.raises(OperationFailedError) as caught:
        linker.link((dist,))
    assert caught.value.error_id == "wheel-broken"
    assert not (tmp_path / "env").exists()


def test_linked_program_stays_in_the_environment(tmp_path):
    (dist,) = unpacked(tmp_path, scripts={"tool": "pkg:main"})
    linker = Linker(build_of(tmp_path, (dist,)), tmp_path / "env", Path("/usr/bin/python3"))
    linker.link((dist,))
    assert (tmp_path / "env" / "bin" / "tool").is_file()
    with pytest.raises(ValueError, match="no plain name"):
        Dist(name="n", version="1", info="i", scripts=(("../x", "a:b"),), requires=())


@pytest.mark.parametrize("kind", ["entry points", "encoding", "flags", "no zip"])
def test_wheel_that_cannot_be_read_is_a_named_error(kind, tmp_path):
    name, data = fake_torch.wheel("pkg", "1.0", {"pkg/__init__.py": ""}, scripts={"x": "pkg:main"})
    stream = io.BytesIO(data)
    if kind in ("entry points", "encoding"):
        text = b"no section\n=" if kind == "entry points" else b"[console_scripts]\n\xff = a:b"
        with zipfile.ZipFile(stream, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("pkg-1.0.dist-info/entry_points.txt", text)
        data = stream.getvalue()
    elif kind == "flags":
        data = data.replace(
            b"PK\x01\x02\x14\x03\x14\x00\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x01\x00"
        )
    else:
        data = data[:100]
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(OperationFailedError) as caught:
        unpack_all([path], tmp_path / "tree", "3.11")
    assert caught.value.error_id == "wheel-broken"
