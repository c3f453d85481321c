"""What loads where: names, shapes, dtypes, parts, wrappers and files of other programs."""

import copy
import io
import pickle
from datetime import datetime

import pytest
import torch
from torch import nn

from flodl.checkpoint import files
from flodl.checkpoint.store import load, load_checkpoint, load_subgraph, save, save_checkpoint
from flodl.errors import CheckpointError
from flodl.nn.parameters import freeze_names, is_frozen
from tests.flodl.checkpoint.samples import net, same, saved

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("name", ["m.fdl", "m.fdl.gz", "m.fdl.safetensors"])
def test_everything_comes_back(name, tmp_path):
    model, fresh = net(), net(seed=9)
    assert not same(model, fresh)
    save(model, tmp_path / name)
    report = load(fresh, tmp_path / name)
    assert same(model, fresh)
    assert report.loaded == tuple(model.state_dict())
    assert (report.skipped, report.missing, report.converted) == ((), (), ())
    assert (report.sealed, report.architecture, report.version) == (True, True, 3)
    assert str(report) == "9 loaded"


def test_equal_models_make_equal_compressed_files(tmp_path, monkeypatch):
    class Noon(datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(2026, 1, 1, 12, tzinfo=tz)

    monkeypatch.setattr(
        "flodl.checkpoint.store.datetime", Noon
    )  # the file has the second it was made
    for name in ("a.fdl.gz", "b.fdl.gz"):
        save(net(), tmp_path / name)
    one, two = ((tmp_path / name).read_bytes() for name in ("a.fdl.gz", "b.fdl.gz"))
    assert one == two


def test_what_only_one_side_has_is_reported():
    bigger = nn.Sequential(*net(), nn.Linear(2, 1))
    report = load(bigger, io.BytesIO(saved(net())), strict_hash=False)
    assert report.missing == ("4.weight", "4.bias")
    smaller = net()[:2]
    report = load(smaller, io.BytesIO(saved(net())), strict_hash=False)
    assert set(report.skipped) == {"3.weight", "3.bias"}
    assert "2 skipped (3.weight, 3.bias)" in str(report)


def test_another_architecture_is_refused_with_its_difference():
    other = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4, eps=1e-3), nn.GELU(), nn.Linear(4, 2))
    before = saved(other)[-64:]
    with pytest.raises(CheckpointError) as caught:
        load(other, io.BytesIO(saved(net())))
    assert caught.value.differences == (
        "~ 1: BatchNorm1d has eps=1e-05 in the file, 0.001 in the model",
        "~ 2: ReLU() in the file, GELU(approximate='none') in the model",
    )
    assert saved(other)[-64:] == before
    assert load(other, io.BytesIO(saved(net())), strict_hash=False).missing == ()


def test_another_shape_of_the_same_name_is_an_error_and_nothing_is_loaded():
    target = net(seed=9, width=5)
    before = {name: each.clone() for name, each in target.state_dict().items()}
    with pytest.raises(CheckpointError) as caught:
        load(target, io.BytesIO(saved(net())), strict_hash=False)
    assert "0.weight: shape [4, 3] in the file, [5, 3] in the model" in caught.value.differences
    assert all(torch.equal(before[name], each) for name, each in target.state_dict().items())


def test_dtypes_are_converted_to_the_models():
    target = net(seed=9).double()
    report = load(target, io.BytesIO(saved(net())))
    assert len(report.converted) == 8  # all but the counter of the batch norm
    assert target[0].weight.dtype == torch.float64
    assert torch.equal(target[0].weight, net()[0].weight.double())


def test_a_part_of_a_file():
    whole = nn.ModuleDict({"encoder": net(), "head": nn.Linear(2, 2)})
    part = net(seed=9)
    report = load(part, io.BytesIO(saved(whole)), prefix="encoder")
    assert same(part, whole["encoder"])
    assert report.missing == ()
    with pytest.raises(CheckpointError, match="nothing in the file is below 'decoder'"):
        load(part, io.BytesIO(saved(whole)), prefix="decoder")


def test_a_part_of_a_model():
    alone = net()
    whole = nn.ModuleDict(
        {"reader": nn.ModuleDict({"encoder": net(seed=9)}), "head": nn.Linear(2, 2)}
    )
    head = whole["head"].weight.clone()
    report = load_subgraph(whole, "reader.encoder", io.BytesIO(saved(alone)))
    assert same(whole["reader"]["encoder"], alone)
    assert torch.equal(whole["head"].weight, head)
    assert freeze_names(whole["reader"]["encoder"], report.loaded)
    assert is_frozen(whole["reader"])
    with pytest.raises(CheckpointError, match=r"no part 'reader\.decoder'"):
        load_subgraph(whole, "reader.decoder", io.BytesIO(saved(alone)))
    with pytest.raises(CheckpointError, match="another architecture"):
        load_subgraph(whole, "head", io.BytesIO(saved(alone)))


def test_renaming():
    old, new = nn.Sequential(nn.Linear(2, 2)), nn.ModuleDict({"fc": nn.Linear(2, 2)})
    names = {"0.weight": "fc.weight", "0.bias": "fc.bias"}
    report = load(new, io.BytesIO(saved(old)), rename=names)
    assert report.loaded == ("fc.weight", "fc.bias")
    assert torch.equal(new["fc"].weight, old[0].weight)
    with pytest.raises(CheckpointError, match=r"the file has no 1\.weight"):
        load(new, io.BytesIO(saved(old)), rename={"1.weight": "fc.weight"})
    with pytest.raises(CheckpointError, match="would both become"):
        load(new, io.BytesIO(saved(old)), rename={"0.weight": "fc.weight", "0.bias": "fc.weight"})


def test_tied_weights_are_stored_once_and_stay_tied():
    def tied(seed):
        torch.manual_seed(seed)
        model = nn.ModuleDict(
            {"embed": nn.Embedding(300, 8), "out": nn.Linear(8, 300, bias=False)}
        )
        model["out"].weight = model["embed"].weight
        return model

    data = saved(tied(0))
    assert len(data) < 2 * 300 * 8 * 4 + 2000
    fresh = tied(1)
    report = load(fresh, io.BytesIO(data))
    assert report.loaded == ("embed.weight", "out.weight")
    assert torch.equal(fresh["out"].weight, tied(0)["out"].weight)
    assert fresh["out"].weight is fresh["embed"].weight
    untied = nn.ModuleDict({"embed": nn.Embedding(300, 8), "out": nn.Linear(8, 300, bias=False)})
    load(untied, io.BytesIO(data))
    assert torch.equal(untied["out"].weight, tied(0)["embed"].weight)
    assert files.checkpoint_keys(io.BytesIO(data)) == ("embed.weight", "out.weight")


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
@pytest.mark.slow
def test_wrappers_leave_no_trace():
    plain = net()
    compiled = torch.compile(net())
    assert saved(compiled)[-200:] == saved(plain)[-200:]
    assert load(compiled, io.BytesIO(saved(plain))).missing == ()
    assert load(nn.DataParallel(net(seed=4)), io.BytesIO(saved(plain))).missing == ()


def test_state_that_is_no_tensor_is_refused():
    class Odd(nn.Linear):
        def get_extra_state(self):
            return {"a": 1}

    with pytest.raises(CheckpointError, match="_extra_state"):
        saved(Odd(1, 1))


def test_questions(tmp_path):
    path = tmp_path / "m.fdl"
    save(net(), path, config="lr: 0.1")
    assert files.checkpoint_version(path) == 3
    assert set(files.checkpoint_keys(path)) == set(net().state_dict())
    assert files.checkpoint_config(path) == "lr: 0.1"
    assert files.verify(path) == ()
    assert files.checkpoint_config(io.BytesIO(saved(net()))) is None
    assert load(net(seed=2), io.BytesIO(files.to_bytes(net()))).sealed
    with pytest.raises(CheckpointError, match="no such file"):
        files.checkpoint_version(tmp_path / "none.fdl")


def test_lists_of_named_tensors(tmp_path):
    path = tmp_path / "m.fdl"
    model, fresh = net(), net(seed=9)
    digest = "a" * 64
    files.save_checkpoint_file(path, model.named_parameters(), model.named_buffers(), digest)
    report = files.load_checkpoint_file(
        path, fresh.named_parameters(), fresh.named_buffers(), digest
    )
    assert same(model, fresh)
    assert report.missing == ()
    only = nn.Linear(3, 4)
    report = files.load_checkpoint_file(path, [(f"0.{n}", p) for n, p in only.named_parameters()])
    assert len(report.skipped) == 7
    with pytest.raises(CheckpointError, match="architecture aaaaaaaa, not bbbbbbbb"):
        files.load_checkpoint_file(path, fresh.named_parameters(), (), "b" * 64)
    with pytest.raises(CheckpointError, match="given twice"):
        files.save_checkpoint_file(path, [*model.named_parameters(), *model.named_parameters()])


def test_load_checkpoint_file_reads_a_stream_with_a_hash():
    model, fresh = net(), net(seed=9)
    stream = io.BytesIO()
    digest = "a" * 64
    files.save_checkpoint_file(stream, model.named_parameters(), model.named_buffers(), digest)
    stream.seek(0)
    report = files.load_checkpoint_file(
        stream, fresh.named_parameters(), fresh.named_buffers(), digest
    )
    assert same(model, fresh)
    assert report.architecture
    stream.seek(0)
    with pytest.raises(CheckpointError, match="architecture aaaaaaaa, not bbbbbbbb"):
        files.load_checkpoint_file(stream, fresh.named_parameters(), (), "b" * 64)


@pytest.mark.parametrize(
    "question",
    [files.checkpoint_version, files.checkpoint_keys, files.checkpoint_config, files.verify],
)
def test_question_leaves_a_stream_where_it_was(question):
    stream = io.BytesIO(b"before" + saved(net()))
    stream.seek(6)
    question(stream)
    assert stream.tell() == 6
    fresh = net(seed=9)
    assert load_checkpoint(stream, fresh).missing == ()
    assert same(fresh, net())


def test_save_of_a_used_up_generator_raises_and_writes_nothing(tmp_path):
    model = net()
    named, buffers = model.named_parameters(), model.named_buffers()
    files.save_checkpoint_file(tmp_path / "one.fdl", named, buffers)
    with pytest.raises(ValueError, match="generator of named_parameters was already read"):
        files.save_checkpoint_file(tmp_path / "two.fdl", named, model.named_buffers())
    with pytest.raises(ValueError, match="generator of named_buffers was already read"):
        files.save_checkpoint_file(tmp_path / "two.fdl", model.named_parameters(), buffers)
    assert not (tmp_path / "two.fdl").exists()
    plain = nn.Linear(1, 1)  # without buffers: an empty generator that nobody read
    files.save_checkpoint_file(
        tmp_path / "two.fdl", plain.named_parameters(), plain.named_buffers()
    )


def test_load_that_matches_nothing_raises():
    other = nn.ModuleDict({"encoder": net(seed=9)})
    before = copy.deepcopy(other)
    data = saved(net())
    for call in (
        lambda: load(other, io.BytesIO(data), strict_hash=False),
        lambda: load_checkpoint(io.BytesIO(data), dict(other.named_parameters())),
        lambda: files.load_checkpoint_file(io.BytesIO(data), list(other.named_parameters())),
        lambda: load_checkpoint(io.BytesIO(data), {}),
    ):
        with pytest.raises(CheckpointError, match="no name of the file is a name of the model"):
            call()
    assert same(other, before)
    empty = nn.ReLU()
    assert str(load(empty, io.BytesIO(saved(empty)))) == "0 loaded"


def test_bare_tensors():
    stream = io.BytesIO()
    save_checkpoint(stream, {"a": torch.ones(2)}, config="x")
    target = {"a": torch.zeros(2), "b": torch.zeros(1)}
    report = load_checkpoint(io.BytesIO(stream.getvalue()), target)
    assert target["a"].tolist() == [1.0, 1.0]
    assert report.missing == ("b",)
    stream = io.BytesIO()
    save_checkpoint(stream, net())
    fresh = net(seed=9)
    assert load_checkpoint(io.BytesIO(stream.getvalue()), fresh).architecture
    assert same(fresh, net())


@pytest.mark.parametrize(
    "wrap", [lambda s: s, lambda s: {"state_dict": s, "epoch": 3}], ids=["bare", "in-a-dict"]
)
def test_weights_of_torch_save(wrap, tmp_path):
    path = tmp_path / "m.pt"
    torch.save(wrap(net().state_dict()), path)
    fresh = net(seed=9)
    report = load(fresh, path)
    assert same(fresh, net())
    assert (report.sealed, report.version) == (False, 0)
    old = tmp_path / "old.pt"
    torch.save(net().state_dict(), old, _use_new_zipfile_serialization=False)
    assert load(net(seed=9), old).missing == ()


class Bomb:
    def __reduce__(self):
        return (print, ("this must never run",))


def test_a_pickle_cannot_run_code(tmp_path, capsys):
    path = tmp_path / "m.pt"
    torch.save({"model": Bomb()}, path)
    with pytest.raises(CheckpointError, match="could run code"):
        load(net(), path)
    path.write_bytes(pickle.dumps(Bomb(), protocol=2))
    with pytest.raises(CheckpointError):
        load(net(), path)
    torch.save({"epoch": 3}, path)
    with pytest.raises(CheckpointError, match="without tensors by name"):
        load(net(), path)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "data", [b"", b"abc", b"\x1f\x8b", b"FDLC", b"PK\x03\x04xx", b"\x80\x02."], ids=repr
)
def test_files_that_are_nothing(data, tmp_path):
    path = tmp_path / "m.fdl"
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match=r"m\.fdl"):
        load(net(), path)
