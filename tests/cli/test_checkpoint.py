"""`fdl checkpoint` on real files: what it shows, what it notices, what it refuses."""

import gzip
import json
import random
import struct
import tracemalloc
from pathlib import Path

import pytest
import torch
from torch import nn

from fdl_cli.checkpoint.reader import open_checkpoint, problems
from fdl_cli.errors import FdlError
from flodl.checkpoint.contents import open_contents
from flodl.checkpoint.files import checkpoint_version
from flodl.checkpoint.store import load, save
from flodl.errors import CheckpointError

pytestmark = pytest.mark.torch

GOLDEN = Path(__file__).parent.parent / "flodl" / "checkpoint" / "golden"


def net(seed=0, width=4, act=nn.ReLU):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, width), act(), nn.Linear(width, 2))


@pytest.fixture
def file(tmp_path):
    save(net(), tmp_path / "m.fdl", config="lr: 0.1")
    return tmp_path / "m.fdl"


def data(done):
    return json.loads(done.stdout)["data"]


def test_show_says_what_torch_would_say(fdl, file):
    found = data(fdl("checkpoint", "show", str(file), "--json"))
    assert (found["version"], found["sealed"], found["config"]) == (3, True, "lr: 0.1")
    assert found["parameters"] == sum(each.numel() for each in net().parameters())
    shapes = {each["name"]: each["shape"] for each in found["tensors"]}
    assert shapes == {name: list(each.shape) for name, each in net().state_dict().items()}
    text = fdl("checkpoint", "show", str(file)).stdout
    assert "fdl version 3, sealed" in text
    assert "0.weight  F32    4 x 3" in text


def test_many_tensors_are_cut_unless_all_are_wanted(fdl, tmp_path):
    save(nn.ModuleList(nn.Linear(1, 1) for _ in range(30)), tmp_path / "m.fdl")
    done = fdl("checkpoint", "show", "m.fdl")
    assert done.stdout.count("F32") == 40
    assert "20 more; --all lists them" in done.stderr
    assert fdl("checkpoint", "show", "m.fdl", "--all").stdout.count("F32") == 60


@pytest.mark.parametrize("version", [1, 2])
def test_files_of_the_rust_framework(fdl, version):
    found = data(fdl("checkpoint", "show", str(GOLDEN / f"v{version}.fdl"), "--json"))
    assert (found["version"], found["sealed"], found["parameters"]) == (version, False, 8)
    assert [each["name"] for each in found["tensors"]] == ["linear_1.weight", "linear_1.bias"]


def test_verify_names_the_damaged_tensor_and_goes_on(fdl, file, tmp_path):
    damaged = bytearray(file.read_bytes())
    damaged[-1] ^= 4
    (tmp_path / "bad.fdl").write_bytes(damaged)
    (tmp_path / "cut.fdl").write_bytes(damaged[:-9])
    (tmp_path / "whole.fdl.gz").write_bytes(gzip.compress(file.read_bytes()))
    done = fdl("checkpoint", "verify", "bad.fdl", "cut.fdl", "whole.fdl.gz")
    assert done.returncode == 1
    assert "bad.fdl: damaged\n  tensor '2.bias' is damaged" in done.stdout
    assert "cut.fdl: damaged" in done.stdout
    assert "whole.fdl.gz: whole" in done.stdout
    assert fdl("checkpoint", "verify", str(file)).returncode == 0
    assert "no checksums" in fdl("checkpoint", "verify", str(GOLDEN / "v1.fdl")).stdout


@pytest.mark.slow
def test_the_tool_and_the_runtime_agree_about_every_damage(file, tmp_path):
    whole = file.read_bytes()
    generator = random.Random(0)
    path = tmp_path / "damaged.fdl"
    for turn in range(400):
        damaged = bytearray(whole)
        if turn % 3 == 0:
            del damaged[generator.randrange(len(whole)) :]
        else:
            damaged[generator.randrange(len(whole))] ^= 1 << generator.randrange(8)
        path.write_bytes(damaged)
        try:
            runtime = not open_contents(path).problems()
        except CheckpointError:
            runtime = False
        try:
            tool = not problems(open_checkpoint(path))
        except FdlError:
            tool = False
        assert tool is runtime is False, turn


@pytest.mark.slow
def test_mutated_old_files_never_crash_the_tool(tmp_path):
    whole = (GOLDEN / "v2.fdl").read_bytes()
    generator = random.Random(0)
    path = tmp_path / "m.fdl"
    for _ in range(400):
        damaged = bytearray(whole)
        for _ in range(2):
            damaged[generator.randrange(4, len(whole))] = generator.randrange(256)
        path.write_bytes(damaged)
        try:
            tool = len(open_checkpoint(path).tensors)
        except FdlError:
            tool = None
        try:
            runtime = len(open_contents(path).entries())
        except CheckpointError:
            runtime = None
        assert tool == runtime


def test_diff(fdl, file, tmp_path):
    save(net(), tmp_path / "same.fdl.gz")
    save(net(seed=1), tmp_path / "values.fdl")
    save(net(width=5, act=nn.Tanh), tmp_path / "other.fdl")
    assert fdl("checkpoint", "diff", "m.fdl", "same.fdl.gz").returncode == 0
    done = fdl("checkpoint", "diff", "m.fdl", "values.fdl")
    assert done.returncode == 1
    assert "~ 0.weight: other values" in done.stdout
    found = data(fdl("checkpoint", "diff", "m.fdl", "other.fdl", "--json"))
    assert found["difference"]["changed_form"][0] == {
        "name": "0.weight", "first": "F32 [4, 3]", "second": "F32 [5, 3]",
    }  # fmt: skip
    assert "~ 1: ReLU() -> Tanh()" in found["difference"]["architecture"]


@pytest.mark.slow
def test_migrate_into_the_names_of_another_model(fdl, file, tmp_path):
    new = nn.ModuleDict({"encoder": nn.Linear(3, 4), "head": nn.Linear(4, 2)})
    save(new, tmp_path / "like.fdl")
    done = fdl("checkpoint", "migrate", "m.fdl", "new.fdl", "--like", "like.fdl")
    assert done.returncode == 0, done.stderr
    assert "0.weight -> encoder.weight" in done.stdout
    assert load(new, tmp_path / "new.fdl").architecture
    assert torch.equal(new["head"].bias, net()[2].bias)
    again = fdl("checkpoint", "migrate", "m.fdl", "new.fdl", "--like", "like.fdl")
    assert again.returncode == 6
    assert "--force" in again.stderr


@pytest.mark.slow
def test_migrate_refuses_to_guess(fdl, tmp_path):
    save(nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.Linear(2, 2)}), tmp_path / "old.fdl")
    save(nn.ModuleDict({"c": nn.Linear(2, 2), "d": nn.Linear(2, 2)}), tmp_path / "like.fdl")
    done = fdl("checkpoint", "migrate", "old.fdl", "new.fdl", "--like", "like.fdl")
    assert done.returncode == 6
    assert "a.weight, b.weight could each be any of c.weight, d.weight" in done.stderr
    assert not (tmp_path / "new.fdl").exists()
    done = fdl("checkpoint", "migrate", "old.fdl", "new.fdl", "--like", "like.fdl", "--in-order")
    assert done.returncode == 0


@pytest.mark.slow
def test_migrate_an_old_file_into_todays_format(fdl, tmp_path):
    done = fdl(
        "checkpoint", "migrate", str(GOLDEN / "v1.fdl"), "new.fdl",
        "--rename", "linear_1.weight=fc.weight", "--rename", "linear_1.bias=fc.bias",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert checkpoint_version(tmp_path / "new.fdl") == 3
    fresh = nn.ModuleDict({"fc": nn.Linear(3, 2)})
    assert load(fresh, tmp_path / "new.fdl").missing == ()
    assert fresh["fc"].bias.tolist() == [0.5, -0.5]


@pytest.mark.parametrize(
    ("content", "code", "error"),
    [
        (None, 4, "checkpoint-missing"),
        (b"", 1, "checkpoint-damaged"),
        (b"\x1f\x8bxxxxxxxxxxxxxxxx", 1, "checkpoint-damaged"),
        (struct.pack("<Q", 2**63) + b"{}", 1, "checkpoint-damaged"),
        (b"PK\x03\x04....", 2, "checkpoint-is-a-pickle"),
    ],
    ids=["missing", "empty", "gzip", "length", "pickle"],
)
def test_files_that_cannot_be_shown(fdl, tmp_path, content, code, error):
    if content is not None:
        (tmp_path / "x.fdl").write_bytes(content)
    done = fdl("checkpoint", "show", "x.fdl", "--json")
    assert done.returncode == code
    assert json.loads(done.stdout)["error"]["id"] == error


def test_a_rename_needs_two_names(fdl, file):
    done = fdl("checkpoint", "migrate", "m.fdl", "new.fdl", "--rename", "a")
    assert done.returncode == 2
    assert "OLD=NEW" in done.stderr


def test_showing_imports_neither_torch_nor_flodl(fdl, file):
    import subprocess
    import sys

    script = (
        "import sys; from pathlib import Path; from fdl_cli.checkpoint.reader import *;"
        f"f = open_checkpoint(Path({str(file)!r})); assert problems(f) == ();"
        "print([m for m in ('torch', 'flodl', 'typer', 'rich') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def packed_zeros(path, first, megabytes):
    # A gzip file is any number of packed pieces one after the other.
    path.write_bytes(gzip.compress(first) + megabytes * gzip.compress(bytes(1 << 20)))
    return path


@pytest.mark.parametrize("command", ["show", "verify"])
@pytest.mark.parametrize("kind", ["announced", "legacy"])
def test_checkpoint_gzip_bomb_is_refused_with_little_memory(kind, command, fdl, tmp_path):
    size = 200 << 20
    table = {"big": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}
    text = json.dumps(table).encode()
    first = struct.pack("<Q", len(text)) + text if kind == "announced" else b"FDLC"
    path = packed_zeros(tmp_path / "bomb.gz", first, 200)
    tracemalloc.start()
    with pytest.raises(FdlError, match="unpack to"):
        open_checkpoint(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 80 << 20
    done = fdl("checkpoint", command, "bomb.gz")
    assert done.returncode == 1
    assert "unpack to" in done.stdout + done.stderr


@pytest.mark.parametrize("kind", ["safetensors", "legacy"])
def test_checkpoint_shape_with_many_factors_is_refused_unmultiplied(kind, tmp_path):
    count = 300_000
    if kind == "safetensors":
        entry = {"dtype": "U8", "shape": [3] * count, "data_offsets": [0, 1]}
        text = json.dumps({"w": entry}).encode()
        data = struct.pack("<Q", len(text)) + text + b"x"
    else:
        data = b"FDLC" + struct.pack("<I32sI", 2, bytes(32), 1) + struct.pack("<I", 1) + b"w"
        data += struct.pack("<I", count) + struct.pack("<q", 3) * count + struct.pack("<BQ", 3, 1)
    (tmp_path / "w.bin").write_bytes(data)
    with pytest.raises(FdlError, match=f"{count} dimensions"):
        open_checkpoint(tmp_path / "w.bin")
