"""Files of tokens: what a window holds, the order of the windows, and how a run is resumed."""

import pickle
import struct

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from flodl import DataError, DataLoader, TokenShards

pytestmark = pytest.mark.torch


def write(folder, *sizes, dtype=np.uint16, first=0):
    """Write shards whose tokens count on from shard to shard."""
    for number, size in enumerate(sizes):
        (first + np.arange(size)).astype(dtype).tofile(folder / f"part_{number}.bin")
        first += size
    return folder


def test_windows_lie_in_one_shard_and_targets_are_the_next_tokens(tmp_path):
    shards = TokenShards(write(tmp_path, 9, 4, 5, 12), length=4)
    batch = shards.get_batch(list(range(len(shards))))
    # 9 tokens give two windows and 4 give none: the last one would have no target.
    assert batch["input"][:, 0].tolist() == [0, 4, 13, 18, 22]
    assert torch.equal(batch["input"][1:2], torch.tensor([[4, 5, 6, 7]]))
    assert torch.equal(batch["target"], batch["input"] + 1)
    assert batch["input"].dtype == torch.int64


@pytest.mark.parametrize(
    ("dtype", "tokens"), [("uint16", [0, 40_000, 65_535]), ("uint32", [1, 2**31, 2**32 - 1])]
)
def test_large_tokens_keep_their_value(tmp_path, dtype, tokens):
    np.array(tokens, dtype=dtype).tofile(tmp_path / "a.bin")
    batch = TokenShards(tmp_path, length=2, dtype=dtype).get_batch([0])
    assert batch["input"][0].tolist() == tokens[:2]
    assert batch["target"][0].tolist() == tokens[1:]


@pytest.mark.parametrize(
    ("magic", "version", "dtype"), [(20240520, 1, "uint16"), (20240801, 7, "uint32")]
)
def test_head_of_llm_c_is_skipped_and_names_the_type(tmp_path, magic, version, dtype):
    head = struct.pack("<256i", magic, version, 6, *[0] * 253)
    file = tmp_path / "a.bin"
    file.write_bytes(head + np.arange(60_000, 60_006).astype(dtype).tobytes())
    assert TokenShards(file, length=5).get_batch([0])["input"].tolist() == [
        list(range(60_000, 60_005))
    ]
    file.write_bytes(file.read_bytes()[:-2])
    with pytest.raises(DataError, match=rf"should hold 6 tokens of {dtype} after its head"):
        TokenShards(file, length=5)


def test_shards_of_a_folder_come_in_the_order_of_their_numbers(tmp_path):
    for number in (10, 2, 1):
        np.full(3, number, dtype=np.uint16).tofile(tmp_path / f"part_{number}.bin")
    shards = TokenShards(tmp_path, length=2)
    assert [path.stem for path in shards.files] == ["part_1", "part_2", "part_10"]
    named = TokenShards([tmp_path / "part_10.bin", tmp_path / "part_1.bin"], length=2)
    assert named.get_batch([0, 1])["input"][:, 0].tolist() == [10, 1]


@given(
    windows=st.integers(1, 40),
    seed=st.integers(0, 2**40),
    size=st.integers(1, 9),
    position=st.integers(0, 60),
)
def test_batch_depends_on_seed_and_position_alone(tmp_path_factory, windows, seed, size, position):
    folder = write(tmp_path_factory.mktemp("tokens"), 2 * windows + 1)
    shards = TokenShards(folder, length=2)
    stream = shards.stream(size, seed=seed)
    whole = torch.cat([next(stream)["input"] for _ in range(position + 2)])
    late = next(shards.stream(size, seed=seed, position=position + 1))
    assert torch.equal(late["input"], whole[-size:])
    # Each pass visits every window once.
    for start in range(0, len(whole) - windows + 1, windows):
        assert whole[start : start + windows, 0].sort().values.tolist() == list(
            range(0, 2 * windows, 2)
        )


def test_stream_has_the_order_of_the_loader(tmp_path):
    shards = TokenShards(write(tmp_path, 41, 41), length=4)
    loader = DataLoader(shards, 5, seed=9)
    epochs = [batch["input"] for epoch in range(3) for batch in loader.epoch(epoch)]
    stream = shards.stream(5, seed=9)
    assert torch.equal(torch.cat(epochs), torch.cat([next(stream)["input"] for _ in epochs]))
    other = next(shards.stream(5, seed=10))
    assert not torch.equal(other["input"], epochs[0])


def test_loader_goes_on_in_the_middle_of_an_epoch(tmp_path):
    shards = TokenShards(write(tmp_path, 101), length=4)
    whole = [batch["target"].tolist() for batch in DataLoader(shards, 5).epoch(2)]
    again = TokenShards(tmp_path, length=4)
    rest = [batch["target"].tolist() for batch in DataLoader(again, 5).epoch(2, start=3)]
    assert rest == whole[3:]


def test_tokens_are_mapped_and_not_read(tmp_path):
    # A sparse file far larger than the memory: only the pages of a window are touched.
    file = tmp_path / "large.bin"
    with file.open("wb") as out:
        out.truncate(1 << 40)
        out.seek(-4, 2)
        out.write(np.array([7, 8], dtype=np.uint16).tobytes())
    shards = TokenShards(file, length=1)
    assert len(shards) == (1 << 39) - 1
    assert shards.get_batch([len(shards) - 1]) == {
        "input": torch.tensor([[7]]),
        "target": torch.tensor([[8]]),
    }
    assert len(shards.order(10**9, 10**9 + 8)) == 8


def test_copy_in_another_process_maps_the_files_again(tmp_path):
    shards = TokenShards(write(tmp_path, 20), length=3)
    before = shards.get_batch([1])
    text = pickle.dumps(shards)
    assert len(text) < 2000
    assert torch.equal(pickle.loads(text).get_batch([1])["input"], before["input"])


def test_errors_name_files_and_numbers(tmp_path):
    with pytest.raises(DataError, match=r"has no files `\*.bin`"):
        TokenShards(tmp_path, length=4)
    missing = [tmp_path / "a.bin", tmp_path / "b.bin"]
    with pytest.raises(DataError, match=r"there is no file .*a.bin, .*b.bin"):
        TokenShards(missing, length=4)
    with pytest.raises(DataError, match="no files; name"):
        TokenShards([], length=4)
    write(tmp_path, 5)
    with pytest.raises(DataError, match=r"has 9 tokens, .*smaller `length`"):
        TokenShards(tmp_path, length=8)
    with pytest.raises(DataError, match="dtype is 'int8'; tokens are 'uint16' or 'uint32'"):
        TokenShards(tmp_path, length=1, dtype="int8")
    with pytest.raises(DataError, match="10 bytes, which is no whole number of uint32"):
        TokenShards(tmp_path, length=1, dtype="uint32")
    shards = TokenShards(tmp_path, length=1)
    with pytest.raises(IndexError, match="there are 4 windows"):
        shards.get_batch([4])
    with pytest.raises(DataError, match="position is -1"):
        shards.stream(1, position=-1)
