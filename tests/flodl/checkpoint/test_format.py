"""The bytes: readable by safetensors, and nothing that was changed in them loads."""

import contextlib
import gc
import gzip
import io
import json
import random
import struct
import sys
import tracemalloc
import weakref

import pytest
import safetensors
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st

from fdl_cli.checkpoint.reader import open_checkpoint
from flodl.checkpoint import format as format_module
from flodl.checkpoint.contents import open_contents
from flodl.checkpoint.files import verify
from flodl.checkpoint.format import Entry, checksums, decode_header, encode_header
from flodl.checkpoint.store import load, load_checkpoint, save_checkpoint
from flodl.checkpoint.tensors import as_bytes
from flodl.errors import CheckpointError
from tests.flodl.checkpoint.samples import every_dtype, net, same, saved

pytestmark = pytest.mark.torch


def restored(data, model):
    return load(model, io.BytesIO(data))


def test_every_dtype_survives():
    stream = io.BytesIO()
    tensors = every_dtype()
    save_checkpoint(stream, tensors)
    contents = open_contents(io.BytesIO(stream.getvalue()))
    assert contents.problems() == ()
    for name, each in tensors.items():
        back = contents.tensor(name)
        assert back.dtype == each.dtype
        assert back.shape == each.shape
        assert torch.equal(back.view(torch.uint8) if name == "float8" else back,
                           each.view(torch.uint8) if name == "float8" else each)  # fmt: skip


def test_safetensors_reads_our_files(tmp_path):
    path = tmp_path / "m.fdl"
    model = net()
    path.write_bytes(saved(model, config="width: 4", notes={"author": "me"}))
    state = safetensors.torch.load_file(path)
    fresh = net(seed=9)
    fresh.load_state_dict(state)
    assert same(fresh, model)
    with safetensors.safe_open(path, "pt") as file:
        assert file.metadata()["fdl.config"] == "width: 4"
        assert file.metadata()["author"] == "me"


def test_we_read_safetensors_files(tmp_path):
    path = tmp_path / "m.safetensors"
    model = net()
    safetensors.torch.save_file(model.state_dict(), path)
    fresh = net(seed=9)
    report = load(fresh, path)
    assert same(fresh, model)
    assert (report.sealed, report.architecture, report.version) == (False, False, 0)


@pytest.mark.parametrize("packed", [False, True])
def test_open_contents_with_a_header_that_begins_like_a_pickle_reads_it(tmp_path, packed):
    note = ""
    data = safetensors.torch.save(net().state_dict())
    while data[0] != 0x80:  # of the length of the header
        note += "x" * 8
        data = safetensors.torch.save(net().state_dict(), {"note": note})
    path = tmp_path / "m.safetensors"
    path.write_bytes(gzip.compress(data) if packed else data)
    assert open_contents(path).metadata["note"] == note
    assert dict(open_checkpoint(path).metadata)["note"] == note


def test_data_begins_on_a_page_and_tensors_on_their_item_size():
    stream = io.BytesIO()
    save_checkpoint(stream, every_dtype())
    data = stream.getvalue()
    (length,) = struct.unpack("<Q", data[:8])
    assert (8 + length) % 4096 == 0
    for each in open_contents(io.BytesIO(data)).entries():
        count = max(1, torch.Size(each.shape).numel())
        assert each.start % max(1, (each.end - each.start) // count) == 0


# ---- damage ------------------------------------------------------------------------------------------


def is_noticed(damaged, model):
    """Return whether loading fails and leaves the model as it was."""
    before = {name: each.clone() for name, each in model.state_dict().items()}
    try:
        load(model, io.BytesIO(damaged))
    except CheckpointError:
        after = model.state_dict()
        return all(torch.equal(before[name], after[name]) for name in before)
    return False


@pytest.mark.slow
def test_ten_thousand_flipped_bits_are_noticed():
    data = saved(net())
    target = net(seed=9)
    generator = random.Random(0)
    for _ in range(10_000):
        place, bit = generator.randrange(len(data)), generator.randrange(8)
        damaged = bytearray(data)
        damaged[place] ^= 1 << bit
        assert is_noticed(damaged, target), (place, bit)


@pytest.mark.slow
def test_every_bit_of_a_header_is_guarded():
    data = saved(torch.nn.Linear(1, 1))
    target = torch.nn.Linear(1, 1)
    for place in range(len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[place] ^= 1 << bit
            assert is_noticed(damaged, target), (place, bit)


def test_every_truncation_and_every_appended_byte_is_noticed():
    data = saved(net())
    target = net(seed=9)
    for length in range(len(data)):
        assert is_noticed(data[:length], target), length
    assert is_noticed(data + b"\0", target)


def test_damage_in_a_file_is_named(tmp_path):
    path = tmp_path / "m.fdl"
    data = bytearray(saved(net()))
    data[-1] ^= 1
    path.write_bytes(data)
    (line,) = verify(path)
    assert "checksum does not match" in line
    with pytest.raises(CheckpointError, match=r"m\.fdl: the file is damaged"):
        load(net(), path)


def test_a_file_named_fdl_must_be_sealed(tmp_path):
    path = tmp_path / "m.fdl"
    safetensors.torch.save_file(net().state_dict(), path)
    with pytest.raises(CheckpointError, match="carries no seal"):
        load(net(), path)


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "gz"])
def test_damage_in_a_compressed_file_never_loads_other_values(compressed, tmp_path):
    import gzip

    data = gzip.compress(saved(net()), mtime=0) if compressed else saved(net())
    target, expected = net(seed=9), net()
    generator = random.Random(1)
    for _ in range(500):
        damaged = bytearray(data)
        damaged[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
        if not is_noticed(damaged, target):
            # The time stamp and the like in gzip's own header: the content is whole.
            assert compressed
            assert same(target, expected)
            target = net(seed=9)


def mutated(data, generator):
    """Return a file with a header that was changed on purpose, re-sealed half of the time."""
    (length,) = struct.unpack("<Q", data[:8])
    header = bytearray(data[8 : 8 + length].rstrip())
    for _ in range(generator.randrange(1, 4)):
        place = generator.randrange(len(header))
        match generator.randrange(4):
            case 0:
                header[place] = generator.randrange(256)
            case 1:
                header[place:place] = generator.choice(
                    [
                        b"9" * 12,
                        b"[",
                        b"-1",
                        b'"',
                        b"1e999",
                        b"null",
                        b"{}",
                        b"NaN",
                        b",",
                        b"[" * 500,
                    ]
                )
            case 2:
                del header[place : place + generator.randrange(1, 9)]
            case 3:
                other = generator.randrange(len(header))
                header[place:place] = header[other : other + 20]
    claimed = generator.choice([len(header)] * 6 + [0, 2**63 - 1, 2**64 - 1, len(header) + 1])
    return struct.pack("<Q", claimed) + bytes(header) + data[8 + length :]


def survive_mutations(count):
    data = saved(net())
    generator = random.Random(2)
    for index in range(count):
        candidate = mutated(data, generator)
        for must in (True, False):
            try:
                (length,) = struct.unpack("<Q", candidate[:8])
                raw = candidate[: 8 + min(length, len(candidate))]
                decode_header(raw, len(candidate), must_be_sealed=must)
            except CheckpointError:
                continue
        if index % 10 == 0:
            assert is_noticed(candidate, net(seed=9)) or candidate == data


def test_mutated_headers_are_refused_without_a_crash():
    survive_mutations(2_000)


@pytest.mark.slow
def test_thirty_thousand_mutated_headers():
    survive_mutations(30_000)


def test_opening_a_hostile_file_allocates_little():
    data = saved(net(width=512))
    generator = random.Random(3)
    worst = 0
    for _ in range(500):
        candidate = io.BytesIO(mutated(data, generator))
        tracemalloc.start()
        with contextlib.suppress(CheckpointError):
            open_contents(candidate)
        worst = max(worst, tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # The stream itself is held once; the header a few times over.
    assert worst < 2 * len(data) + 200_000


def header(document):
    text = json.dumps(document).encode()
    return struct.pack("<Q", len(text)) + text


def entry(**changes):
    return {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} | changes


@pytest.mark.parametrize(
    ("document", "size", "message"),
    [
        ([], 0, "not a table"),
        ({"a": 1}, 0, "lacks a dtype"),
        ({"a": entry(shape="x")}, 8, "not a natural number"),
        ({"a": entry(shape=[-2])}, 8, "not a natural number"),
        ({"a": entry(shape=[True, 2])}, 8, "not a natural number"),
        ({"a": entry(shape=[2**70])}, 8, "not a natural number"),
        ({"a": entry(dtype="F4")}, 8, "not supported"),
        ({"a": entry(dtype=["F32"])}, 8, "not supported"),
        ({"a": entry(shape=[3])}, 8, "does not fill"),
        ({"a": entry(data_offsets=[4, 12])}, 12, "leaves a gap"),
        ({"a": entry(), "b": entry(data_offsets=[4, 12])}, 12, "overlaps"),
        ({"a": entry()}, 9, "appended"),
        ({"a": entry()}, 7, "cut off"),
        ({"__metadata__": {"a": 1}}, 0, "table of texts"),
        ({"__metadata__": {"fdl.version": "3"}}, 0, "no seal"),
        ({"__metadata__": {"fdl.seal": "0" * 16}}, 0, "no seal"),
    ],
    ids=str,
)
def test_hostile_headers(document, size, message):
    raw = header(document)
    with pytest.raises(CheckpointError, match=message):
        decode_header(raw, len(raw) + size, must_be_sealed=False)


@pytest.mark.parametrize(
    "text",
    [b'{"a":1,"a":1}', b'{"a":NaN}', b"[" * 100_000, b"\xff", b"1" * 5000, b""],
    ids=range(6),
)
def test_text_that_is_not_json(text):
    with pytest.raises(CheckpointError, match="not readable"):
        decode_header(struct.pack("<Q", len(text)) + text, 8 + len(text), must_be_sealed=False)


def test_a_newer_version_says_upgrade():
    raw = encode_header([], {"fdl.version": "4"})
    with pytest.raises(CheckpointError, match="upgrade flodl"):
        open_contents(io.BytesIO(raw))


names = st.text(min_size=1, max_size=20).filter(lambda name: name != "__metadata__")


@given(
    sizes=st.dictionaries(names, st.lists(st.integers(0, 4), max_size=3), max_size=6),
    metadata=st.dictionaries(names, st.text(max_size=30), max_size=4),
)
@pytest.mark.slow
def test_what_is_encoded_is_decoded(sizes, metadata):
    entries, place = [], 0
    for name, shape in sizes.items():
        end = place + 2 * torch.Size(shape).numel()
        entries.append(Entry(name=name, dtype="F16", shape=tuple(shape), start=place, end=end))
        place = end
    metadata.pop("fdl.seal", None)
    raw = encode_header(entries, metadata)
    back = decode_header(raw, len(raw) + place, must_be_sealed=True)
    assert {each.name: each for each in back.entries} == {each.name: each for each in entries}
    assert {key: text for key, text in back.metadata.items() if key != "fdl.seal"} == metadata


def test_tensors_that_have_no_form_are_named():
    for name, tensor in {
        "sparse": torch.eye(2).to_sparse(),
        "complex": torch.zeros(1, dtype=torch.complex128),
        "meta": torch.empty(1, device="meta"),
    }.items():
        with pytest.raises(CheckpointError, match=name):
            save_checkpoint(io.BytesIO(), {name: tensor})


def test_views_are_saved_with_their_own_values():
    base = torch.arange(12.0).reshape(3, 4)
    tensors = {
        "column": base[:, 1],
        "transposed": base.T,
        "conj": torch.ones(2, dtype=torch.complex64).conj(),
    }
    stream = io.BytesIO()
    save_checkpoint(stream, tensors)
    targets = {name: torch.zeros_like(each) for name, each in tensors.items()}
    load_checkpoint(io.BytesIO(stream.getvalue()), targets)
    assert all(torch.equal(targets[name], each) for name, each in tensors.items())


def test_checksums_without_xxhash_name_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "xxhash", None)
    format_module.xxhash.cache_clear()
    with pytest.raises(CheckpointError, match=r"need the package xxhash.*pip install xxhash"):
        checksums([b"x"])
    monkeypatch.undo()
    assert checksums([b"x"]) == checksums([b"x"])


def test_view_of_bytes_keeps_its_tensor_alive():
    tensor = torch.arange(6.0)
    alive = weakref.ref(tensor)
    view = as_bytes(tensor)
    del tensor
    gc.collect()
    assert alive() is not None  # what comes from a GPU is a copy that only the view holds
    del view
    assert alive() is None
