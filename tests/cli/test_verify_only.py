"""`fdl port --verify-only OLD NEW`: what it refuses before it runs anything."""

import pytest

MODEL = "from torch import nn\n\n\nclass Net(nn.Module):\n    pass\n"


@pytest.fixture
def files(tmp_path):
    (tmp_path / "old.py").write_text(MODEL)
    (tmp_path / "new.py").write_text(MODEL.replace("Net", "Other"))
    (tmp_path / "bad.py").write_text("class Net(:\n")
    (tmp_path / "plain.py").write_text("class Net:\n    pass\n")


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (("old.py",), 2, "verify-only-usage"),
        (("old.py", "new.py", "bad.py"), 2, "verify-only-usage"),
        (("old.py", "new.py", "--diff"), 2, "verify-only-usage"),
        (("old.py", "new.py", "--no-verify"), 2, "verify-only-usage"),
        (("old.py", "none.py"), 2, "verify-unreadable"),
        (("old.py", "bad.py"), 2, "verify-unreadable"),
        (("old.py", "new.py"), 4, "nothing-to-verify"),
        (("old.py", "plain.py"), 4, "nothing-to-verify"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
@pytest.mark.slow
def test_refusals(fdl, files, words, code, error):
    done = fdl("port", "--verify-only", *words)
    assert (done.returncode, done.stdout) == (code, "")
    assert f"error[{error}]" in done.stderr
    assert "hint:" in done.stderr


PARTS = """
from torch import nn


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        return self.fc(x).{call}
"""
WHOLE = """
from collections import OrderedDict

from parts import Base


class Table(OrderedDict):
    pass


class Net(Base):
    def extra(self, x):
        return x
"""


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize(
    ("call", "code", "said"), [("relu()", 0, "equal"), ("tanh()", 1, "different")]
)
def test_a_base_may_stand_in_another_file(fdl, tmp_path, call, code, said):
    for folder, called in (("old", "relu()"), ("new", call)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "parts.py").write_text(PARTS.format(call=called))
        (tmp_path / folder / "whole.py").write_text(WHOLE)
    done = fdl("port", "--verify-only", "old/whole.py", "new/whole.py")
    assert done.returncode == code, done.stderr
    assert f"Net  {said}" in done.stdout
    assert "Table" not in done.stdout


FOREIGN = """
from absent_package import Base
from torch import nn


class Net(Base):
    def forward(self, x):
        return x + 1
"""
PLAIN = """

class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        return self.fc(x)
"""


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize(
    ("rest", "said"),
    [
        (PLAIN, "it is no torch module here, with placeholders for absent_package"),
        ("", "the original cannot be imported: ModuleNotFoundError"),
    ],
)
def test_a_class_whose_base_is_a_placeholder_is_said_not_to_run(fdl, tmp_path, rest, said):
    for name in ("old.py", "new.py"):
        (tmp_path / name).write_text(FOREIGN + rest)
    done = fdl("port", "--verify-only", "old.py", "new.py")
    assert done.returncode == 1, done.stderr
    assert f"Net  not verified (does not run): {said}" in done.stdout
    assert ("Plain  equal" in done.stdout) == bool(rest)
