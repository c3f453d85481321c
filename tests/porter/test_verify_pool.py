"""Files that are compared at once: what is answered before, what counts, and what Ctrl-C leaves."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdl_cli.app import main
from fdl_cli.porter.ir.evidence import VerifyOutcome
from fdl_cli.porter.module_map import imports_first
from fdl_cli.porter.port_tree import port_tree
from fdl_cli.porter.tree_request import TreeRequest
from fdl_cli.porter.verify_pool import VerifyPool, comparisons_at_once
from fdl_cli.system.facts import HostFacts
from flodl_verify.protocol import ClassEvidence

NET = """
    import torch
    from torch import nn

    class Net{number}(nn.Module):
        def __init__(self):
            super().__init__()
            self.l = nn.Linear(3, {number} + 1)

        def forward(self, x):
            return torch.tanh(self.l(x))
    """


@dataclass(frozen=True)
class Ask:
    """A question about a file."""

    original: Path
    ported: Path


@dataclass(frozen=True)
class Said:
    """An answer, with the port that it was given for."""

    port: bytes
    differs: bool = False
    seconds: float = 2.0


def questions(folder, count):
    found = []
    for number in range(count):
        ported = folder / f"port{number}"
        ported.write_bytes(b"first")
        found.append(Ask(folder / str(number), ported))
    return found


def written(folder, files):
    for name, text in files.items():
        (folder / name).write_text(textwrap.dedent(text))
    return folder


def test_questions_are_answered_side_by_side(tmp_path):
    together = threading.Barrier(3)

    def answer(question):
        together.wait(timeout=20)
        return Said(question.ported.read_bytes())

    desk = VerifyPool(answer, jobs=3)
    asked = questions(tmp_path, 3)
    assert sorted(item.original for item in desk.ask(asked)) == [q.original for q in asked]


def test_no_more_than_jobs_are_at_work(tmp_path):
    at_work, most, lock = 0, 0, threading.Lock()

    def answer(question):
        nonlocal at_work, most
        with lock:
            at_work += 1
            most = max(most, at_work)
        time.sleep(0.02)
        with lock:
            at_work -= 1
        return Said(b"")

    desk = VerifyPool(answer, jobs=2)
    assert len(list(desk.ask(questions(tmp_path, 9)))) == 9
    assert most == 2


def test_an_answer_counts_once_and_for_the_same_port(tmp_path):
    calls = []

    def answer(question):
        calls.append(question)
        return Said(question.ported.read_bytes())

    desk = VerifyPool(answer, jobs=2)
    one, two = asked = questions(tmp_path, 2)
    list(desk.ask(asked))
    two.ported.write_bytes(b"second")
    assert desk(one).port == b"first"
    assert len(calls) == 2
    assert desk.saved_s == 2.0
    assert desk(two).port == b"second"
    assert len(calls) == 3
    desk(one)
    assert len(calls) == 4


def test_a_difference_is_looked_for_again_once_another_file_was_put_right(tmp_path):
    calls = []

    def answer(question):
        calls.append(question.original.name)
        return Said(b"", differs=question.original.name in "12" and len(calls) <= 4)

    desk = VerifyPool(answer, jobs=2)
    asked = questions(tmp_path, 4)
    list(desk.ask(asked))
    assert [desk(item).differs for item in asked] == [False, True, False, False]
    assert len(calls) == 5
    assert calls[-1] == "2"


def test_one_job_asks_nothing_before(tmp_path):
    desk = VerifyPool(lambda question: Said(b""), jobs=1)
    assert list(desk.ask(questions(tmp_path, 4))) == []


@given(st.dictionaries(st.integers(0, 7), st.sets(st.integers(0, 9)), min_size=8, max_size=8))
def test_what_is_imported_stands_before(graph):
    files = {number: Path(str(number)) for number in range(10)}

    def imported(file):
        return {files[item] for item in graph.get(int(file.name), ())}

    wanted = [files[number] for number in sorted(graph)]
    order = imports_first(wanted, imported)
    assert sorted(order) == wanted
    assert order == imports_first(wanted, imported)
    for place, file in enumerate(order):
        for other in order[place + 1 :]:
            # Only a circle of imports may stand the other way round.
            assert other not in imported(file) or _reaches(other, file, imported)


def _reaches(start, end, imported):
    seen, pending = set(), [start]
    while pending:
        file = pending.pop()
        if file == end:
            return True
        if file not in seen:
            seen.add(file)
            pending += imported(file)
    return False


@pytest.mark.parametrize(
    ("facts", "wanted"),
    [
        (HostFacts(), 1),
        (HostFacts(cpus=1, ram_bytes=64 << 30), 1),
        (HostFacts(cpus=1 << 20, cpu_quota=0.5, ram_bytes=64 << 30), 1),
        (HostFacts(cpus=1 << 20, ram_bytes=64 << 30, ram_limit_bytes=3 << 30), 1),
        (HostFacts(cpus=1 << 20, ram_bytes=1 << 30), 1),
    ],
)
def test_as_many_as_processors_and_memory_allow(facts, wanted):
    assert comparisons_at_once(facts) == wanted


def test_every_processor_is_used():
    mine = len(os.sched_getaffinity(0))
    assert comparisons_at_once(HostFacts(cpus=mine, ram_bytes=1 << 50)) == mine


def _evidence(name, status):
    return ClassEvidence(
        name=name,
        status=status,
        detail="a check",
        checks=(),
        example="",
        error_code=None,
        line=None,
    )


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_heir_is_not_blamed_for_a_base_that_was_put_back(tmp_path, jobs):
    """`a.py` differs as long as the class of `z.py` that it imports is a wrong graph."""
    source = written(
        tmp_path,
        {
            "a.py": """
                import torch.nn as nn
                from z import Inner

                class Outer(nn.Module):
                    def __init__(self):
                        super().__init__()
                        self.inner = Inner()

                    def forward(self, x):
                        return self.inner(x).relu()
                """,
            "z.py": """
                import torch.nn as nn

                class Inner(nn.Module):
                    def forward(self, x):
                        return x.tanh().sin()
                """,
        },
    )

    def verify(request):
        folder = request.ported.parent
        wrong = "FlowModule" in (folder / "z.py").read_text()
        found = [_evidence(name, "different" if wrong else "equal") for name in request.classes]
        return VerifyOutcome(classes=tuple(found), source_runs=True, error=None, seconds=0.1)

    request = TreeRequest(
        paths=(source,), output=tmp_path / "out", in_place=False, write=False, force=False,
        verify=verify, prove_script=None, examples=(), timeout_s=60, want_diff=False,
        want_plan=False, jobs=jobs,
    )  # fmt: skip
    data, _ = port_tree(request, lambda text: None)
    states = {item.name: item.status for file in data.files for item in file.classes}
    assert states == {"Outer": "graph", "Inner": "kept"}


def _report(folder, capsys, *words):
    capsys.readouterr()
    code = main(["port", str(folder), "--json", "--force", *words])
    files = json.loads(capsys.readouterr().out)["data"]["files"]
    for file in files:
        assert file.pop("seconds") > 0
        del file["output"], file["summary"]
    return code, files


@pytest.mark.slow
def test_at_once_finds_what_one_after_another_finds(tmp_path, capsys):
    source = tmp_path / "src"
    source.mkdir()
    nets = {f"net{number}.py": NET.replace("{number}", str(number)) for number in range(3)}
    nets["train.py"] = """
        import torch
        from net1 import Net1

        model = Net1()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            loss = model(torch.ones(2, 3)).sum()
            loss.backward()
            optimizer.step()
        """
    nets["other.py"] = nets["train.py"].replace("net1", "net2").replace("Net1", "Net2")
    written(source, nets)
    found = [
        _report(source, capsys, "-o", str(tmp_path / jobs), "--jobs", jobs) for jobs in ("1", "3")
    ]
    assert found[0] == found[1]
    code, files = found[0]
    assert code == 0
    assert {item["verify"]["status"] for file in files for item in file["classes"]} == {"equal"}
    assert [file["script"]["status"] for file in files if file["script"]] == ["equal", "equal"]


@pytest.mark.slow
def test_ctrl_c_ends_all_that_are_at_work(tmp_path):
    hanging = "import time\ntime.sleep(600)\n" + textwrap.dedent(NET.replace("{number}", "1"))
    for number in range(3):
        (tmp_path / f"net{number}.py").write_text(hanging)
    command = [sys.executable, "-m", "fdl_cli", "port", str(tmp_path), "--jobs", "2"]
    child = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    # A server, and for each of two files a judge and a worker.
    deadline = time.monotonic() + 60
    while len(at_work := _descendants(child.pid)) < 5 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert len(at_work) == 5
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=30)
    assert child.returncode == 130, errors
    deadline = time.monotonic() + 10
    while (left := _alive(at_work)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left == set()
    assert not list(tmp_path.glob("*_flodl.py"))


def _descendants(root):
    """Return the processes that a process has started, and those that these have."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                words = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = int(words[1])
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {root}


def _alive(pids):
    alive = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                alive.add(pid)
    return alive
