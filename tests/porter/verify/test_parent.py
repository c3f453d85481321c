"""The parent starts the child, survives its death, and never says more than was run."""

from __future__ import annotations

import sys
import time
import tracemalloc
from pathlib import Path

import pytest

from fdl_cli.porter.ir.evidence import VerifyOutcome, VerifyRequest
from fdl_cli.porter.verify import verify_port
from fdl_cli.porter.verify.orchestrate import has_entry_point, sufficient_seconds

pytestmark = [pytest.mark.torch, pytest.mark.slow]

NET = """
import os
import signal
import time
import torch
from torch import nn


class {name}(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        {body}
        return self.fc(x)
"""
CRASH = "os.kill(os.getpid(), signal.SIGSEGV)"


def two_files(tmp_path: Path, original: str, port: str) -> tuple[Path, Path]:
    first, second = tmp_path / "net.py", tmp_path / "net_flodl.py"
    first.write_text(original, encoding="utf-8")
    second.write_text(port, encoding="utf-8")
    return first, second


def verify(
    tmp_path: Path,
    original: str,
    port: str,
    names: tuple[str, ...],
    *,
    python: str = sys.executable,
    timeout_s: float = 60.0,
    examples: tuple[str, ...] = (),
) -> VerifyOutcome:
    first, second = two_files(tmp_path, original, port)
    workdir = tmp_path / "work"
    workdir.mkdir()
    return verify_port(
        VerifyRequest(
            original=first,
            ported=second,
            classes=names,
            examples=examples,
            python=python,
            timeout_s=timeout_s,
            workdir=workdir,
            search_path=(),
        )
    )


def test_equal_files_are_equal_and_nothing_is_written_beside_them(tmp_path: Path) -> None:
    text = NET.format(name="Net", body="open('made.txt', 'w').write('x')")
    outcome = verify(tmp_path, text, text, ("Net",))
    assert [item.status for item in outcome.classes] == ["equal"]
    assert outcome.source_runs
    assert outcome.error is None
    assert {path.name for path in tmp_path.iterdir()} == {"net.py", "net_flodl.py", "work"}


def test_a_port_that_kills_the_interpreter_is_different_and_the_rest_goes_on(
    tmp_path: Path,
) -> None:
    calm = NET.format(name="Net", body="pass") + NET.format(name="Other", body="pass")
    deadly = NET.format(name="Net", body=CRASH) + NET.format(name="Other", body="pass")
    outcome = verify(tmp_path, calm, deadly, ("Net", "Other"))
    net, other = outcome.classes
    assert (net.status, net.error_code) == ("different", "port-crashes")
    assert "signal 11" in net.detail
    assert other.status == "equal"


def test_an_original_that_kills_the_interpreter_is_not_run(tmp_path: Path) -> None:
    text = NET.format(name="Net", body=CRASH)
    outcome = verify(tmp_path, text, text, ("Net",))
    assert [(item.status, item.reason) for item in outcome.classes] == [
        ("not-run", "does-not-run")
    ]


def test_a_port_that_hangs_is_stopped_and_different(tmp_path: Path) -> None:
    calm = NET.format(name="Net", body="pass") + NET.format(name="Other", body="pass")
    slow = NET.format(name="Net", body="time.sleep(600)") + NET.format(name="Other", body="pass")
    started = time.monotonic()
    outcome = verify(tmp_path, calm, slow, ("Net", "Other"), timeout_s=40.0)
    assert time.monotonic() - started < 60
    net, other = outcome.classes
    assert (net.status, net.error_code) == ("different", "port-hangs")
    assert other.status == "equal"


def test_a_source_that_does_not_run_is_said_with_its_own_error(tmp_path: Path) -> None:
    text = "from a_package_nobody_has import nn\n" + NET.format(name="Net", body="pass")
    text = text.replace("from torch import nn", "")
    outcome = verify(tmp_path, text, text, ("Net",))
    assert not outcome.source_runs
    assert outcome.error is not None
    assert "a_package_nobody_has" in outcome.error
    assert [item.status for item in outcome.classes] == ["not-run"]
    assert [item.error_code for item in outcome.classes] == ["source-does-not-run"]
    assert [item.reason for item in outcome.classes] == ["does-not-run"]


def test_what_a_source_defines_though_it_does_not_run_is_compared(tmp_path: Path) -> None:
    text = "import a_package_nobody_has\n" + NET.format(name="Net", body="pass")
    outcome = verify(tmp_path, text, text, ("Net",))
    assert not outcome.source_runs
    assert outcome.error is not None
    assert "a_package_nobody_has" in outcome.error
    assert [item.status for item in outcome.classes] == ["equal"]


def test_a_python_without_torch_is_named(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(
        "#!/bin/sh\necho \"ModuleNotFoundError: No module named 'torch'\" >&2\nexit 1\n",
        encoding="utf-8",
    )
    python.chmod(0o755)
    text = NET.format(name="Net", body="pass")
    outcome = verify(tmp_path, text, text, ("Net",), python=str(python))
    assert [item.status for item in outcome.classes] == ["not-run"]
    assert outcome.error is not None
    assert str(python) in outcome.error
    assert "fdl setup" in outcome.error


def test_inputs_come_from_a_recorded_run_of_the_script(tmp_path: Path) -> None:
    text = (
        NET.format(name="Net", body="x = x.flatten(1)[:, :4] + extra[None]").replace(
            "forward(self, x)", "forward(self, x, extra)"
        )
        + "\n\nif __name__ == '__main__':\n    Net()(torch.randn(3, 2, 2), torch.ones(4))\n"
    )
    outcome = verify(tmp_path, text, text, ("Net",))
    assert outcome.classes[0].status == "equal"
    assert "recorded run" in outcome.classes[0].example
    wrong = verify_again(tmp_path, text.replace("+ extra", "- extra"))
    assert wrong.classes[0].status == "different"


def test_worker_of_a_script_with_an_optimizer_inherits_dynamo(tmp_path: Path) -> None:
    """Torch imports it with the first optimizer, for a second and more in each process."""
    body = "assert 'torch._dynamo' in __import__('sys').modules  # as after torch.optim.SGD"
    text = NET.format(name="Net", body=body)
    outcome = verify(tmp_path, text, text, ("Net",))
    assert outcome.classes[0].status == "equal"


def verify_again(tmp_path: Path, port: str) -> VerifyOutcome:
    second = tmp_path / "net_flodl.py"
    second.write_text(port, encoding="utf-8")
    request = VerifyRequest(
        original=tmp_path / "net.py",
        ported=second,
        classes=("Net",),
        examples=(),
        python=sys.executable,
        timeout_s=60.0,
        workdir=tmp_path / "work",
        search_path=(),
    )
    return verify_port(request)


def test_a_top_level_training_loop_does_not_run_to_its_end(tmp_path: Path) -> None:
    text = (
        NET.format(name="Net", body="pass")
        + "\nnet = Net()\noptimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "for step in range(10_000_000):\n"
        "    loss = net(torch.randn(2, 4)).sum()\n    loss.backward()\n    optimizer.step()\n"
    )
    outcome = verify(tmp_path, text, text, ("Net", "net"))
    assert [item.status for item in outcome.classes] == ["equal", "equal"]
    assert outcome.seconds < 45


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import torch\nclass A: pass\nX = 3\n", False),
        ("def main():\n    pass\nif __name__ == '__main__':\n    main()\n", True),
        ("main()\n", True),
        ("model = build()\n", True),
        ("for i in range(3):\n    step(i)\n", True),
        ("'''only a docstring'''\n", False),
        ("if is_scipy_available():\n    from scipy import stats\n", False),
        ("if is_x():\n    def f():\n        g()\n    if is_y():\n        import z\n", False),
        ("if torch.cuda.is_available():\n    train(model)\n", True),
        ("def broken(:\n", False),
    ],
)
def test_entry_point(text: str, expected: bool, tmp_path: Path) -> None:
    file = tmp_path / "script.py"
    file.write_text(text, encoding="utf-8")
    assert has_entry_point(file) is expected


SLOW = """
import time
from torch import nn


class {name}(nn.Module):
    def __init__(self):
        super().__init__()
        time.sleep({seconds})
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        return self.fc(x)
"""


def test_verify_port_time_is_over_names_a_limit_that_is_enough(tmp_path: Path) -> None:
    names = tuple(f"Net{number}" for number in range(4))
    text = "".join(SLOW.format(name=name, seconds=0.25) for name in names)
    first = verify(tmp_path, text, text, names, timeout_s=12.0)
    reasons = {item.reason for item in first.classes if item.status == "not-run"}
    assert reasons == {"time"}
    assert first.sufficient_s is not None
    (tmp_path / "again").mkdir()
    second = verify(tmp_path / "again", text, text, names, timeout_s=float(first.sufficient_s))
    assert [item.status for item in second.classes] == ["equal"] * 4
    assert second.sufficient_s is None


def test_verify_port_without_inputs_and_without_forward_says_so(tmp_path: Path) -> None:
    text = """
from torch import nn


class Base(nn.Module):
    pass


class Net(Base):
    def __init__(self, table):
        super().__init__()
        self.fc = nn.Linear(*table["sizes that only the program has"])

    def forward(self, x):
        return self.fc(x)


class Chosen(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.forward = self.forward_once

    def forward_once(self, x):
        return self.fc(x)
"""
    outcome = verify(tmp_path, text, text, ("Base", "Net", "Chosen"))
    base, net, chosen = outcome.classes
    assert (base.status, base.error_code, base.reason) == ("not-run", "no-forward", None)
    assert (net.status, net.reason) == ("not-run", "no-inputs")
    assert chosen.status == "equal"
    assert outcome.sufficient_s is None


@pytest.mark.parametrize(
    ("needed_s", "given_s", "enough"),
    [
        (131.0, 120.0, 200),
        (41.0, 40.0, 60),
        (0.0, 120.0, 250),
        (30.0, 120.0, 150),
        (900.0, 300.0, 1200),
    ],
)
def test_sufficient_seconds_are_rounded_up_and_more_than_given(
    needed_s: float, given_s: float, enough: int
) -> None:
    assert sufficient_seconds(needed_s, given_s) == enough


def processes_with(words: bytes) -> list[str]:
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if words in place.read_bytes():
                found.append(place.parent.name)
        except OSError:
            continue  # it has ended meanwhile
    return found


@pytest.mark.parametrize(
    "start",
    [
        "subprocess.Popen(['sleep', '{name}'])",
        "subprocess.Popen(['sleep', '{name}'], start_new_session=True)",
        "threading.Thread(target=lambda: time.sleep(600)).start()",
        "if os.fork() == 0:\n    time.sleep(600)",
    ],
    ids=["child", "child in a session", "thread", "fork"],
)
def test_verify_port_what_a_program_starts_neither_holds_nor_outlives_the_proof(
    start: str, tmp_path: Path
) -> None:
    seconds = f"600.{abs(hash(str(tmp_path))) % 10**9}"
    text = "import subprocess, threading\n" + NET.format(name="Net", body="pass")
    text += "\n" + start.format(name=seconds) + "\n"
    outcome = verify(tmp_path, text, text, ("Net",), examples=("Net(): torch.randn(2, 4)",))
    assert [item.status for item in outcome.classes] == ["equal"]
    words = f"sleep\0{seconds}\0".encode()
    limit = time.monotonic() + 60
    while processes_with(words) and time.monotonic() < limit:
        time.sleep(0.05)  # the answer comes a moment before they are ended
    assert processes_with(words) == []


def test_verify_port_error_with_escape_sequences_shows_none(tmp_path: Path) -> None:
    body = "raise ValueError('\\x1b[2J\\x1b]0;title\\x07\\x9b31m')"
    original = NET.format(name="Net", body="pass")
    port = NET.format(name="Net", body=body)
    outcome = verify(tmp_path, original, port, ("Net",), examples=("Net(): torch.randn(2, 4)",))
    (found,) = outcome.classes
    assert found.status == "different"
    assert found.detail.isprintable()


def test_verify_port_error_of_three_hundred_megabytes_is_cut_in_the_child(tmp_path: Path) -> None:
    original = NET.format(name="Net", body="pass")
    port = NET.format(name="Net", body="raise ValueError('x' * 300_000_000)")
    tracemalloc.start()
    outcome = verify(tmp_path, original, port, ("Net",), examples=("Net(): torch.randn(2, 4)",))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    (found,) = outcome.classes
    assert found.status == "different"
    assert len(found.detail) < 10_000
    assert peak < 20_000_000
