# ruff: noqa: E501, ISC004
"""Training code: what is recognised, which loops move onto Trainer.setup, and which stay, and why."""

import json
import re
import textwrap
from pathlib import Path

import pytest

from fdl_cli.app import main
from fdl_cli.porter.emit.training import with_training
from fdl_cli.porter.lower.file_facts import import_place
from fdl_cli.porter.parse.reader import read
from fdl_cli.porter.trainer.intents import training_blocks
from fdl_cli.porter.trainer.loops import training_loops

HEAD = """\
import torch
from torch import nn
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
criterion = nn.MSELoss()
loader = [(torch.randn(3, 4), torch.randn(3, 2)) for _ in range(4)]
"""
LOOP = """\
for epoch in range(3):
    for x, y in loader:
        optimizer.zero_grad()  # forget
        loss = criterion(model(x), y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print(loss.item())
    scheduler.step()
"""
MOVED = """\
training = Trainer.setup(model, optimizer, max_grad_norm=1.0)
for epoch in range(3):
    for x, y in loader:
        # forget
        loss = criterion(model(x), y)
        loss.backward()
        training.step()
        print(loss.item())
    scheduler.step()
"""


def moved(text):
    source = read(text.encode())
    return with_training(source, training_loops(source), import_place(source), "setup")


def test_a_simple_loop_moves_and_nothing_else():
    assert (
        moved(HEAD + LOOP)
        == HEAD.replace(
            "from torch import nn\n", "from torch import nn\nfrom flodl import Trainer\n"
        )
        + MOVED
    )


def test_it_moves_only_once():
    once = moved(HEAD + LOOP)
    assert moved(once) == once


@pytest.mark.parametrize("newline", ["\r\n", "\n"])
def test_line_ends_and_tabs_stay(newline):
    text = (HEAD + LOOP).replace("    ", "\t").replace("\n", newline)
    made = moved(text)
    assert made.count("\r\n") == (made.count("\n") if newline == "\r\n" else 0)
    compile(made, "made", "exec")


FUNCTION = """
def train(args, net, device, loader, opt, epoch):
    net.train()
    for i, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        opt.zero_grad()
        loss = criterion(net(x), y)
        loss.backward()
        opt.step()
"""
TRAINER = """
class Trainer:
    def __init__(self, net, data):
        self.net, self.data = net, data
        self.optimizer = torch.optim.Adam(self.net.parameters())

    def run(self):
        for x, y in self.data:
            loss = criterion(self.net(x), y)
            self.net.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.net.parameters(), self.limit)
            self.optimizer.step()
"""


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (FUNCTION, "    training = Trainer.setup(net, opt)\n    for i,"),
        (TRAINER, "        training = FlodlTrainer.setup(self.net, self.optimizer, max_grad_norm=self.limit)\n"
                  "        for x, y in self.data:"),
        ("if True:\n" + textwrap.indent(LOOP, "    "), "    training = Trainer.setup(model, optimizer,"),
        (LOOP.replace("for epoch", "training = 3\nfor epoch"), "training_session = Trainer.setup("),
        ("for fold in range(2):\n    model = nn.Linear(4, 2)\n    optimizer = torch.optim.SGD(model.parameters(), 0.1)\n"
         + textwrap.indent(LOOP, "    "), "    training = Trainer.setup(model, optimizer, max_grad_norm=1.0)\n    for epoch"),
        ("import flodl\n" + LOOP, "from flodl import Trainer\n"),
    ],
    ids=["function", "class", "if", "taken", "folds", "imported"],
)  # fmt: skip
def test_shapes_of_loops(text, wanted):
    made = moved(HEAD + text)
    assert wanted in made
    compile(made, "made", "exec")


@pytest.mark.parametrize(
    ("text", "trouble"),
    [
        (LOOP.replace("loss.backward()", "scaler.scale(loss).backward()"), "FDL407 the loss is scaled by hand"),
        (LOOP.replace("        optimizer.step()", "        if epoch:\n            optimizer.step()"), "FDL404"),
        (LOOP.replace("        optimizer.step()", "        with x:\n            optimizer.step()"), "FDL404 the optimizer steps inside"),
        (LOOP.replace("optimizer.step()", "optimizer.step(lambda: loss)"), "FDL406 gradients are cleared outside of the closure"),
        (LOOP.replace("optimizer.step()", "optimizer.step(loss=loss)"), "FDL406"),
        (LOOP.replace("zero_grad()", "zero_grad(set_to_none=False)"), "FDL404 `zero_grad(set_to_none=False)`"),
        (LOOP.replace("zero_grad()", "zero_grad(False)"), "FDL404 `zero_grad(set_to_none=False)`"),
        (LOOP.replace("        loss.backward()\n", "").replace("print(loss.item())", "loss.backward()"), "FDL404 the optimizer steps before"),
        (LOOP.replace("        optimizer.step()", "        optimizer.zero_grad()\n        optimizer.step()"), "FDL404 it calls `zero_grad` more than once"),
        (LOOP.replace("        print(loss.item())", "        yield loss"), "FDL405"),
        (LOOP.replace("        optimizer.zero_grad()  # forget\n", ""), "FDL404"),
        (LOOP.replace("print(loss.item())", "print(model.weight.grad)"), "FDL405 it reads or changes gradients by hand"),
        (LOOP.replace("optimizer.step()", "optimizer.step(); other.step(); other.zero_grad()"), "FDL403 it has several optimizer steps"),
        (LOOP.replace("optimizer.zero_grad()  # forget", "optimizer.zero_grad(); z = 1"), "FDL409 a part of its step does not have a line of its own"),
        (LOOP.replace("optimizer.", "unknown.opt."), "FDL408"),
        (LOOP.replace("        optimizer.step()", "        model.weight.data -= model.weight.grad").replace("optimizer.zero_grad()", "model.zero_grad()"), "FDL402"),
    ],
)  # fmt: skip
def test_other_loops_stay_and_say_why(text, trouble):
    text = HEAD + text
    if trouble in {"FDL408", "FDL402"}:
        text = text.replace(
            "        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n", ""
        )
    source = read(text.encode())
    (loop,) = training_loops(source)
    (reason,) = loop.reasons("setup")
    assert f"{reason.code} {reason.message}".startswith(trouble), reason
    for level in ("setup", "builder"):
        assert with_training(source, (loop,), import_place(source), level) == text


def test_clipping_in_another_place_stays_where_it_is():
    text = HEAD + LOOP.replace(
        "        optimizer.step()", "        print(1)\n        optimizer.step()"
    )
    made = moved(text)
    assert "Trainer.setup(model, optimizer)\n" in made
    assert (
        "clip_grad_norm_(model.parameters(), 1.0)\n        print(1)\n        training.step()"
        in made
    )


def test_blocks_are_named_by_kind_and_line():
    text = (
        HEAD
        + LOOP
        + textwrap.dedent("""
        torch.manual_seed(0)
        device = torch.device("cpu")
        with torch.no_grad():
            model.eval()
        torch.save(model.state_dict(), "x")
        scaler = torch.amp.GradScaler()
        torch.distributed.init_process_group("gloo")
        for i in range(3):
            if (i + 1) % 4 == 0:
                optimizer.step()
        class Own(nn.Module):
            def forward(self, x):
                return nn.functional.mse_loss(x.to("cpu"), x)
        """)
    )
    found = training_blocks(read(text.encode()))
    by_kind = {}
    for item in found:
        by_kind.setdefault(item.kind, []).append(item.line)
    assert by_kind["loss"] == [6]
    assert by_kind["optimizer"] == [4, 10, 14, 27]
    assert by_kind["scheduler"] == [5, 16]
    assert by_kind["clipping"] == [13]
    assert by_kind["accumulation"] == [26]
    assert {"backward", "seed", "device", "evaluation", "checkpoint", "amp", "distributed"} <= set(
        by_kind
    )
    assert next(item for item in found if item.kind == "amp").name == "torch.amp.GradScaler"


NET = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 2)
        self.drop = nn.Dropout(0.2)

    def forward(self, x):
        return self.drop(torch.tanh(self.a(x)))
"""


@pytest.fixture
def port(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def run(text, *options):
        (tmp_path / "train.py").write_text(text)
        code = main(["port", "train.py", "--json", "--force", *options])
        (file,) = json.loads(capsys.readouterr().out)["data"]["files"]
        return code, file, (tmp_path / "train_flodl.py").read_text()

    return run


def test_keep_is_the_default(port):
    _, file, made = port(HEAD + NET + LOOP, "--no-verify")
    assert "Trainer" not in made
    assert {item["action"] for item in file["training"]} == {"kept"}


@pytest.mark.slow
@pytest.mark.torch
def test_a_moved_loop_is_proved_by_its_curve(port):
    text = (
        "import torch\nfrom torch import nn\n"
        + NET
        + HEAD.replace("nn.Linear(4, 2)", "Net()")
        + LOOP
    )
    code, file, made = port(text, "--training", "setup")
    assert code == 0
    assert "training.step()" in made
    assert file["script"]["status"] == "equal"
    assert file["script"]["steps"] == 12
    (loop,) = [item for item in file["training"] if item["kind"] == "loop"]
    assert loop["action"] == "moved to Trainer.setup"
    assert text.splitlines()[loop["line"] - 1].strip() == "for x, y in loader:"


@pytest.mark.slow
@pytest.mark.torch
def test_a_loop_that_would_train_differently_is_put_back(port):
    # A model whose training flag is off on purpose: setup switches it on.
    text = (
        "import torch\nfrom torch import nn\n"
        + NET
        + HEAD.replace("nn.Linear(4, 2)", "Net().eval()")
        + LOOP
    )
    code, file, made = port(text, "--training", "setup")
    assert code == 0
    assert "Trainer" not in made
    assert file["script"]["status"] == "equal"
    (loop,) = [item for item in file["training"] if item["kind"] == "loop"]
    assert loop["action"] == "kept"
    (reason,) = loop["reasons"]
    assert reason["code"] == "FDL411"
    assert "Trainer.setup, it did not train equally: loss 1 is" in reason["message"]


DOCUMENT = Path(__file__).parents[2] / "docs" / "how-to" / "training.md"


@pytest.mark.parametrize(("level", "name"), [("setup", "set_up"), ("builder", "built")])
def test_the_document_shows_what_is_written(level, name):
    blocks = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    (original,) = [block for block in blocks if block.startswith("def original(")]
    (shown,) = [block for block in blocks if block.startswith(f"def {name}(")]
    source = read(f"import torch\nimport torch.nn.functional as F\n{original}".encode())
    made = with_training(source, training_loops(source), import_place(source), level)
    assert made.partition("def original")[2].strip() == shown.partition(f"def {name}")[2].strip()
