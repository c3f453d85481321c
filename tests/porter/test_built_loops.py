# ruff: noqa: E501
"""Loops as `Trainer.builder`: the text that is written, what is declared, and why a loop stays."""

import textwrap

import pytest

from fdl_cli.porter.emit.training import with_training
from fdl_cli.porter.lower.file_facts import import_place
from fdl_cli.porter.parse.reader import read
from fdl_cli.porter.trainer.loops import training_loops

HEAD = """\
import torch
from torch import nn
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = [(torch.randn(3, 4), torch.randn(3, 2)) for _ in range(4)]
"""
LOOP = """\
for epoch in range(1, 4):
    seen = 0
    for i, (x, y) in enumerate(loader):
        # clear
        optimizer.zero_grad()  # forget
        loss = (model(x) - y).square().mean()
        loss.backward()  # gradients
        optimizer.step()
        seen += len(x)
        if i % 2:
            continue
        print(epoch, i, loss.item())
    # at the end
    print(seen)
"""
MADE = """\


def train_step(model, batch):
    x, y = batch
    # clear
    # forget
    loss = (model(x) - y).square().mean()
    return loss  # gradients


def after_step(training, loss):
    global seen
    i = training.position - 1
    epoch = training.epoch + 1
    seen += len(x)
    if i % 2:
        return
    print(epoch, i, loss.item())


def before_epoch(number, training):
    global seen
    seen = 0


def after_epoch(training, metrics):
    # at the end
    print(seen)


(
    Trainer.builder(model, optimizer, train_step)
    .dataset(loader)
    .num_epochs(3)
    .device(next(model.parameters()).device)
    .step("eager")
    .fused(False)
    .nan_guard(False)
    .progress(False)
    .on("epoch_start", before_epoch)
    .on("step", after_step)
    .on("epoch", after_epoch)
    .run()
    .join()
)
"""


def built(text):
    source = read(text.encode())
    return with_training(source, training_loops(source), import_place(source), "builder")


def test_a_loop_becomes_functions_and_a_builder():
    head = HEAD.replace(
        "from torch import nn\n", "from torch import nn\nfrom flodl import Trainer\n"
    )
    wanted = MADE.replace("num_epochs(3)", "num_epochs(len(range(1, 4)))").replace(
        "    x, y = batch", "    global x\n    x, y = batch"
    )
    assert built(HEAD + LOOP) == head + wanted


def test_it_moves_only_once():
    once = built(HEAD + LOOP)
    assert built(once) == once


@pytest.mark.parametrize("newline", ["\r\n", "\n"])
def test_line_ends_and_tabs_stay(newline):
    text = (HEAD + LOOP).replace("    ", "\t").replace("\n", newline)
    made = built(text)
    assert made.count("\r\n") == (made.count("\n") if newline == "\r\n" else 0)
    assert "\n\t.num_epochs(" in made
    compile(made, "made", "exec")


def test_two_loops_have_functions_of_their_own():
    made = built(HEAD + LOOP + LOOP.replace("seen", "other") + "train_step = 3\n")
    assert made.count("def train_step_2(") == made.count("def train_step_3(") == 1
    compile(made, "made", "exec")


def test_a_function_shares_its_own_names():
    made = built(HEAD + "\ndef main():\n" + textwrap.indent(LOOP, "    ") + "\n    return x\n")
    assert "    seen = x = None\n" in made
    assert "        nonlocal seen\n" in made
    assert "        nonlocal x\n" in made
    compile(made, "made", "exec")


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("        # clear\n", "        if len(x) < 2: continue\n", "FDL422"),
        ("        # clear\n", "        if len(x) < 2: break\n", "FDL422"),
        ("loss.backward()", "loss.backward(retain_graph=True)", "FDL425"),
        ("        optimizer.step()", "        loss.add_(1)\n        optimizer.step()", "FDL424"),
        ("        optimizer.step()", "        print(model.weight.sum())\n        optimizer.step()", "FDL424"),
        ("        optimizer.step()", "        if i % 2:\n            optimizer.step()\n            optimizer.zero_grad()", "FDL404"),
        ("print(seen)", "print(seen, vars())", "FDL427"),
        ("    seen = 0", "    seen: int = 0", "FDL427"),
        ("for i, (x, y) in enumerate(loader):\n", "else_loader = iter(loader)\n    while (xy := next(else_loader, None)):\n        i, (x, y) = 0, xy\n", "FDL421"),
        ("import torch\n", "import torch\nimport torch.distributed\ntorch.distributed.is_available()\n", "FDL428"),
    ],
)  # fmt: skip
def test_loops_that_the_builder_leaves(before, after, reason):
    assert before in HEAD + LOOP
    source = read((HEAD + LOOP).replace(before, after, 1).encode())
    (loop,) = training_loops(source)
    assert [item.code for item in loop.reasons("builder")] == [reason]
    level = "keep" if reason == "FDL404" else "setup"
    assert loop.reached("builder") == level
    made = with_training(source, (loop,), import_place(source), "builder")
    assert ("Trainer.setup(" in made) == (level == "setup")
    compile(made, "made", "exec")
