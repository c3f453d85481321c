"""Files that somebody made to do harm: they are refused soon, with little memory, before anything changes."""

import functools
import gzip
import io
import json
import random
import struct
import tracemalloc
import zipfile

import pytest
import torch
from torch import nn, optim

from flodl.checkpoint.contents import open_contents
from flodl.checkpoint.format import MOST_DIMENSIONS, decode_header
from flodl.checkpoint.restore import random_state
from flodl.checkpoint.store import load, save
from flodl.checkpoint.training import resume, save_training
from flodl.errors import CheckpointError
from tests.flodl.checkpoint.mutations import metadata_of, mutated_document, resealed
from tests.flodl.checkpoint.samples import net, same, saved
from tests.flodl.checkpoint.test_format import mutated
from tests.mutation_bounds import Bounds

pytestmark = pytest.mark.torch

MEGABYTE = 1 << 20


def header_of(tensors):
    text = json.dumps(tensors).encode()
    return struct.pack("<Q", len(text)) + text


def entry(size, shape=None):
    return {"dtype": "U8", "shape": shape or [size], "data_offsets": [0, size]}


def packed_zeros(path, first, megabytes):
    # A gzip file is any number of packed pieces one after the other.
    path.write_bytes(gzip.compress(first) + megabytes * gzip.compress(bytes(MEGABYTE)))
    return path


def peak_of(call):
    tracemalloc.start()
    try:
        with pytest.raises(CheckpointError) as caught:
            call()
        return caught.value, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# ---- size ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "first",
    [header_of({"big": entry(200 * MEGABYTE)}), b"FDLC" + struct.pack("<I", 2), b"PK\x03\x04"],
    ids=["safetensors", "legacy", "zip"],
)
def test_load_gzip_bomb_is_refused_with_little_memory(first, tmp_path):
    path = packed_zeros(tmp_path / "bomb.gz", first, 200)
    error, peak = peak_of(lambda: load(nn.Linear(2, 2), path))
    assert "gunzip" in str(error)
    assert peak < 80 * MEGABYTE


def test_load_gzip_bomb_with_announced_size_is_refused_at_its_header(tmp_path):
    path = packed_zeros(tmp_path / "bomb.gz", header_of({"big": entry(200 * MEGABYTE)}), 200)
    _, peak = peak_of(lambda: open_contents(path))
    assert peak < 4 * MEGABYTE


def test_load_zip_with_compressed_records_is_refused(tmp_path):
    path = tmp_path / "bomb.pt"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("archive/data.pkl", b"")
        archive.writestr("archive/data/0", bytes(70 * MEGABYTE))
    error, peak = peak_of(lambda: load(nn.Linear(2, 2), path))
    assert "unpack to" in str(error)
    assert peak < 8 * MEGABYTE


def test_load_of_compressed_zeros_is_not_refused(tmp_path):
    path = tmp_path / "zeros.fdl.gz"
    model = nn.Linear(2000, 2000)
    nn.init.zeros_(model.weight)
    save(model, path)
    assert path.stat().st_size < 16_000_000 // 64
    assert str(load(nn.Linear(2000, 2000), path)) == "2 loaded"


def test_shape_with_many_factors_is_refused_before_they_are_multiplied():
    header = header_of({"w": entry(1, [3] * 500_000)})
    with pytest.raises(CheckpointError, match="500000 dimensions"):
        decode_header(header, len(header) + 1, must_be_sealed=False)


@pytest.mark.parametrize("shape", [[2**62, 2**62, 0], [0, *[2**60] * (MOST_DIMENSIONS - 1)]])
def test_empty_shape_that_torch_cannot_count_is_refused(shape):
    data = header_of({"w": {"dtype": "F32", "shape": shape, "data_offsets": [0, 0]}})
    with pytest.raises(CheckpointError, match="larger than torch can count"):
        load(nn.Linear(2, 2), io.BytesIO(data))


# ---- resuming -----------------------------------------------------------------------------------------


class Position:
    """A part that takes one field over before it looks at the next, as many do."""

    def __init__(self):
        self.first, self.second = 0, 0

    def state_dict(self):
        return {"first": self.first, "second": self.second}

    def load_state_dict(self, state):
        self.first = state["first"]
        self.second = int(state["second"])


def trained(seed, kind=optim.Adam):
    torch.manual_seed(seed)
    model = nn.Linear(3, 2)
    optimizer = kind(model.parameters(), lr=0.01)
    schedule = optim.lr_scheduler.StepLR(optimizer, 2)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(4, 3)).square().mean().backward()
        optimizer.step()
        schedule.step()
    return model, optimizer, {"schedule": schedule, "position": Position()}


def plain(value):
    """Return a state in which tensors are their bytes, so that it compares by `==`."""
    match value:
        case torch.Tensor():
            return str(value.dtype), tuple(value.shape), value.detach().numpy().tobytes()
        case dict():
            return {key: plain(each) for key, each in value.items()}
        case list() | tuple():
            return [plain(each) for each in value]
        case _:
            return repr(value)


def picture(model, optimizer, parts):
    """Return everything that resuming may change."""
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "parts": {name: each.state_dict() for name, each in parts.items()},
        "random": random_state(),
    }
    return plain(state)


def run_file():
    model, optimizer, parts = trained(0)
    stream = io.BytesIO()
    save_training(stream, model, optimizer, epoch=1, step=3, parts=parts, extra={"best": 0.5})
    return stream.getvalue()


def refused_or_taken(data, bounds=None):
    """Resume; return False if it was refused, and require that nothing has changed then."""
    model, optimizer, parts = trained(1)
    before = picture(model, optimizer, parts)
    try:
        call = functools.partial(resume, io.BytesIO(data), model, optimizer, parts=parts)
        call() if bounds is None else bounds.run(call)
    except CheckpointError:
        assert picture(model, optimizer, parts) == before
        return False
    return True


def mutated_runs(count, seed):
    """Resume from mutated trainings; return the bounds of all."""
    data = run_file()
    text = metadata_of(data)["fdl.train"]
    generator = random.Random(seed)
    model, optimizer, parts = trained(1)
    bounds = Bounds(lambda: resume(io.BytesIO(data), model, optimizer, parts=parts))
    for _ in range(count):
        changed = resealed(data, **{"fdl.train": mutated_document(text, generator)})
        bounds.outcomes["accepted" if refused_or_taken(changed, bounds) else "refused"] += 1
    bounds.check()
    return bounds


@pytest.mark.campaign("resume", covers=("flodl/checkpoint",))
def test_resume_campaign_of_ten_thousand_mutations(campaign):
    bounds = mutated_runs(10_000, 7)
    assert bounds.outcomes["refused"] > 5_000
    campaign.write(seed=7, cases=10_000, outcomes=bounds.outcomes, worst=bounds.worst)


# ---- loading -----------------------------------------------------------------------------------------


def loaded_or_refused(data, bounds, width=4):
    """Load; return True if it was refused, and require that nothing has changed then."""
    model = net(seed=9, width=width)
    try:
        bounds.run(lambda: load(model, io.BytesIO(data)))
    except CheckpointError:
        assert same(model, net(seed=9, width=width))
        return True
    return False


def mutated_file(data, generator):
    """Return a file with flipped bytes, other lengths, other texts under a fitting seal, or packed so."""
    match generator.randrange(5):
        case 0:
            changed = bytearray(data)
            for _ in range(generator.randrange(1, 4)):
                changed[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
            data = bytes(changed)
        case 1:
            data = data[: generator.randrange(len(data))] + generator.randbytes(
                generator.randrange(9)
            )
        case 2:
            key = generator.choice(["fdl.topology", "fdl.checksums", "fdl.tied", "fdl.version"])
            text = metadata_of(data).get(key, '{"0.weight": "3.weight"}')
            data = resealed(data, **{key: mutated_document(text, generator)})
        case 3:
            first = generator.choice([b"FDLC", b"PK\x03\x04", b"\x80\x02", b"\x1f\x8b\x08\x00"])
            data = first + data[len(first) + generator.randrange(3) :]
        case _:
            data = mutated(data, generator)
    if generator.randrange(4) == 0:
        data = bytearray(gzip.compress(data, 1))
        if generator.randrange(2):
            data[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
        data = bytes(data)
    return data


def mutated_loads(count, seed, width=4):
    """Load mutated files; return the bounds of all."""
    data = saved(net(width=width))
    generator = random.Random(seed)
    honest = net(width=width)
    bounds = Bounds(lambda: load(honest, io.BytesIO(data)))
    for _ in range(count):
        changed = mutated_file(data, generator)
        refused = loaded_or_refused(changed, bounds, width)
        bounds.outcomes["refused" if refused else "accepted"] += 1
    bounds.check()
    return bounds


def test_load_of_mutated_files_is_refused_whole_or_taken():
    assert mutated_loads(300, 8).outcomes["refused"] > 200


@pytest.mark.slow
def test_load_of_mutated_large_files_takes_at_most_twice_the_memory():
    # 4 MB: buffers of a fixed size hardly count.
    assert mutated_loads(200, 10, width=110_000).outcomes["refused"] > 120


@pytest.mark.campaign("load", covers=("flodl/checkpoint",))
def test_load_campaign_of_ten_thousand_mutations(campaign):
    bounds = mutated_loads(10_000, 9)
    assert bounds.outcomes["refused"] > 7_000
    campaign.write(seed=9, cases=10_000, outcomes=bounds.outcomes, worst=bounds.worst)


def test_resume_from_resealed_mutations_is_refused_whole_or_taken():
    assert mutated_runs(50, 5).outcomes["refused"] > 25


def changed(data, *steps):
    """Return the file with one field of the stored training replaced, by path of keys."""
    *path, value = steps
    form = json.loads(metadata_of(data)["fdl.train"])
    place = form
    for key in path[:-1]:
        place = {pair[0]: pair[1] for pair in place["dict"]}[key]
    for pair in place["dict"]:
        if pair[0] == path[-1]:
            pair[1] = value
    return resealed(data, **{"fdl.train": json.dumps(form)})


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (("epoch", "three"), "epoch is a str"),
        (("step", -4), "step is -4"),
        (("optimizer", None), "optimizer is a NoneType"),
        (("optimizer", "state", {"dict": [["gone", {"dict": []}]]}), "state of gone"),
        (("rng", {"dict": []}), "random numbers does not fit"),
        (("rng", "python", {"tuple": [3, {"tuple": [1]}, None]}), "random numbers does not fit"),
        (("parts", "position", {"dict": [["first", 7]]}), "position does not fit"),
        (("parts", "schedule", 5), "schedule does not fit"),
        (("optimizer", "state", "weight", "exp_avg", {"tensor": "bias"}), "has shape"),
    ],
)  # fmt: skip
def test_resume_with_one_wrong_field_names_it_and_changes_nothing(steps, message):
    data = changed(run_file(), *steps)
    model, optimizer, parts = trained(1)
    before = picture(model, optimizer, parts)
    with pytest.raises(CheckpointError, match=message):
        resume(io.BytesIO(data), model, optimizer, parts=parts)
    assert picture(model, optimizer, parts) == before


def test_resume_part_that_takes_nothing_back_is_named_and_leaves_the_others():
    class Stubborn:
        def state_dict(self):
            return {}

        def load_state_dict(self, state):
            raise RuntimeError("never")

    data = run_file()
    model, optimizer, parts = trained(1)
    before = picture(model, optimizer, parts)
    with pytest.raises(CheckpointError, match="does not take back its own"):
        resume(
            io.BytesIO(data),
            model,
            optimizer,
            parts={"schedule": parts["schedule"], "position": Stubborn()},
        )
    assert picture(model, optimizer, parts) == before


def test_resume_setting_that_was_off_is_taken():
    model, optimizer, parts = trained(0)
    optimizer.param_groups[0]["foreach"] = None
    stream = io.BytesIO()
    save_training(stream, model, optimizer, parts=parts)
    fresh, other, others = trained(1)
    other.param_groups[0]["foreach"] = False
    resume(io.BytesIO(stream.getvalue()), fresh, other, parts=others)
    assert same(fresh, model)


def test_resume_text_that_names_one_tensor_often_copies_it_once():
    model, optimizer, parts = trained(0)
    stream = io.BytesIO()
    save_training(stream, model, optimizer, extra={"big": torch.zeros(1 << 18)}, parts=parts)
    many = {"dict": [["big", {"list": [{"tensor": "train/extra/big"}] * 5_000}]]}
    data = changed(stream.getvalue(), "extra", many)
    fresh, other, others = trained(1)
    found = resume(io.BytesIO(data), fresh, other, parts=others).extra["big"]
    assert len({each.data_ptr() for each in found}) == 1


def test_resume_extra_with_tied_tensors_returns_them_tied():
    model, optimizer, parts = trained(0)
    shared = torch.arange(3.0)
    stream = io.BytesIO()
    save_training(stream, model, optimizer, parts=parts, extra={"a": shared, "b": shared})
    extra = resume(io.BytesIO(stream.getvalue()), *trained(1)[:2]).extra
    assert extra["a"] is extra["b"]
    assert torch.equal(extra["a"], shared)
