"""An object that a forward makes and hands on is made by a step: each call has its own."""

import json
import textwrap

import pytest

from fdl_cli.app import main

SCRIPT = """
import enum
import dataclasses
import typing
import torch
import torch.nn as nn
from caches import DynamicCache
import caches


class Cache:
    def __init__(self):
        self.items = []

    def update(self, x):
        self.items.append(x)
        return torch.cat(self.items)


class Way(enum.Enum):
    UP = 1


class Pair(typing.NamedTuple):
    first: int = 1


@dataclasses.dataclass(frozen=True)
class Settings:
    factor: int = 2


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)

    def forward(self, x, cache=None, settings=None, way=None):
        y = self.a(x)
        return y if cache is None else cache.update(y)


class Net(nn.Module):
    def __init__(self, use_cache=True):
        super().__init__()
        self.one = Layer()
        self.two = Layer()
        self.use_cache = use_cache

    def forward(self, x, cache=None):
BODY


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Net()

    def forward(self, x):
        y = self.net(x)
        return y
"""
CACHES = """
import torch


class DynamicCache:
    def __init__(self, start=0):
        self.items = []

    @classmethod
    def empty(cls):
        return cls()

    def update(self, x):
        self.items.append(x)
        return torch.cat(self.items)
"""
TWICE = "return self.two(self.one(x, cache), cache)"
BODIES = {
    "local": (
        "cache = Cache()\ny = self.one(x, cache)\nreturn self.two(y, cache)",
        "cache = call(Cache)",
    ),
    "if none": (
        f"if cache is None:\n    cache = DynamicCache(start=3)\n{TWICE}, cache",
        "cache = call(DynamicCache, start=3)",
    ),
    "conditional": (
        f"cache = caches.DynamicCache() if cache is None else cache\n{TWICE}",
        "cache = call(caches.DynamicCache) if cache is None else cache",
    ),
    "or": (
        "cache = cache or Cache()\ny = self.one(x, cache)\nreturn self.two(y, cache)",
        "cache = cache or call(Cache)",
    ),
    "annotated": (
        "kept: Cache = Cache()\ny = self.one(x, kept)\nreturn self.two(y, cache=kept)",
        "call(Cache)",
    ),
    "class method": (
        "kept = DynamicCache.empty()\ny = self.one(x, kept)\nreturn self.two(y, cache=kept)",
        "kept = call(DynamicCache.empty)",
    ),
    "only asked": (
        "kept = Cache()\ny = self.one(x)\nif isinstance(kept, Cache):\n    y = y * 2\nreturn y",
        "kept = call(Cache)",
    ),
    "used here": (
        "kept = Cache()\ny = kept.update(self.one(x))\nreturn kept.update(y)",
        "kept = call(Cache)",
    ),
    "argument": (
        "y = self.one(x, Cache())\nreturn self.two(y, cache=DynamicCache())",
        "x.through(self.one, call(Cache)).through(self.two, cache=call(DynamicCache))",
    ),
}
LEFT = {
    "settled": "y = self.one(x, settings=Settings(3))\nreturn self.two(y, settings=Pair(2), way=Way(1))",
}  # fmt: skip


def script_with(body):
    return SCRIPT.replace("BODY", textwrap.indent(body, " " * 8))


@pytest.mark.parametrize("name", BODIES)
def test_it_is_made_by_a_step(porter, name):
    body, made = BODIES[name]
    text = porter.text(script_with(body))
    assert made in text
    assert "class Net(FlowModule)" in text


@pytest.mark.parametrize("name", LEFT)
def test_what_nobody_changes_stays_as_it_is_written(porter, name):
    text = porter.text(script_with(LEFT[name]))
    assert "class Net(FlowModule)" in text
    assert not {f"call({kind}" for kind in ("Cache", "Settings", "Pair", "Way")} & set(
        text.split()
    )
    assert "call(Cache)" not in text


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize("name", [*BODIES, *LEFT])
def test_the_port_is_proved_equal(tmp_path, capsys, name):
    body = BODIES[name][0] if name in BODIES else LEFT[name]
    (tmp_path / "caches.py").write_text(CACHES, encoding="utf-8")
    (tmp_path / "net.py").write_text(script_with(body), encoding="utf-8")
    main(["port", str(tmp_path / "net.py"), "-o", str(tmp_path / "port.py"), "--json"])
    (report,) = json.loads(capsys.readouterr().out)["data"]["files"]
    found = {
        item["name"]: (item["status"], item["verify"]["status"]) for item in report["classes"]
    }
    assert found == dict.fromkeys(("Layer", "Net", "Outer"), ("graph", "equal"))
