"""Stand-ins have the shape of what they stand for, are the same every time, and are named."""

from __future__ import annotations

import importlib
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch

from flodl_verify.stubs.anything import Anything, Progress
from flodl_verify.stubs.datasets import VISION, Image, synthetic_vision
from flodl_verify.stubs.transforms import make_transforms_module

pytestmark = pytest.mark.torch
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", sorted(VISION))
def test_data_sets_have_their_shape(name: str) -> None:
    found = synthetic_vision(name)("data", train=True, download=True)
    image, label = found[3]
    shape = VISION[name]
    assert image.size == (shape.size, shape.size)
    assert image.mode == ("L" if shape.channels == 1 else "RGB")
    assert 0 <= label < shape.classes == len(found.classes)
    assert len(list(zip(range(len(found) + 1), range(len(found)), strict=False))) == len(found)
    with pytest.raises(IndexError):
        found[len(found)]


def test_what_data_sets_keep_as_a_whole() -> None:
    digits = synthetic_vision("MNIST")("data")
    assert digits.data.shape == (len(digits), 28, 28)
    assert digits.targets.shape == (len(digits),)
    assert synthetic_vision("CIFAR10")("data").data.shape[1:] == (32, 32, 3)


def test_transforms_make_tensors_of_the_right_size() -> None:
    module = make_transforms_module()
    image = Image(torch.arange(30 * 40 * 3).remainder(256).to(torch.uint8).view(30, 40, 3))
    chain = module.Compose([
        module.Resize(20), module.RandomCrop(16, padding=2), module.RandomHorizontalFlip(),
        module.ColorJitter(0.1), module.ToTensor(), module.Normalize((0.5,) * 3, (0.5,) * 3),
    ])  # fmt: skip
    made = chain(image)
    assert made.shape == (3, 16, 16)
    assert -1 <= made.min() < made.max() <= 1
    assert module.CenterCrop(8)(image).size == (8, 8)
    assert module.Resize((5, 7))(image).size == (7, 5)
    assert module.Grayscale()(image).mode == "L"
    assert image.resize((4, 6)).convert("L").size == (4, 6)


def test_anything_accepts_everything() -> None:
    it = Anything("plt")
    figure, axes = it.subplots(2, 2)
    axes[0, 0].plot([1, 2]).set(x=1)
    with it.run() as run:
        run.log({"a": 1})
    it.value = 3
    assert it.value == 3
    assert list(it) == []
    assert figure

    @it.watch
    def function() -> int:
        return 5

    class Below(it.Base):  # type: ignore[name-defined,misc]
        pass

    assert function() == 5
    assert Below()
    assert list(Progress(range(3), desc="x")) == [0, 1, 2]


SCRIPT = """
    import sys
    from flodl_verify.stubs.install import STUBS
    class Hide:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] in {hidden!r}:
                raise ModuleNotFoundError(name)
    import importlib.machinery
    finder = importlib.machinery.PathFinder.find_spec
    def find(name, path=None, target=None):
        return None if name.partition(".")[0] in {hidden!r} else finder(name, path, target)
    importlib.machinery.PathFinder.find_spec = find
    STUBS.install(__import__('pathlib').Path('script.py'))
    {body}
    print("used", *STUBS.used)
    """


def run(hidden: set[str], body: str) -> str:
    code = textwrap.dedent(SCRIPT).format(hidden=hidden, body=body)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_missing_packages_are_stood_for_and_named() -> None:
    out = run(
        {"torchvision", "tqdm", "matplotlib", "tensorboard", "wandb"},
        "import matplotlib.pyplot as plt; from tqdm.auto import tqdm; import torchvision;"
        " from torch.utils.tensorboard import SummaryWriter; SummaryWriter('x').add_scalar('a', 1);"
        " data = torchvision.datasets.CIFAR10('d', transform=torchvision.transforms.ToTensor());"
        " print(data[0][0].shape, list(tqdm([1, 2]))); plt.plot([1])",
    )
    assert "torch.Size([3, 32, 32]) [1, 2]" in out
    for name in ("torchvision", "tqdm", "matplotlib", "tensorboard"):
        assert name in out


@pytest.mark.slow
def test_a_package_that_computes_is_missing_as_before() -> None:
    with pytest.raises(AssertionError, match="sklearn_of_somebody"):
        run(set(), "import sklearn_of_somebody")


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("torchvision") is None, reason="needs torchvision")
def test_the_real_torchvision_keeps_its_transforms(tmp_path: Path) -> None:
    out = run(
        set(),
        "import torchvision; from torchvision import transforms as t;"
        f" data = torchvision.datasets.FakeData(5, (3, 8, 8), transform=t.ToTensor());"
        f" folder = torchvision.datasets.ImageFolder({str(tmp_path / 'none')!r}, t.ToTensor());"
        " print(type(data).__module__, data[0][0].shape, len(folder), folder[0][0].shape)",
    )
    assert (
        "torchvision.datasets.fakedata torch.Size([3, 8, 8]) 640 torch.Size([3, 256, 256])" in out
    )


WEIGHTS = """
import sys
sys.path.insert(0, {root!r})
from pathlib import Path
from flodl_verify.stubs.install import STUBS
STUBS.install(Path("train.py"))
import torch
from torch import nn

net = nn.Linear(2, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
before = net.weight.clone()
found = torch.load("nowhere/last.pth", map_location="cpu")
net.load_state_dict(found["state_dict"])
optimizer.load_state_dict(found["optimizer"])
assert range(found["epoch"], 2) == range(2)
net.load_state_dict(torch.hub.load_state_dict_from_url("file:///nowhere/at/all-1.pth"))
assert torch.equal(net.weight, before)
torch.save(net.state_dict(), "real.pth")
with torch.no_grad():
    net.weight.zero_()
net.load_state_dict(torch.load("real.pth"))
assert torch.equal(net.weight, before)
print(STUBS.words())
"""


@pytest.mark.slow
def test_weights_that_are_not_there_are_those_of_the_constructor(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WEIGHTS.format(root=str(ROOT))],
        capture_output=True, text=True, cwd=tmp_path, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()[-1]
    assert said == ", with stand-ins for the weights last.pth, the weights all-1.pth"


ON_GPU = """
import sys
sys.path.insert(0, {root!r})
from pathlib import Path
from flodl_verify.stubs.install import STUBS
STUBS.install(Path(sys.argv[1]))
exec(Path(sys.argv[1]).read_text())
print(STUBS.words())
"""
GPU_SCRIPT = """
import torch
from torch import nn
device = torch.device("cuda:0")
torch.cuda.manual_seed_all(0)
net = nn.Linear(2, 3).to(device).to("cuda", torch.float64)
x = torch.ones(2, 2, device=device, dtype=torch.float64).pin_memory().to(device="cuda", non_blocking=True)
y = net(x) + torch.zeros_like(x, device="cuda").sum()
old = torch.arange(0, 3, out=torch.cuda.LongTensor(3)).type(torch.cuda.FloatTensor)
old = old.type("torch.cuda.HalfTensor")
assert (old.dtype, old.device.type, isinstance(old, torch.cuda.HalfTensor)) == (torch.float16, "cpu", False)
torch.set_default_tensor_type("torch.cuda.DoubleTensor")
assert torch.zeros(1).dtype is torch.float64
torch.cuda.synchronize()
print(y.device, torch.tensor([1.0], device=device).device, torch.arange(3, device="cuda").sum().item())
"""


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_program_for_the_gpu_runs_on_the_cpu(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(GPU_SCRIPT, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", ON_GPU.format(root=str(ROOT)), str(script)],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["cpu cpu 3", ", with stand-ins for the GPU"]


PLAYS = """
import {package} as gym
env = gym.make("CartPole-v1").unwrapped
print(env.observation_space.shape, env.action_space.n, env.action_space.sample() in (0, 1))
total = 0
for episode in range(2):
    {reset} = env.reset()
    done, steps = False, 0
    while not done:
        {step} = env.step(env.action_space.sample())
        total += reward
        steps += 1
    print(steps, seen.shape, str(seen.dtype))
env.close()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("package", "reset", "step"),
    [
        ("gym", "seen", "seen, reward, done, info"),
        ("gym", "seen, info", "seen, reward, done, cut, info"),
        ("gymnasium", "seen, _", "seen, reward, done, _, _"),
    ],
)
def test_environments_answer_as_the_script_asks(
    tmp_path: Path, package: str, reset: str, step: str
) -> None:
    pytest.importorskip("numpy")
    script = tmp_path / "play.py"
    script.write_text(PLAYS.format(package=package, reset=reset, step=step), encoding="utf-8")
    text = "import sys\nsys.modules.pop('gym', None)\nsys.argv = sys.argv[1:]\n" + ON_GPU
    text = text.replace("sys.argv[1]", "sys.argv[0]").format(root=str(ROOT))
    done = subprocess.run(
        [sys.executable, "-c", text, str(script)],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    shape, first, second, words = done.stdout.splitlines()
    assert shape == "(4,) 2 True"
    assert first == second == "20 (4,) float32"
    assert words == f", with stand-ins for {package}"
