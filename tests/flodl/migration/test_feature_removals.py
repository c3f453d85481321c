"""Features taken away: the test that a row of `features.tsv` names must fail without its feature.

Each removal changes one text in a copy of the sources, as the patches of `tests/mutants` do, and runs what
the row names:

    "`Upsample(", "flodl/nn/modules.py", '("nearest", "bilinear")' becomes '("nearest", "nearest")'
    its row names `guide:Upsample`: run test_guide.py::test_rows[348 Upsample((4, 4), 0)(img)] and the next
"""

import re
from dataclasses import dataclass

import pytest

from tests.flodl.migration import guide
from tests.flodl.migration.test_features import ROWS
from tests.mutants.test_mutants import ROOT, require_failure
from tests.mutants.test_mutants import checkout as checkout
from tests.mutants.test_mutants import server as server

pytestmark = [pytest.mark.torch, pytest.mark.slow]


@dataclass(frozen=True)
class Removal:
    """A text whose absence takes one feature away; `feature` is how its row begins."""

    feature: str
    path: str
    old: str
    new: str


REMOVALS = (
    Removal(
        "selective imports by module (tensor, autograd, nn, graph)",
        "flodl/data/__init__.py",
        "from flodl.data.loader import DataLoader as DataLoader\n",
        "",
    ),
    Removal(
        "flat import `use flodl::*`",
        "flodl/__init__.py",
        " and not isinstance(value, _ModuleType)",
        "",
    ),
    Removal(
        "SGD `.momentum()` builder spelling",
        "flodl/nn/optimizers.py",
        "lr=lr, momentum=momentum, **settings",
        "lr=lr, **settings",
    ),
    Removal(
        "optimizer created after move_to_device",
        "flodl/train/builder.py",
        ".to(device)\n        optimizer = optimizer_of(self._optim_factory, model)",
        "\n        optimizer = optimizer_of(self._optim_factory, model)\n        model.to(device)",
    ),
    Removal(
        "`also_with(skip, main)`",
        "flodl/builder/flow_builder.py",
        'self._say("also_with", *paths, **named)',
        'self._say("through", *paths, *list(named.values())[1:])',
    ),
    Removal("`merge(MergeOp.Mean)`", "flodl/nodes/merge.py", "    Mean = Mean\n", ""),
    Removal("`merge(MergeOp.Add)`", "flodl/nodes/merge.py", "    Add = Add\n", ""),
    Removal(
        "`GRU`, `LSTM` multi-layer, batch_first default false",
        "flodl/nn/single_stream.py",
        "        return sequence\n",
        "        return sequence[-1:]\n",
    ),
    Removal(
        "`Upsample(size, mode int 0 nearest / 1 bilinear)`",
        "flodl/nn/modules.py",
        '("nearest", "bilinear")',
        '("nearest", "nearest")',
    ),
    Removal(
        "`GaussianBlur(sigma)` module",
        "flodl/nn/blur.py",
        "ceil(3",
        "ceil(2",
    ),
    Removal(
        "`pad_mode` (constant",
        "flodl/ops.py",
        "isinstance(mode, int) and",
        "isinstance(mode, float) and",
    ),
    Removal(
        "`batches(n)` split along dim 0",
        "flodl/tensor.py",
        "torch.split(tensor, n)",
        "torch.split(tensor, n, -1)",
    ),
    Removal("`unsqueeze_many`", "flodl/ops.py", "for dim in dims:", "for dim in dims[:1]:"),
    Removal(
        "composition warm-up(cosine)",
        "flodl/nn/schedulers.py",
        "self.inner.lr(step - self.warmup_steps)",
        "self.inner.lr(0)",
    ),
    Removal(
        "`parameters()` = only unfrozen after freeze (claim)",
        "flodl/nn/parameters.py",
        "for each in module.parameters() if each.requires_grad]",
        "for each in module.parameters()]",
    ),
    Removal(
        "freeze what was loaded",
        "flodl/nn/parameters.py",
        "            freeze(parameters[name])\n",
        "",
    ),
    Removal(
        "`set_data` to apply an init",
        "flodl/nn/init.py",
        "        parameter.copy_(value)\n",
        "        pass\n",
    ),
    Removal(
        "step/epoch counters",
        "flodl/inspect/steps.py",
        "counts_of(module).steps += 1",
        "pass",
    ),
    Removal(
        "`tagged_at(path)` Option",
        "flodl/inspect/tree_methods.py",
        "return observation.tagged_at(self._viewed, path)",
        "return None",
    ),
    Removal(
        "`trend.stalled(n,tol)`",
        "flodl/observe/trend.py",
        "if len(self.values) < max(window, 2):",
        "if len(self.values) >= 0:",
    ),
    Removal(
        "gzip by suffix `.fdl.gz`",
        "flodl/checkpoint/commit.py",
        'compress=path.name.endswith(".gz")',
        "compress=False",
    ),
    Removal(
        "`checkpoint_version(path)` (1 = 0.1.x, 2 = 0.2.0+)",
        "flodl/checkpoint/contents.py",
        "    return int(text)\n",
        "    return 1\n",
    ),
    Removal(
        "`MigrateReport` printable, `is_complete()`",
        "flodl/checkpoint/migrate.py",
        "return not self.dropped and not self.missing",
        "return True",
    ),
    Removal(
        "state ready for inference",
        "flodl/train/state.py",
        "        model.load_state_dict(chosen)\n",
        "",
    ),
    Removal(
        "`export_csv(path)`",
        "flodl/monitor/monitor.py",
        "write_text(path, csv_of_epochs(self.history()))",
        'write_text(path, "")',
    ),
    Removal(
        "forward references (using before tag) = state across calls",
        "flodl/inspect/state_methods.py",
        "        state.reset_state(self._viewed)\n",
        "",
    ),
)


def row_of(removal):
    (row,) = [each for each in ROWS if each.feature.startswith(removal.feature)]
    return row


def selection(row):
    """Return what pytest has to run for a row, as arguments."""
    if not row.word:
        return ["::".join(row.place)]
    word = re.compile(rf"(?<!\w){re.escape(row.word)}(?!\w)")
    file = "tests/flodl/migration/test_guide.py"
    chosen = [f"{file}::test_rows[{each.key}]" for each in guide.rows() if word.search(each.flodl)]
    chosen += [
        f"{file}::test_programs[{each.section}]"
        for each in guide.programs()
        if word.search(each.flodl)
    ]
    blocks = "tests/docs/test_documents.py::test_python_blocks_run_and_print_what_follows"
    return chosen or [f"{blocks}[docs/reference/pytorch-map.md]"]


def test_removals_are_of_rows_and_of_texts_that_exist():
    assert len({row_of(each).feature for each in REMOVALS}) == len(REMOVALS) >= 20
    for each in REMOVALS:
        assert each.old in (ROOT / each.path).read_text("utf-8"), (each.feature, each.path)


@pytest.mark.parametrize("removal", REMOVALS, ids=lambda each: each.feature)
def test_row_without_its_feature_fails(removal, checkout, server):
    row = row_of(removal)
    path = checkout / removal.path
    text = path.read_text("utf-8")
    path.write_text(text.replace(removal.old, removal.new), "utf-8")
    try:
        require_failure(server, checkout, selection(row))
    finally:
        path.write_text(text, "utf-8")
