"""Files of the Rust framework, written out by hand from its layout, and stored ones of every version."""

import gzip
import io
import random
import struct
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from flodl.checkpoint.contents import open_contents
from flodl.checkpoint.files import checkpoint_keys, checkpoint_version
from flodl.checkpoint.legacy import legacy_bytes
from flodl.checkpoint.store import load, save
from flodl.errors import CheckpointError

pytestmark = pytest.mark.torch

GOLDEN = Path(__file__).parent / "golden"
DIGEST = bytes(range(32))


def entry(name, shape, tag, data):
    raw = name.encode()
    return (
        struct.pack("<I", len(raw)) + raw + struct.pack(f"<I{len(shape)}q", len(shape), *shape)
        + struct.pack("<BQ", tag, len(data)) + data
    )  # fmt: skip


def file(entries, version=2, digest=DIGEST, count=None):
    head = b"FDLC" + struct.pack("<I", version) + digest
    return head + struct.pack("<I", len(entries) if count is None else count) + b"".join(entries)


LINEAR = [
    entry("linear_1/weight", [2, 3], 3, struct.pack("<6f", 1, 2, 3, 4, 5, 6)),
    entry("linear_1/bias", [2], 3, struct.pack("<2f", 0.5, -0.5)),
]


def model():
    return nn.ModuleDict({"linear_1": nn.Linear(3, 2)})


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gz"])
def test_both_versions_load(version, pack, tmp_path):
    path = tmp_path / "old.fdl"
    path.write_bytes(pack(file(LINEAR, version)))
    target = model()
    report = load(target, path)
    assert report.loaded == ("linear_1.weight", "linear_1.bias")
    assert (report.version, report.sealed, report.architecture) == (version, False, False)
    assert target["linear_1"].weight.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert target["linear_1"].bias.tolist() == [0.5, -0.5]
    assert checkpoint_version(path) == version
    assert open_contents(path).metadata == {"fdlc.structural_hash": DIGEST.hex()}


def test_every_dtype():
    values = {1: torch.float16, 2: torch.bfloat16, 3: torch.float32, 4: torch.float64,
              5: torch.int32, 6: torch.int64}  # fmt: skip
    for tag, dtype in values.items():
        expected = torch.arange(3).to(dtype)
        data = bytes(expected.view(torch.uint8).tolist())
        contents = open_contents(io.BytesIO(file([entry("x", [3], tag, data)])))
        assert torch.equal(contents.tensor("x"), expected)


def test_what_we_write_for_it_is_its_layout():
    tensors = {
        "linear_1.weight": torch.tensor([[1.0, 2, 3], [4, 5, 6]]),
        "linear_1.bias": torch.tensor([0.5, -0.5]),
    }
    assert legacy_bytes(tensors) == file(LINEAR, digest=bytes(32))
    with pytest.raises(CheckpointError, match="FDLC format lacks"):
        legacy_bytes({"mask": torch.tensor([True])})


@given(
    st.dictionaries(
        st.text(st.characters(exclude_characters="/", codec="utf-8"), min_size=1, max_size=12),
        st.lists(st.integers(0, 3), max_size=3),
        max_size=5,
    ),
    st.sampled_from([torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int64]),
)
def test_it_reads_what_it_writes(shapes, dtype):
    tensors = {name: torch.ones(shape).to(dtype) * 3 for name, shape in shapes.items()}
    contents = open_contents(io.BytesIO(legacy_bytes(tensors)))
    assert [each.name for each in contents.entries()] == list(tensors)
    for name, each in tensors.items():
        back = contents.tensor(name)
        assert back.dtype == each.dtype
        assert torch.equal(back, each)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (file(LINEAR, version=3), "version 3 is unknown"),
        (file(LINEAR, version=0), "version 0 is unknown"),
        (file(LINEAR, count=2**32 - 1), "cannot hold"),
        (file(LINEAR) + b"x", "follow the last tensor"),
        (file([LINEAR[0], LINEAR[0]]), "occurs twice"),
        (file([entry("x", [2], 9, b"12345678")]), "dtype tag 9"),
        (file([entry("x", [3], 3, b"12345678")]), "does not take 8 bytes"),
        (file([entry("x", [-1, -2], 3, b"12345678")]), "does not take 8 bytes"),
        (file([struct.pack("<I", 2**31) + b"x" * 40]), "ends inside"),
        (file([struct.pack("<I", 1) + b"\xff" + b"x" * 40]), "not UTF-8"),
        (file([struct.pack("<I", 1) + b"x" + struct.pack("<I", 2**31) + b"x" * 40]), "dimensions"),
        (file([entry("x", [2**40, 2**30], 3, b"")]), "does not take 0 bytes"),
    ],
    ids=range(12),
)
def test_hostile_files(data, message):
    with pytest.raises(CheckpointError, match=message):
        open_contents(io.BytesIO(data))


def test_truncations_and_mutations_never_crash():
    data = file(LINEAR)
    for length in range(4, len(data)):
        with pytest.raises(CheckpointError):
            open_contents(io.BytesIO(data[:length]))
    generator = random.Random(0)
    refused = 0
    for _ in range(5_000):
        damaged = bytearray(data)
        for _ in range(generator.randrange(1, 4)):
            damaged[generator.randrange(4, len(data))] = generator.randrange(256)
        try:
            open_contents(io.BytesIO(damaged))
        except CheckpointError:
            refused += 1
    assert refused > 1_000


def golden_model():
    net = nn.ModuleDict({"linear_1": nn.Linear(3, 2)})
    with torch.no_grad():
        net["linear_1"].weight.copy_(torch.tensor([[1.0, 2, 3], [4, 5, 6]]))
        net["linear_1"].bias.copy_(torch.tensor([0.5, -0.5]))
    return net


def test_stored_files_of_every_version_still_load(request):
    if request.config.getoption("--update-golden"):
        GOLDEN.mkdir(exist_ok=True)
        for version in (1, 2):
            (GOLDEN / f"v{version}.fdl").write_bytes(file(LINEAR, version))
        save(golden_model(), GOLDEN / "v3.fdl", config="golden")
    expected = golden_model().state_dict()
    for version in (1, 2, 3):
        path = GOLDEN / f"v{version}.fdl"
        assert checkpoint_version(path) == version
        assert checkpoint_keys(path) == ("linear_1.weight", "linear_1.bias")
        target = model()
        load(target, path)
        assert all(torch.equal(each, expected[name]) for name, each in target.state_dict().items())
