"""Steps that the C++ compiler has made, in a process of its own."""

import pytest
import torch

from flodl.nn.optimizers import Adam
from flodl.step import artifact, tiering
from flodl.step.artifact import compiler_missing
from flodl.step.step import make_step
from tests.flodl.step.helpers import batches, net, train_fn

pytestmark = [pytest.mark.torch, pytest.mark.slow]
needs_compiler = pytest.mark.skipif(
    compiler_missing(torch.device("cpu")) is not None, reason="there is no C++ compiler"
)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@needs_compiler
def test_a_compiled_step_equals_eager_and_is_found_again(cache, monkeypatch):
    monkeypatch.setenv("FLODL_CACHE_DIR", str(cache))
    decisions = []
    for _ in range(2):
        model, twin = net(), net()
        step = make_step(model, Adam(model, 0.01), train_fn, mode="compiled", clip_norm=1.0)
        losses = [step(batch) for batch in batches(20)]
        expected = make_step(twin, Adam(twin, 0.01), train_fn, mode="eager", clip_norm=1.0)
        torch.testing.assert_close(
            torch.stack(losses), torch.stack([expected(batch) for batch in batches(20)]),
            rtol=1e-4, atol=1e-5,
        )  # fmt: skip
        assert step.mode == "compiled", step.decision
        decisions.append(step.decision)
    assert "compiled in" in decisions[0]
    assert "compiled from an earlier run" in decisions[1]
    assert [each.name for each in cache.glob("steps/*/*.so")] == ["step.so"]
    assert not list(cache.glob("steps/*.partial"))


@needs_compiler
def test_auto_finds_what_an_earlier_run_has_compiled(cache, monkeypatch):
    if not list(cache.glob("steps/*/*.so")):
        pytest.skip("the test before this one has compiled nothing")
    monkeypatch.setenv("FLODL_CACHE_DIR", str(cache))
    monkeypatch.setattr(tiering, "_SECONDS_BEFORE_TRYING", 0.0)
    model = net()
    step = make_step(model, Adam(model, 0.01), train_fn, mode="auto", clip_norm=1.0)
    for batch in batches(40):
        step(batch)
    assert "ms eager)" in step.decision
    assert "compiled from an earlier run" in step.decision


@needs_compiler
def test_a_step_in_two_parts_is_compiled(tmp_path, monkeypatch):
    monkeypatch.setenv("FLODL_CACHE_DIR", str(tmp_path))
    settings = {"accumulate": 2, "precision": "fp16"}
    model, twin = net(), net()
    step = make_step(model, Adam(model, 0.01), train_fn, mode="compiled", **settings)
    losses = [step(batch) for batch in batches(12)]
    expected = make_step(twin, Adam(twin, 0.01), train_fn, mode="eager", **settings)
    torch.testing.assert_close(
        torch.stack(losses), torch.stack([expected(batch) for batch in batches(12)]),
        rtol=1e-2, atol=1e-2,
    )  # fmt: skip
    assert step.mode == "compiled", step.decision
    assert len(list(tmp_path.glob("steps/*/*.so"))) == 2


@needs_compiler
def test_the_loop_goes_on_while_something_is_compiled(tmp_path, monkeypatch):
    monkeypatch.setenv("FLODL_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(tiering, "_SECONDS_BEFORE_TRYING", 0.0)
    model, said = net(), []
    step = make_step(model, Adam(model, 0.01), train_fn, mode="auto", report=said.append)
    for batch in batches(30):
        step(batch)
    assert len(said) == 2
    assert "is compiled beside it" in said[1]
    step.close()
    assert torch.isfinite(step(batches(1)[0]))
    assert not list(tmp_path.glob("steps/*/*.so"))


def test_without_a_compiler_it_says_so_and_runs_eagerly(monkeypatch):
    monkeypatch.setattr(artifact.shutil, "which", lambda name: None)
    monkeypatch.delenv("CXX", raising=False)
    model, said = net(), []
    step = make_step(model, Adam(model, 0.01), train_fn, mode="compiled", report=said.append)
    for batch in batches():
        step(batch)
    assert said[1:] == ["eager: no C++ compiler (g++, clang++, c++, cl) was found"]
    assert step.mode == "eager"


def test_a_failing_compiler_is_reported(tmp_path, monkeypatch):
    monkeypatch.setenv("FLODL_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("CXX", "/bin/false")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    model = net()
    step = make_step(model, Adam(model, 0.01), train_fn, mode="compiled")
    for batch in batches():
        step(batch)
    assert step.mode == "eager"
    assert "eager: compiling failed: " in step.decision
