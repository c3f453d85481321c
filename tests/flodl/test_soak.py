"""Long runs: memory stays flat, modules that are gone are freed, and threads compute the same."""

import gc
import linecache
import subprocess
import sys
import textwrap
import threading
import weakref
from pathlib import Path

import pytest
import torch
from torch import nn

from flodl import Flow, FlowBuilder, FlowModule

pytestmark = [pytest.mark.torch, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
MEGABYTE = 1 << 20
HEAD = """
import sys
import torch
import torch.nn.functional as F
from flodl import Trainer, view
from tests.flodl.test_soak import Block, resident

def measured(step):
    if step in (2_000, 8_000):
        print(resident(), flush=True)
"""
LOOP = """
torch.manual_seed(0)
model = Block()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(1, 8_001):
    x = torch.randn(1 + step % 3, 8)  # several plans
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), x)
    loss.backward()
    optimizer.step()
    view(model).end_step()
    measured(step)
"""
TRAINER = """
x = torch.randn(400, 8)
builder = Trainer.builder(
    Block,
    lambda params: torch.optim.Adam(params, lr=1e-3),
    lambda model, batch: F.mse_loss(model(batch[0]), batch[0]),
)
state = (
    builder.dataset([x]).batch_size(4).num_epochs(80).seed(0).step("eager").progress(False)
    .run_dir(sys.argv[1]).checkpoints(steps=1_000, keep_last=2)
    .on("step", lambda training, loss: measured(training.step)).run().join()
)
assert state.steps == 8_000
"""


class Block(FlowModule):
    """A residual block with a state, an observed tag and a test for the size."""

    def __init__(self):
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(8, 16), nn.Linear(16, 8), nn.LayerNorm(8)

    def flow(self, x: Flow):
        y = self.norm(self.down(torch.relu(self.up(x))))
        if x.size(0) > 1:
            y = y * 0.5
        return (x + y).tag("sum")


def resident():
    """Return the memory of this process, after all that waits is freed."""
    gc.collect()
    return 4096 * int(Path("/proc/self/statm").read_text().split()[1])


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux's /proc")
@pytest.mark.parametrize("source", [LOOP, TRAINER], ids=["loop", "trainer"])
def test_training_of_eight_thousand_steps_has_flat_memory(source, tmp_path):
    words = [sys.executable, "-c", HEAD + textwrap.dedent(source), str(tmp_path / "run")]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    before, after = map(int, done.stdout.split())
    assert (
        after - before < 2 * MEGABYTE * 6_000 // 18_000
    )  # as many bytes a step as 2 MB in 18,000


@pytest.mark.parametrize(
    "make", [Block, lambda: FlowBuilder.from_(nn.Linear(8, 8)).also(nn.Tanh()).tag("t").build()],
    ids=["module", "builder"],
)  # fmt: skip
def test_six_hundred_modules_are_freed_with_their_weights(make):
    x = torch.randn(2, 8)
    make()(x)
    gc.collect()
    known = len(linecache.cache)  # where generated code is found by tracebacks
    alive = []
    for _ in range(600):
        module = make()
        module(x).sum().backward()
        alive.append((weakref.ref(module), weakref.ref(next(module.parameters()))))
    del module
    gc.collect()
    assert [refs for refs in alive if any(ref() is not None for ref in refs)] == []
    assert len(linecache.cache) <= known


@pytest.fixture
def hurried_threads():
    """Let threads take turns every few bytecodes, so that those which record together meet often."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hurried_threads")
@pytest.mark.parametrize("seed", range(3))
def test_eight_threads_compute_what_one_computes(seed):
    torch.manual_seed(seed)
    shared = Block().eval()
    inputs = [torch.randn(1 + each % 4, 8) for each in range(200)]

    def work(module):
        found = []
        for x in inputs:
            leaf = x.clone().requires_grad_()
            y = module(leaf)
            (gradient,) = torch.autograd.grad(y.square().sum(), leaf)
            found += [y.detach(), gradient]
        return found

    reference = Block().eval()
    reference.load_state_dict(shared.state_dict())
    expected = work(reference)
    results, start = {}, threading.Barrier(8)

    def run(index):
        start.wait()  # the first calls, which trace, come together
        mine = Block().eval()
        mine.load_state_dict(shared.state_dict())
        results[index] = work(shared) + work(mine)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == list(range(8))
    for found in results.values():
        assert all(map(torch.equal, found, expected * 2))
