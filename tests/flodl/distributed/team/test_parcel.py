"""A job travels as a file, or an error names what cannot."""

import operator
import pickle
import threading
import types

import pytest
import torch

from flodl.distributed.team import TeamError, launch, parcel


def double(team, value):
    return value * 2


def job(*args, **kwargs):
    return {"function": double, "args": args, "kwargs": kwargs}


def test_pack_keeps_function_arguments_and_shared_tensors(tmp_path):
    data = torch.arange(6.0)
    parcel.pack(job(data, part=data[2:4]), tmp_path / "parcel")
    found = parcel.unpack(tmp_path / "parcel")
    assert found["function"] is double
    found["args"][0][2] = 50.0
    assert found["kwargs"]["part"].tolist() == [50.0, 3.0]


def test_unpack_twice_shares_no_write(tmp_path):
    parcel.pack(job(torch.zeros(4)), tmp_path / "parcel")
    first, second = (parcel.unpack(tmp_path / "parcel")["args"][0] for _ in range(2))
    first += 1
    assert second.tolist() == [0.0] * 4


@pytest.mark.parametrize(
    ("args", "kwargs", "named"),
    [
        ((1, lambda: 1), {}, r"argument 2, a function '.*<lambda>', cannot travel"),
        (
            (),
            {"data": {"maps": [abs, lambda: 1]}},
            r"argument data\['maps'\]\[1\], a function '.*<lambda>', cannot",
        ),
    ],
)
def test_pack_without_cloudpickle_names_the_object(tmp_path, monkeypatch, args, kwargs, named):
    monkeypatch.setattr(parcel, "_cloudpickle", lambda: None)
    with pytest.raises(TeamError, match=named) as caught:
        parcel.pack(job(*args, **kwargs), tmp_path / "parcel")
    for way in ("top level of a module", "pip install cloudpickle", "plain arguments"):
        assert way in str(caught.value)


def test_launch_with_a_lock_starts_no_process(tmp_path):
    with pytest.raises(TeamError, match="argument 1, a lock, cannot travel to another process"):
        launch(double, threading.Lock(), devices=2, run_dir=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_pack_with_a_function_of_the_script_asks_for_cloudpickle(tmp_path, monkeypatch):
    def in_script(team):
        return None

    in_script.__module__ = "__main__"
    monkeypatch.setattr(parcel, "_cloudpickle", lambda: None)
    with pytest.raises(
        TeamError,
        match=r"the function, a function '.*in_script', .* is defined in the script itself",
    ):
        parcel.pack({"function": in_script, "args": (), "kwargs": {}}, tmp_path / "parcel")


def test_pack_with_cloudpickle_installed_uses_it_only_where_needed(tmp_path, monkeypatch):
    used = []

    class ByValue(pickle.Pickler):
        def reducer_override(self, obj):
            used.append(obj)
            return (
                (operator.attrgetter, ("real",))
                if isinstance(obj, types.FunctionType)
                else NotImplemented
            )

    stand_in = types.SimpleNamespace(Pickler=ByValue, dump=pickle.dump, __name__="cloudpickle")
    monkeypatch.setattr(parcel, "_cloudpickle", lambda: stand_in)
    parcel.pack(job(1), tmp_path / "parcel")
    assert used == []
    parcel.pack(job(lambda: 1), tmp_path / "parcel")
    assert parcel.unpack(tmp_path / "parcel")["args"][0](3 + 4j) == 3.0


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"devices": 0}, "without devices"),
        ({"devices": ["cpu", "gpu9"]}, "'gpu9' is no device"),
        ({"devices": ["cuda:0", "cuda:0"]}, "'cuda:0' is named 2 times"),
        ({"devices": 2, "patience": 0}, "patience is 0"),
        ({"devices": 2, "min_ranks": 3}, "min_ranks is 3 with 2 devices"),
    ],
)
def test_launch_with_impossible_settings_is_refused(tmp_path, settings, told):
    with pytest.raises(TeamError, match=told):
        launch(double, 1, run_dir=tmp_path, **settings)
