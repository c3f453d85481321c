"""Share of a forward's time that the times of its parts cover, for flows and plain modules.

Run: `python benchmarks/profile_coverage.py [--json FILE]` (about a minute, one thread)

The models of `examples/pytorch` are ported and timed as they are and as flows; a loop and a branch are
called so that they take each of their ways. A row is the median of several `view.summary(x, timed=True)`.
For a flow the times are those of its steps and of what precedes the first; for a plain module those within
its submodules, because what a plain forward computes between them has no name. So only flows have a bar.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import flodl
from benchmarks.shared import conditions
from benchmarks.trips import port_unproved
from flodl import Flow, FlowModule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples" / "pytorch"
BAR = 0.95
ROUNDS = 5
WIDTH = 256
HEAD = ("| Model | Plain | Flow | of it steps | of it before the first |", "|---|---|---|---|---|")


class PlainLoop(nn.Module):
    """A loop whose end depends on a value."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        while bool(x.sum() < 1e5):
            x = self.lin(x).abs() + x + 1
        return x


class Loop(FlowModule):
    """The same as a flow."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(WIDTH, WIDTH)

    def flow(self, x: Flow) -> Flow:
        while (x.sum() < 1e5).through(bool):
            x = x.through(self.lin).abs() + x + 1
        return x


class PlainBranch(nn.Module):
    """A branch on a value; a flow leaves its first plan where a call takes the other way."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.up, self.down = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.body(x)
        return self.up(x) if bool(x.sum() > 0) else self.down(x)


class Branch(FlowModule):
    """The same as a flow."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.up, self.down = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def flow(self, x: Flow) -> Flow:
        x = x.through(self.body)
        return x.through(self.up) if (x.sum() > 0).through(bool) else x.through(self.down)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A model as it is and as a flow, an input, and inputs of calls before it that record other ways."""

    name: str
    plain: nn.Module
    flow: nn.Module
    x: torch.Tensor
    before: tuple[torch.Tensor, ...] = ()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The covered shares of one model, from 0 to 1, and the seconds of its forwards."""

    model: str
    plain: float
    flow: float
    steps: float
    entry: float
    plain_s: float
    flow_s: float


# How each example makes its model, and an input.
MODELS: dict[str, tuple[Callable[[Any], nn.Module], Callable[[Any], torch.Tensor]]] = {
    "resnet_cifar": (
        lambda m: m.ResNet(m.BasicBlock, [2, 2, 2]),
        lambda _: torch.randn(8, 3, 32, 32),
    ),
    "unet": (lambda m: m.UNet(), lambda _: torch.randn(4, 1, 32, 32)),
    "gpt": (lambda m: m.GPT(m.GPTConfig()), lambda _: torch.randint(13, (16, 32))),
    "inception": (lambda m: m.SmallInception(), lambda _: torch.randn(8, 3, 32, 32)),
    "vae": (lambda m: m.VAE(), lambda m: torch.rand(256, m.IMAGE_SIZE**2)),
    "lstm_tagger": (lambda m: m.LSTMTagger(32, 32, 20, 4), lambda _: torch.randint(20, (16, 12))),
    "mlp_residual": (lambda m: m.ResidualMLP(width=256), lambda _: torch.randn(256, 8)),
}


def examples(folder: Path) -> Iterator[Case]:
    """Port the examples into a folder, and yield the models of both."""
    for name, (make, inputs) in MODELS.items():
        source = folder / f"{name}.py"
        source.write_bytes((EXAMPLES / source.name).read_bytes())
        (outcome,) = port_unproved(source).files
        if outcome.output is None:
            sys.exit(f"{name} is no longer ported: {'; '.join(outcome.summary)}")
        original = _loaded(source)
        flow = make(_loaded(outcome.output))
        yield Case(name=name, plain=make(original), flow=flow, x=inputs(original))


def ways() -> Iterator[Case]:
    """Yield the loop and the branch with an input for each of several ways."""
    ones = torch.ones(64, WIDTH)
    turns = {"loop, few turns": 3 * ones, "loop, many turns": -ones}
    for name, x in turns.items():
        yield Case(name=name, plain=PlainLoop(), flow=Loop(), x=x, before=(ones,))
    for name, sign in {"branch, first way": 1, "branch, side exit": -1}.items():
        yield Case(
            name=name, plain=_steered(PlainBranch()), flow=_steered(Branch()), x=sign * ones,
            before=(ones,),
        )  # fmt: skip


def _steered(model: Any) -> nn.Module:
    """Let the sign of the input decide about the way."""
    with torch.no_grad():
        model.body.weight.copy_(torch.eye(WIDTH))
        model.body.bias.zero_()
    made: nn.Module = model
    return made


def _loaded(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"covered_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def measure(case: Case, rounds: int = ROUNDS) -> Row:
    """Return the medians of one model."""
    shares: dict[str, list[float]] = {}
    for _ in range(rounds):
        for kind, model in (("plain", case.plain.eval()), ("flow", case.flow.eval())):
            with torch.no_grad():
                for x in case.before:
                    model(x)
            found = flodl.view(model).summary(case.x, timed=True).coverage
            if found is None:
                sys.exit(f"{case.name}: each call was recorded, and none was timed")
            shares.setdefault(kind, []).append(found.share)
            shares.setdefault(f"{kind}_s", []).append(found.total)
            if kind == "flow":
                shares.setdefault("steps", []).append(found.steps / found.total)
                shares.setdefault("entry", []).append(found.entry / found.total)
    medians = {name: statistics.median(each) for name, each in shares.items()}
    return Row(model=case.name, **medians)


def line(row: Row) -> str:
    """Return a row of the table."""
    shown = (
        f"{each:.1%}".replace("%", " %") for each in (row.plain, row.flow, row.steps, row.entry)
    )
    return f"| {row.model} | {' | '.join(shown)} |"


def main(words: list[str]) -> int:
    """Print the table; fail if a flow is below the bar."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result there")
    options = parser.parse_args(words)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    rows, before = [], conditions.measured("torch")
    print(*HEAD, sep="\n")
    with tempfile.TemporaryDirectory() as folder:
        for case in (*examples(Path(folder)), *ways()):
            rows.append(measure(case))
            print(line(rows[-1]), flush=True)
    if options.json is not None:
        whole = {
            "measured": conditions.ended(before),
            "bar": BAR,
            "rows": [asdict(row) for row in rows],
        }
        options.json.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    low = [row.model for row in rows if row.flow < BAR]
    if low:
        print(f"below {BAR:.0%}: {', '.join(low)}")
    return int(bool(low))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
