"""Batches of every kind of data set, in an order that is a pure function."""

import copy
import pickle

import pytest
import torch
from torch.utils import data as torch_data

from flodl import Batch, DataError, DataLoader, UnknownNameError


class Items(torch_data.Dataset):
    """A plain torch data set."""

    def __init__(self, n):
        self.n = n
        self.reads = 0

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        self.reads += 1
        return torch.tensor([float(index)]), index


class Many(Items):
    """Reads many samples at once."""

    def __getitems__(self, indices):
        self.reads += 1
        return [(torch.tensor([float(index)]), index) for index in indices]


class Get:
    def __len__(self):
        return 10

    def get(self, index):
        return {"image": torch.full((2,), index), "label": torch.tensor(index)}


class GetBatch:
    def __len__(self):
        return 10

    def get_batch(self, indices):
        return torch.tensor(indices), torch.tensor(indices) * 2


class Stream(torch_data.IterableDataset):
    def __iter__(self):
        return iter(torch.arange(10))


def contents(loader, epoch=0, start=0):
    return [[part.tolist() for part in batch] for batch in loader.epoch(epoch, start)]


KINDS = {
    "tensor": torch.arange(10),
    "tensors": [torch.arange(10), torch.arange(10) * 2],
    "named": {"x": torch.arange(10), "y": torch.arange(10) * 2},
    "torch tensors": torch_data.TensorDataset(torch.arange(10), torch.arange(10) * 2),
    "torch": Items(10),
    "torch many": Many(10),
    "subset": torch_data.Subset(Items(20), list(range(10, 20))),
    "list": [(torch.tensor(i), float(i)) for i in range(10)],
    "get": Get(),
    "get_batch": GetBatch(),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("drop_last", [True, False])
def test_both_modes_give_the_same_batches_from_any_position(kind, drop_last):
    options = {"seed": 5, "drop_last": drop_last}
    resident = DataLoader(KINDS[kind], 4, mode="resident", **options)
    ahead = DataLoader(KINDS[kind], 4, mode="streaming", **options)
    direct = DataLoader(KINDS[kind], 4, mode="streaming", prefetch=0, **options)
    assert len(resident) == (2 if drop_last else 3)
    for epoch in (0, 1, 7):
        whole = contents(resident, epoch)
        assert len(whole) == len(resident)
        for start in range(len(whole) + 1):
            for loader in (resident, ahead, direct):
                assert contents(loader, epoch, start) == whole[start:]


@pytest.mark.parametrize("kind", ["torch tensors", "torch", "torch many", "subset", "list"])
def test_batches_are_what_torch_makes(kind):
    mine = DataLoader(KINDS[kind], 4, shuffle=False, drop_last=False)
    torchs = torch_data.DataLoader(KINDS[kind], 4)
    for batch, twin in zip(mine.epoch(0), torchs, strict=True):
        for part, other in zip(batch, twin, strict=True):
            assert part.dtype == other.dtype
            assert torch.equal(part, other)


def test_every_sample_once_and_another_order_each_epoch():
    loader = DataLoader(torch.arange(100), 10)
    orders = [torch.cat([batch[0] for batch in loader.epoch(e)]).tolist() for e in range(3)]
    assert all(sorted(order) == list(range(100)) for order in orders)
    assert len({tuple(order) for order in orders}) == 3
    other = DataLoader(torch.arange(100), 10, seed=43)
    assert contents(other) != contents(loader)


def test_the_order_is_frozen():
    """Runs that were begun with an earlier version must go on in the same order."""
    assert contents(DataLoader(torch.arange(10), 10)) == [[FROZEN]]


FROZEN = [7, 3, 4, 6, 8, 0, 9, 1, 2, 5]


def test_modes_and_reasons():
    assert DataLoader(torch.arange(10), 2).decision == "resident: 80 bytes on cpu"
    assert DataLoader(Items(10), 2).mode == "resident"
    assert DataLoader(Items(10), 2, mode="streaming").decision == "streaming: asked for"
    assert "from its beginning" in DataLoader(Stream(), 2).decision


def test_a_resident_set_is_read_once():
    dataset = Items(50)
    loader = DataLoader(dataset, 5)
    contents(loader, 0)
    read = dataset.reads
    contents(loader, 1)
    assert dataset.reads == read < 60  # the samples, and a few to see what they are like


def test_a_stream():
    loader = DataLoader(Stream(), 4, drop_last=False)
    assert contents(loader) == [[[0, 1, 2, 3]], [[4, 5, 6, 7]], [[8, 9]]]
    assert contents(loader, 3, 1) == contents(loader)[1:]
    with pytest.raises(TypeError, match=r"the number of samples in .* is unknown"):
        len(loader)
    with pytest.raises(DataError, match="cannot be chosen"):
        DataLoader(Stream(), 4, shuffle=True)
    with pytest.raises(DataError, match="cannot be resident"):
        DataLoader(Stream(), 4, mode="resident")


def test_an_iterator_that_is_spent_is_told():
    loader = DataLoader(iter([1.0, 2.0]), 2)
    assert len(contents(loader)) == 1
    with pytest.raises(DataError, match="only once"):
        contents(loader, 1)


def test_names():
    loader = DataLoader(KINDS["tensors"], 2, names=["image", "label"], shuffle=False)
    batch = next(loader.epoch(0))
    assert batch.names == ("image", "label")
    assert batch["label"].tolist() == [0, 2]
    assert next(DataLoader(Get(), 2).epoch(0)).names == ("image", "label")
    with pytest.raises(UnknownNameError, match="image, label"):
        batch["nope"]
    with pytest.raises(DataError, match=r"3 names .* for 2 parts"):
        DataLoader(KINDS["tensors"], 2, names=["a", "b", "c"])
    with pytest.raises(DataError, match="twice"):
        DataLoader(KINDS["tensors"], 2, names=["a", "a"])


def test_a_batch():
    batch = Batch([torch.zeros(3, 2), torch.arange(3)])
    assert (len(batch), batch.size, batch.names) == (2, 3, ("0", "1"))
    assert batch.get("2", None) is None
    assert "1" in batch
    assert batch.to("meta")[0].device.type == "meta"
    assert repr(batch) == "Batch(0: float32[3, 2], 1: int64[3])"
    assert list(batch.as_dict()) == ["0", "1"]


@pytest.mark.parametrize(
    ("dataset", "arguments", "message"),
    [
        (torch.arange(3), {"batch_size": 0}, "at least 1"),
        (torch.empty(0, 3), {}, "empty"),
        ([], {}, "empty"),
        (torch.arange(3), {}, "drop_last"),
        ([torch.zeros(3), torch.zeros(4)], {}, "different numbers of samples"),
        ([torch.zeros(3)] * 20, {}, "20 tensors"),
        (3, {}, "int is no data set"),
        ("text", {}, "str is no data set"),
        (torch.arange(9), {"prefetch": -1}, "prefetch"),
        (torch.arange(9), {"workers": -1}, "workers"),
        (torch.arange(9), {"vram_max_usage": 90}, "vram_max_usage is 90"),
        (torch.arange(9), {"sampler": [1], "shuffle": True}, "contradicts"),
        (torch.arange(9), {"sampler": 3}, "int is not a sampler"),
    ],
)
def test_refusals(dataset, arguments, message):
    with pytest.raises(DataError, match=message):
        DataLoader(dataset, **{"batch_size": 4, **arguments})


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([("a", 1), ("b", 2)], "part 0 of the items of list is str"),
        ([torch.zeros(1), (torch.zeros(1),) * 2], "different numbers of parts"),
        ([(torch.zeros(1), 1), (torch.zeros(2), 1)], "different shapes"),
        ([{"a": 1}, {"b": 1}], "different keys"),
        ([{"a": 1}, {"a": 1, "b": 1}], "different keys"),
        ([{"a": 1}, 1], "different keys"),
        ([1, {"a": 1}], "not the first"),
    ],
)
def test_items_that_make_no_batch(items, message):
    with pytest.raises(DataError, match=message):
        contents(DataLoader(items, 2))


def test_arrays_of_numpy_are_tensors():
    numpy = pytest.importorskip("numpy")
    x, y = numpy.arange(8.0).reshape(4, 2), numpy.arange(4)
    for given in ([x, y], (torch.tensor(x), y), {"x": x, "y": y}):
        batch = next(DataLoader(given, 4, shuffle=False).epoch(0))
        assert torch.equal(batch[0], torch.tensor(x))
        assert batch[1].tolist() == [0, 1, 2, 3]
    x.flags.writeable = False
    assert next(DataLoader(x, 2, shuffle=False).epoch(0))[0].tolist() == [[0, 1], [2, 3]]
    assert next(DataLoader(x[::-1], 2, shuffle=False).epoch(0))[0].tolist() == [[6, 7], [4, 5]]


def test_keys_in_any_order():
    items = [{"a": 1, "b": 2}, {"b": 20, "a": 10}]
    batch = next(DataLoader(items, 2, shuffle=False).epoch(0))
    assert batch["a"].tolist() == [1, 10]
    assert batch["b"].tolist() == [2, 20]


def test_collate():
    words = ["a", "bb", "ccc"]
    loader = DataLoader(
        words, 3, shuffle=False, collate=lambda items: {"n": torch.tensor([len(i) for i in items])}
    )
    assert next(loader.epoch(0))["n"].tolist() == [1, 2, 3]


def test_plain_iteration_goes_on_with_the_next_epoch():
    loader = DataLoader(torch.arange(8), 4)
    seen = [[batch[0].tolist() for batch in loader] for _ in range(2)]
    assert seen == [[b[0] for b in contents(loader, 0)], [b[0] for b in contents(loader, 1)]]


def test_plain_iteration_resumes():
    loader = DataLoader(torch.arange(8), 2)
    list(loader)
    batches = iter(loader)
    next(batches)
    saved = loader.state_dict()
    assert saved == {"seed": 42, "batch_size": 2, "epoch": 1, "position": 1}
    other = DataLoader(torch.arange(8), 2)
    other.load_state_dict(saved)
    assert [b[0].tolist() for b in other] == [b[0].tolist() for b in batches]
    assert other.state_dict()["epoch"] == loader.state_dict()["epoch"] == 2
    with pytest.raises(DataError, match="batch_size 2; here it is 4"):
        DataLoader(torch.arange(8), 4).load_state_dict(saved)


@pytest.mark.parametrize(
    "twin",
    [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))],
    ids=["copy", "deep", "pickle"],
)
@pytest.mark.parametrize("mode", ["resident", "streaming"])
def test_copies_give_the_same_batches(twin, mode):
    loader = DataLoader(Items(10), 3, seed=4, mode=mode, names=["a", "b"])
    whole, running = contents(loader, 2), loader.epoch(2)
    next(running)
    other = twin(loader)
    assert contents(other, 2) == whole
    assert other.identity() == loader.identity()
    assert [[part.tolist() for part in batch] for batch in running] == whole[1:]


def test_builder():
    loader = (
        DataLoader.builder([torch.arange(9), torch.arange(9)])
        .batch_size(2).names(["a", "b"]).shuffle().seed(3).drop_last(False).device("cpu")
        .streaming().prefetch(3).vram_max_usage(0.8).build()
    )  # fmt: skip
    assert (len(loader), loader.mode, loader.prefetch_depth) == (5, "streaming", 3)
    assert (
        DataLoader.builder([torch.arange(9)]).batch_size(2).resident().build().mode == "resident"
    )
    with pytest.raises(DataError, match="batch_size"):
        DataLoader.builder([torch.arange(9)]).build()
    with pytest.raises(DataError, match="no batch 6"):
        loader.epoch(0, 6)
