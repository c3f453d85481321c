"""Data sets of well-known files: what is read, what is missing, and what a file may not do."""

import collections
import gzip
import math
import pickle
import struct

import numpy as np
import pytest
import torch

from flodl import Cifar10, DataError, DataLoader, Mnist, Shakespeare
from flodl.data.known.array_pickle import read_pickled_table

pytestmark = pytest.mark.torch


def idx(array):
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


@pytest.fixture
def digits():
    return np.random.default_rng(0).integers(0, 256, (5, 28, 28), dtype=np.uint8)


def write_mnist(folder, images, labels, part="train", ending="-ubyte"):
    folder.mkdir(parents=True, exist_ok=True)
    files = {f"{part}-images-idx3{ending}": images, f"{part}-labels-idx1{ending}": labels}
    for name, array in files.items():
        data = idx(array)
        (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)


@pytest.mark.parametrize("place", ["", "raw", "MNIST/raw"])
@pytest.mark.parametrize("ending", ["-ubyte", "-ubyte.gz"])
def test_mnist_reads_pictures_and_labels(tmp_path, digits, place, ending):
    labels = np.array([3, 1, 4, 1, 5], dtype=np.uint8)
    write_mnist(tmp_path / place, digits, labels, ending=ending)
    data = Mnist(tmp_path)
    batch = data.get_batch([4, 0])
    assert torch.equal(batch["image"][0, 0], torch.from_numpy(digits[4]).float() / 255)
    assert batch["label"].tolist() == [5, 3]
    assert data.images.shape == (5, 1, 28, 28)


def test_mnist_test_part_reads_other_files(tmp_path, digits):
    write_mnist(tmp_path, digits, np.arange(5, dtype=np.uint8), part="t10k")
    assert Mnist(tmp_path, train=False).labels.tolist() == [0, 1, 2, 3, 4]


def test_mnist_missing_files_are_all_named(tmp_path, digits):
    with pytest.raises(DataError, match=r"there is no folder .*nothing"):
        Mnist(tmp_path / "nothing")
    both = r"lacks train-images-idx3-ubyte, train-labels-idx1-ubyte; .*download=True"
    with pytest.raises(DataError, match=both):
        Mnist(tmp_path)
    (tmp_path / "train-images-idx3-ubyte").write_bytes(idx(digits))
    with pytest.raises(DataError, match=r"lacks train-labels-idx1-ubyte;"):
        Mnist(tmp_path)


def test_mnist_damaged_files_say_what_is_wrong(tmp_path, digits):
    labels = np.arange(5, dtype=np.uint8)
    write_mnist(tmp_path, digits, labels)
    images = tmp_path / "train-images-idx3-ubyte"
    whole = images.read_bytes()
    for data, message in (
        (whole[:-1], r"should hold 3920 bytes for \[5, 28, 28\] and holds 3919"),
        (whole + b"x", r"and holds 3921"),
        (whole[:9], r"no IDX file of bytes with 3 dimension"),
        (b"", r"begins with nothing"),
        (b"\0\0\x0d\x03" + whole[4:], r"begins with 00 00 0d 03"),
        (idx(digits[:4]), r"holds 4 pictures and .* 5 labels"),
    ):
        images.write_bytes(data)
        with pytest.raises(DataError, match=message):
            Mnist(tmp_path)
    images.unlink()
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(whole)[:-20])
    with pytest.raises(DataError, match="fetch the file again"):
        Mnist(tmp_path)


def cifar_batch(n, protocol=2, key=str.encode, seed=0):
    data = np.random.default_rng(seed).integers(0, 256, (n, 3072), dtype=np.uint8)
    table = {key("data"): data, key("labels"): [each % 10 for each in range(n)]}
    return data, pickle.dumps(table, protocol=protocol)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_cifar10_reads_batches_of_every_protocol(tmp_path, protocol):
    whole = []
    for n in range(1, 6):
        data, text = cifar_batch(4, protocol, seed=n)
        whole.append(data)
        (tmp_path / f"data_batch_{n}").write_bytes(text)
    data = Cifar10(tmp_path)
    expected = torch.from_numpy(np.concatenate(whole)).reshape(20, 3, 32, 32)
    assert torch.equal(data.images, expected)
    batch = data.get_batch([19, 3])
    assert torch.equal(batch["image"], expected[[19, 3]].float() / 255)
    assert batch["label"].tolist() == [3, 3]


def test_cifar10_reads_pickles_of_python_2(tmp_path):
    # As the distributed files are written: text and data are `str` of Python 2, the array in Fortran order.
    picture = bytes(range(256)) * 12
    state = (
        b"(I1\n(I1\nI3072\ntcnumpy\ndtype\n(S'u1'\nI0\nI1\ntR(I3\nS'|'\nNNNI-1\nI-1\nI0\ntbI01\n"
    )
    array = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR"
    long_string = b"T" + struct.pack("<i", 3072) + picture
    text = b"(dS'data'\n" + array + state + long_string + b"tbsS'labels'\n(lI6\nas."
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    (folder / "test_batch").write_bytes(text)
    data = Cifar10(tmp_path, train=False)
    assert data.images.flatten().tolist() == list(picture)
    assert data.labels.tolist() == [6]


def test_cifar10_missing_batches_are_named_and_an_archive_is_noticed(tmp_path):
    for n in (1, 3):
        (tmp_path / f"data_batch_{n}").write_bytes(cifar_batch(2)[1])
    with pytest.raises(DataError, match="lacks data_batch_2, data_batch_4, data_batch_5; put"):
        Cifar10(tmp_path)
    (tmp_path / "cifar-10-python.tar.gz").write_bytes(b"")
    with pytest.raises(DataError, match=r"`tar -xzf cifar-10-python.tar.gz`"):
        Cifar10(tmp_path)


class _Runs:
    """Unpickled in the usual way, it makes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def pickled_global(module, name):
    return b"c" + module.encode() + b"\n" + name.encode() + b"\n."


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda path: pickle.dumps({b"data": _Runs(path)}), id="reduce"),
        pytest.param(lambda _: pickled_global("os", "system"), id="global"),
        pytest.param(lambda _: pickled_global("numpy", "load"), id="another name of numpy"),
        pytest.param(lambda _: pickled_global("numpy.core.multiarray", "scalar"), id="scalar"),
        pytest.param(lambda _: b"(S'true'\nios\nsystem\n.", id="instance"),
        pytest.param(lambda _: b"\x82\x01.", id="extension"),
        pytest.param(lambda _: b"Pname\n.", id="persistent name"),
        pytest.param(lambda _: pickle.dumps(collections.OrderedDict(a=1)), id="another class"),
    ],
)
def test_cifar10_pickle_that_names_something_else_is_refused(tmp_path, make):
    witness = tmp_path / "witness"
    (tmp_path / "test_batch").write_bytes(make(witness))
    with pytest.raises(DataError, match=r"test_batch cannot be read as a pickle of arrays"):
        Cifar10(tmp_path, train=False)
    assert not witness.exists()


def test_pickle_cannot_change_the_stand_ins(tmp_path):
    # BUILD sets attributes: here of the function that makes a type, and of a class.
    for name, state in (("dtype", b"N}(X\x04\0\0\0kindX\x05\0\0\0arrayu\x86"), ("ndarray", b"}")):
        changed = b"\x80\x02cnumpy\n" + name.encode() + b"\n" + state + b"b."
        with pytest.raises(DataError, match="it changes the"):
            read_pickled_table(changed, tmp_path / "file")
    usual = read_pickled_table(cifar_batch(1)[1], tmp_path / "file")
    assert usual["data"].shape == (1, 3072)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([1], "holds a list, not a dictionary"),
        ({b"labels": []}, "`data` should be bytes"),
        ({b"data": np.zeros((2, 3072), np.uint8), b"labels": [1]}, "should be 2 numbers from 0"),
        ({b"data": np.zeros((1, 3072), np.uint8), b"labels": [10]}, "numbers from 0 to 9"),
        ({b"data": np.zeros((1, 3072), np.int16), b"labels": [1]}, "array that is not of bytes"),
        ({b"data": np.zeros((1, 3072), object), b"labels": [1]}, "array that is not of bytes"),
    ],
)
def test_cifar10_other_content_is_refused(tmp_path, table, message):
    (tmp_path / "test_batch").write_bytes(pickle.dumps(table))
    with pytest.raises(DataError, match=message):
        Cifar10(tmp_path, train=False)


def test_cifar10_cut_file_is_refused(tmp_path):
    (tmp_path / "test_batch").write_bytes(cifar_batch(2)[1][:-500])
    with pytest.raises(DataError, match="test_batch cannot be read"):
        Cifar10(tmp_path, train=False)


def test_pickled_array_in_fortran_order_keeps_its_rows(tmp_path):
    array = np.asfortranarray(np.arange(12, dtype=np.uint8).reshape(3, 4))
    for protocol in (2, pickle.HIGHEST_PROTOCOL):
        found = read_pickled_table(pickle.dumps({"a": array}, protocol), tmp_path / "file")
        assert found["a"].tolist() == array.tolist()


TEXT = "First Citizen:\nBefore we proceed any further, hear me speak.\n" * 4


def test_shakespeare_windows_cover_the_text_and_targets_are_next(tmp_path):
    (tmp_path / "input.txt").write_text(TEXT, encoding="utf-8")
    data = Shakespeare(tmp_path, length=10)
    border = int(len(TEXT) * 0.9)
    assert len(data) == (border - 1) // 10
    batch = data.get_batch(list(range(len(data))))
    assert data.decode(batch["input"].flatten()) == TEXT[: 10 * len(data)]
    assert data.decode(batch["target"].flatten()) == TEXT[1 : 10 * len(data) + 1]
    assert data.vocabulary == "".join(sorted(set(TEXT)))


def test_shakespeare_other_part_has_the_rest_and_the_same_vocabulary(tmp_path):
    (tmp_path / "tinyshakespeare.txt").write_text(TEXT + "Z", encoding="utf-8")
    train, test = (Shakespeare(tmp_path, length=4, train=each) for each in (True, False))
    assert train.vocabulary == test.vocabulary
    assert train.decode(train.tokens) + test.decode(test.tokens) == TEXT + "Z"


def test_shakespeare_stride_moves_the_windows(tmp_path):
    (tmp_path / "input.txt").write_text(TEXT, encoding="utf-8")
    data = Shakespeare(tmp_path, length=10, stride=3)
    assert data.decode(data.get_batch([2])["input"][0]) == TEXT[6:16]
    assert len(data) == math.floor((int(len(TEXT) * 0.9) - 11) / 3) + 1


def test_shakespeare_errors_say_what_to_do(tmp_path):
    with pytest.raises(DataError, match=r"lacks input.txt; put a text there"):
        Shakespeare(tmp_path)
    (tmp_path / "input.txt").write_text("short", encoding="utf-8")
    with pytest.raises(
        DataError, match=r"has 4 characters, .* needs 129; give a smaller `length`"
    ):
        Shakespeare(tmp_path)
    with pytest.raises(DataError, match="lacks 'q', 'z'"):
        Shakespeare(tmp_path, length=2).encode("zq")
    with pytest.raises(DataError, match="stride is 0"):
        Shakespeare(tmp_path, length=2, stride=0)
    (tmp_path / "input.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="is not UTF-8"):
        Shakespeare(tmp_path, length=1)


def test_loader_gives_names_and_keeps_a_small_set_in_memory(tmp_path, digits):
    write_mnist(tmp_path, digits, np.arange(5, dtype=np.uint8))
    loader = DataLoader(Mnist(tmp_path), 5, seed=3)
    (batch,) = loader.epoch(0)
    assert loader.mode == "resident"
    assert sorted(batch["label"].tolist()) == [0, 1, 2, 3, 4]
    assert torch.equal(batch["image"][:, 0], torch.from_numpy(digits)[batch["label"]] / 255)
